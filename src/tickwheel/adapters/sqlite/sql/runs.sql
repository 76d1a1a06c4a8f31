-- name: expired
-- In-flight runs whose lease is past, or whose worker is neither this process nor one whose session goes on.
SELECT json_group_array(json_array(scheduled_ms, hex(job_id)))
  FROM (SELECT * FROM (SELECT lease_ms, job_id, scheduled_ms FROM runs
                        WHERE state BETWEEN 1 AND 3 AND worker = :worker AND lease_ms <= :now_ms
                        ORDER BY lease_ms LIMIT :limit)
        UNION ALL
        SELECT * FROM (SELECT r.lease_ms, r.job_id, r.scheduled_ms
                         FROM worker_sessions AS s
                        CROSS JOIN runs AS r
                           ON r.worker = s.worker AND r.state BETWEEN 1 AND 3 AND r.lease_ms <= :now_ms
                        ORDER BY r.lease_ms LIMIT :limit)
        UNION ALL
        SELECT * FROM (SELECT lease_ms, job_id, scheduled_ms FROM runs
                        WHERE state BETWEEN 1 AND 3 AND worker < :worker
                          AND worker NOT IN (SELECT worker FROM worker_sessions) LIMIT :limit)
        UNION ALL
        SELECT * FROM (SELECT lease_ms, job_id, scheduled_ms FROM runs
                        WHERE state BETWEEN 1 AND 3 AND worker > :worker
                          AND worker NOT IN (SELECT worker FROM worker_sessions) LIMIT :limit)
        ORDER BY lease_ms, job_id, scheduled_ms LIMIT :limit)

-- name: runs_by_key
-- batch: scheduled_ms
SELECT json_group_array(json_array({run}))
  FROM batch AS b
 CROSS JOIN runs AS r ON r.scheduled_ms = b.scheduled_ms AND r.job_id = b.job_id
 CROSS JOIN jobs AS j ON j.job_id = b.job_id
  LEFT JOIN workers AS w ON w.worker = r.worker

-- name: attempts
SELECT json_group_array(json_array(attempt, fence, w.name, started_ms, finished_ms, outcome, http_status, error,
                                     excerpt))
  FROM (SELECT * FROM attempts WHERE scheduled_ms = :scheduled_ms AND job_id = :job_id ORDER BY fence) AS a
  LEFT JOIN workers AS w ON w.worker = a.worker

-- name: runs_of_job
-- Latest first, before an instant.
SELECT json_group_array(json_array({run}))
  FROM (SELECT scheduled_ms, job_id FROM runs
         WHERE job_id = :job_id AND listed = 1 AND scheduled_ms < :before_ms
         ORDER BY scheduled_ms DESC LIMIT :limit) AS k
 CROSS JOIN runs AS r ON r.scheduled_ms = k.scheduled_ms AND r.job_id = k.job_id
 CROSS JOIN jobs AS j ON j.job_id = r.job_id AND j.tenant_id = :tenant_id
  LEFT JOIN workers AS w ON w.worker = r.worker

-- name: run_of_one_off
SELECT json_group_array(json_array({run}))
  FROM jobs AS j
 CROSS JOIN runs AS r ON r.scheduled_ms = j.first_instant_ms AND r.job_id = j.job_id
  LEFT JOIN workers AS w ON w.worker = r.worker
 WHERE j.job_id = :job_id AND j.tenant_id = :tenant_id AND r.listed = 0 AND r.scheduled_ms < :before_ms

-- name: attempt_in_flight
SELECT last FROM runs WHERE scheduled_ms = :scheduled_ms AND job_id = :job_id

-- name: result
SELECT json_group_array(json_array(result, dropped)) FROM results WHERE scheduled_ms = :scheduled_ms AND job_id = :job_id

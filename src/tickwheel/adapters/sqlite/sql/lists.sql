-- name: newest
SELECT json_group_array(hex(job_id))
  FROM (SELECT job_id FROM jobs WHERE tenant_id = :tenant_id AND job_id < :before ORDER BY job_id DESC LIMIT :count)

-- name: count_of_tenant
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE tenant_id = :tenant_id AND state <> 4 LIMIT :count)

-- name: newest_with_tag
SELECT json_group_array(hex(job_id))
  FROM (SELECT job_id FROM job_tags WHERE tenant_id = :tenant_id AND tag = :tag AND job_id < :before
         ORDER BY job_id DESC LIMIT :count)

-- name: newest_in_state
SELECT json_group_array(hex(job_id))
  FROM (SELECT job_id FROM (SELECT job_id FROM jobs
                             WHERE tenant_id = :tenant_id AND state = :job_state AND state BETWEEN 1 AND 3
                               AND job_id < :before ORDER BY job_id DESC LIMIT :count)
         UNION
        SELECT job_id FROM (SELECT job_id FROM runs
                             WHERE state = :run_state AND state >= 5 AND listed = 0 AND job_id < :before
                             ORDER BY job_id DESC LIMIT :count)
         ORDER BY job_id DESC LIMIT :count)

-- name: in_flight
SELECT json_group_array(hex(job_id)) FROM (SELECT job_id FROM runs WHERE state BETWEEN 1 AND 3 LIMIT :count)

-- name: named_like
SELECT json_group_array(hex(job_id))
  FROM (SELECT job_id FROM jobs WHERE tenant_id = :tenant_id AND name >= :name_from AND name < :name_to LIMIT :count)

-- name: soonest
SELECT json_group_array(json_array(due_ms, hex(job_id)))
  FROM (SELECT due_ms, job_id FROM timers
         WHERE (due_ms, job_id) > (:due_ms, :after) AND due_ms < :until_ms AND gen > 0
         ORDER BY due_ms, job_id LIMIT :count)

-- name: facts
-- What the filters look at. The due time is that of the occurrence that has no ledger row yet.
SELECT json_group_array(json_array(
         hex(j.job_id), j.tenant_id, j.name, j.schedule_type, j.lane, j.state, j.flags & 4,
         (SELECT r.state FROM runs AS r WHERE r.scheduled_ms = j.first_instant_ms AND r.job_id = j.job_id),
         iif(j.flags & 4,
             (SELECT min(t.due_ms) FROM timers AS t
               WHERE t.job_id = j.job_id AND t.flags & 4 AND t.gen > 0
                 AND NOT EXISTS (SELECT 1 FROM runs AS r
                                  WHERE r.scheduled_ms = t.scheduled_ms AND r.job_id = t.job_id)),
             (SELECT t.due_ms FROM timers AS t
               WHERE t.due_ms = j.first_due_ms AND t.job_id = j.job_id AND t.scheduled_ms = j.first_instant_ms
                 AND t.gen = j.first_gen
                 AND NOT EXISTS (SELECT 1 FROM runs AS r
                                  WHERE r.scheduled_ms = t.scheduled_ms AND r.job_id = t.job_id))),
         j.tags, octet_length(j.payload)))
  FROM carray(:wanted) CROSS JOIN jobs AS j ON j.job_id = carray.value

-- name: dead_letters
SELECT json_group_array(json_array({run}, j.name, k.failed_ms, k.cause))
  FROM (SELECT * FROM (SELECT scheduled_ms, job_id, failed_ms, cause FROM dead_letters
                        WHERE tenant_id = :tenant_id AND failed_ms = :failed_ms
                          AND (job_id, scheduled_ms) > (:job_id, :scheduled_ms)
                        ORDER BY job_id, scheduled_ms LIMIT :limit)
         UNION ALL
        SELECT * FROM (SELECT scheduled_ms, job_id, failed_ms, cause FROM dead_letters
                        WHERE tenant_id = :tenant_id AND failed_ms < :failed_ms
                        ORDER BY failed_ms DESC, job_id, scheduled_ms LIMIT :limit)
        LIMIT :limit) AS k
 CROSS JOIN runs AS r ON r.scheduled_ms = k.scheduled_ms AND r.job_id = k.job_id
 CROSS JOIN jobs AS j ON j.job_id = r.job_id
  LEFT JOIN workers AS w ON w.worker = r.worker

-- name: drop_dead
DELETE FROM dead_letters WHERE scheduled_ms = :scheduled_ms AND job_id = :job_id AND tenant_id = :tenant_id

-- name: totals
SELECT jobs, waiting, dead_letters FROM totals

-- name: touch
-- Run with 1 and -1: SQLite writes no page when an UPDATE changes nothing.
UPDATE totals SET jobs = jobs + :step

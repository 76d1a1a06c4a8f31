-- name: candidates
-- A bounded piece of the ledger from a position on, oldest instants first.
SELECT json_group_array(json_array(r.scheduled_ms, hex(r.job_id), r.state, r.finished_ms, r.listed,
                                     j.idempotency_key IS NOT NULL AND j.flags & 4 = 0,
                                     d.job_id IS NOT NULL))
  FROM (SELECT scheduled_ms, job_id, state, finished_ms, listed FROM runs
         WHERE (scheduled_ms, job_id) > (:scheduled_ms, :job_id) AND scheduled_ms < :cutoff_ms
         ORDER BY scheduled_ms, job_id LIMIT :limit) AS r
 CROSS JOIN jobs AS j ON j.job_id = r.job_id
  LEFT JOIN dead_letters AS d ON d.scheduled_ms = r.scheduled_ms AND d.job_id = r.job_id

-- name: delete_runs
-- batch: scheduled_ms
DELETE FROM runs WHERE (scheduled_ms, job_id) IN (SELECT scheduled_ms, job_id FROM batch)

-- name: delete_attempts
-- batch: scheduled_ms
DELETE FROM attempts WHERE (scheduled_ms, job_id) IN (SELECT scheduled_ms, job_id FROM batch)

-- name: delete_results
-- batch: scheduled_ms
DELETE FROM results WHERE (scheduled_ms, job_id) IN (SELECT scheduled_ms, job_id FROM batch)

-- name: over
-- A bounded piece of the jobs that ended, from a position on; those with an idempotency key stay longer.
SELECT json_group_array(json_array(
         updated_ms, hex(job_id),
         max(updated_ms, created_ms) < iif(idempotency_key IS NULL, :cutoff_ms, :key_cutoff_ms)))
  FROM (SELECT job_id, updated_ms, created_ms, idempotency_key FROM jobs
         WHERE state BETWEEN 2 AND 4 AND (updated_ms, job_id) > (:updated_ms, :job_id) AND updated_ms < :cutoff_ms
         ORDER BY updated_ms, job_id LIMIT :limit)

-- name: spent
-- Of these jobs, the ones that nothing refers to any more.
SELECT json_group_array(json_array(hex(j.job_id), j.tenant_id, j.idempotency_key, j.tags))
  FROM carray(:wanted) CROSS JOIN jobs AS j ON j.job_id = carray.value
 WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.job_id = j.job_id AND r.listed = 1)
   AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.scheduled_ms = j.first_instant_ms AND r.job_id = j.job_id)
   AND NOT EXISTS (SELECT 1 FROM timers AS t WHERE t.job_id = j.job_id AND t.flags & 4 AND t.gen > 0)
   AND NOT EXISTS (SELECT 1 FROM timers AS t
                    WHERE t.due_ms = j.first_due_ms AND t.job_id = j.job_id AND t.scheduled_ms = j.first_instant_ms
                      AND t.gen = j.first_gen)

-- name: delete_jobs
DELETE FROM jobs WHERE job_id IN (SELECT value FROM carray(:wanted))

-- name: delete_keys
-- batch: tenant_id idempotency_key
DELETE FROM idempotency_keys
 WHERE (tenant_id, idempotency_key, job_id) IN (SELECT tenant_id, idempotency_key, job_id FROM batch)

-- name: delete_tags
-- batch: tenant_id tag
DELETE FROM job_tags WHERE (tenant_id, tag, job_id) IN (SELECT tenant_id, tag, job_id FROM batch)

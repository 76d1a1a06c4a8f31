-- name: insert_jobs
-- batch: tenant_id name schedule_type lane flags state version created_ms updated_ms effective_ms scheduled_ms due_ms instant_ms gen named idempotency_key tags spec payload
INSERT INTO jobs (job_id, tenant_id, name, schedule_type, lane, flags, state, version, created_ms, updated_ms,
                  effective_ms, scheduled_ms, first_due_ms, first_instant_ms, first_gen, named, idempotency_key,
                  tags, spec, payload)
SELECT job_id, tenant_id, name, schedule_type, lane, flags, state, version, created_ms, updated_ms, effective_ms,
       scheduled_ms, iif(flags & 4, NULL, due_ms), iif(flags & 4, NULL, coalesce(instant_ms, scheduled_ms)), iif(flags & 4, NULL, gen),
       named, idempotency_key, tags, spec, payload
  FROM batch

-- name: insert_first_timers
-- The same rows as insert_jobs; jobs without an occurrence have no timer.
WITH batch AS (SELECT substr(:ids, 16 * key + 1, 16) AS job_id, value ->> 11 AS due_ms, value ->> 12 AS instant_ms,
                      value ->> 13 AS gen, value ->> 4 AS flags
                 FROM jsonb_each(:rows))
INSERT INTO timers (due_ms, job_id, scheduled_ms, gen, flags, armed_ms)
SELECT due_ms, job_id, instant_ms, gen, flags, :now_ms FROM batch WHERE due_ms IS NOT NULL
    ON CONFLICT DO NOTHING

-- name: insert_tags
-- batch: tenant_id tag
INSERT INTO job_tags (tenant_id, tag, job_id)
SELECT tenant_id, tag, job_id FROM batch WHERE true
    ON CONFLICT DO NOTHING

-- name: stored_jobs
SELECT json_group_array(hex(jobs.job_id)) FROM carray(:wanted) CROSS JOIN jobs ON jobs.job_id = carray.value

-- name: stored_keys
SELECT json_group_array(json_array(b.key, hex(k.job_id), hex(k.request_hash), k.next_ms, k.created_ms))
  FROM jsonb_each(:rows) AS b
 CROSS JOIN idempotency_keys AS k ON k.tenant_id = b.value ->> 0 AND k.idempotency_key = b.value ->> 1

-- name: insert_keys
-- batch: tenant_id idempotency_key request_hash next_ms created_ms
INSERT INTO idempotency_keys (tenant_id, idempotency_key, job_id, request_hash, next_ms, created_ms)
SELECT tenant_id, idempotency_key, job_id, unhex(request_hash), next_ms, created_ms FROM batch

-- name: insert_jobs
-- Definitions with their first timers, in one statement; it gives the ids that were written.
--
-- `clock` is read after the transaction drew its xid, and the due times are moved up to it in the very statement
-- that inserts them (A2). `k` waits for another transaction that is inserting the same key (and is sorted, so that
-- two batches do not wait for each other); a job whose key it did not get is not written. Flags of jobs have no bucket
-- of the tenant (bits 4 to 14): versions that know of none have one byte for them.
WITH clock AS MATERIALIZED (
  SELECT coalesce(%(pin)s::int8, tickwheel.clock_ms()) AS now_ms
    FROM (SELECT pg_current_xact_id() AS xid OFFSET 0) AS drawn WHERE xid IS NOT NULL
), x AS MATERIALIZED (
  SELECT * FROM unnest(%(job_id)s::uuid[], %(home)s::int4[], %(shard)s::int2[], %(lane)s::int2[], %(flags)s::int2[],
                       %(state)s::int2[], %(version)s::int4[], %(created_ms)s::int8[], %(updated_ms)s::int8[],
                       %(effective_ms)s::int8[], %(scheduled_ms)s::int8[], %(due_ms)s::int8[], %(instant_ms)s::int8[],
                       %(gen)s::int4[], %(named)s::int2[], %(tenant_id)s::text[], %(name)s::text[],
                       %(schedule_type)s::text[], %(idempotency_key)s::text[], %(request_hash)s::bytea[],
                       %(spec)s::text[], %(payload)s::text[])
       AS x (job_id, home, shard, lane, flags, state, version, created_ms, updated_ms, effective_ms, scheduled_ms,
             due_ms, instant_ms, gen, named, tenant_id, name, schedule_type, idempotency_key, request_hash, spec,
             payload)
), k AS (
  INSERT INTO tickwheel.idempotency_keys (tenant_id, idempotency_key, job_id, request_hash, next_ms, created_ms)
  SELECT tenant_id, idempotency_key, job_id, request_hash, nullif(due_ms, -1), created_ms
    FROM x WHERE idempotency_key IS NOT NULL ORDER BY tenant_id, idempotency_key
      ON CONFLICT DO NOTHING
  RETURNING job_id
), j AS (
  INSERT INTO tickwheel.jobs (job_id, home, lane, flags, state, version, created_ms, updated_ms, effective_ms,
                              scheduled_ms, first_due_ms, first_instant_ms, first_gen, named, tenant_id, name,
                              schedule_type, idempotency_key, tags, spec, payload)
  SELECT x.job_id, home, lane, flags & 15, state, version, created_ms, updated_ms, effective_ms, nullif(scheduled_ms, -1),
         CASE WHEN flags & 4 = 0 AND due_ms >= 0 THEN greatest(due_ms, clock.now_ms) END,
         CASE WHEN flags & 4 = 0 THEN coalesce(nullif(instant_ms, -1), nullif(scheduled_ms, -1)) END,
         CASE WHEN flags & 4 = 0 AND due_ms >= 0 THEN gen END,
         named = 1, tenant_id, name, schedule_type, idempotency_key, g.tags, spec, payload
    FROM x CROSS JOIN clock
    LEFT JOIN (SELECT job_id, array_agg(tag ORDER BY n) AS tags
                 FROM unnest(%(tagged)s::uuid[], %(tags)s::text[]) WITH ORDINALITY AS t (job_id, tag, n)
                GROUP BY job_id) AS g ON g.job_id = x.job_id
   WHERE idempotency_key IS NULL OR x.job_id IN (SELECT k.job_id FROM k)
      ON CONFLICT DO NOTHING
  RETURNING job_id
), t AS (
  INSERT INTO tickwheel.timers (due_ms, job_id, scheduled_ms, armed_ms, gen, shard, flags)
  SELECT greatest(x.due_ms, clock.now_ms), x.job_id, x.instant_ms, clock.now_ms, x.gen, x.shard, x.flags
    FROM x JOIN j ON j.job_id = x.job_id CROSS JOIN clock
   WHERE x.due_ms >= 0
      ON CONFLICT DO NOTHING
), g AS (
  INSERT INTO tickwheel.job_tags (tenant_id, tag, job_id)
  SELECT x.tenant_id, t.tag, t.job_id
    FROM unnest(%(tagged)s::uuid[], %(tags)s::text[]) AS t (job_id, tag)
    JOIN j ON j.job_id = t.job_id JOIN x ON x.job_id = t.job_id
      ON CONFLICT DO NOTHING
), n AS (
  INSERT INTO tickwheel.job_names (tenant_id, name, job_id)
  SELECT x.tenant_id, x.name, x.job_id FROM x JOIN j ON j.job_id = x.job_id WHERE x.named = 1
)
SELECT job_id FROM j

-- name: stored_keys
SELECT x.n, k.job_id, k.request_hash, k.next_ms, k.created_ms
  FROM unnest(%(tenants)s::text[], %(keys)s::text[]) WITH ORDINALITY AS x (tenant_id, idempotency_key, n)
 CROSS JOIN LATERAL (
   SELECT * FROM tickwheel.idempotency_keys AS k
    WHERE k.tenant_id = x.tenant_id AND k.idempotency_key = x.idempotency_key
   OFFSET 0
 ) AS k

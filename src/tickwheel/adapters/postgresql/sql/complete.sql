-- name: succeed_shortly
-- plan: lookups
-- Plain successes of attempts that were never renewed, so that no lease has to go; guarded by token and state (F6),
-- and a HOT update each, because nothing written is in an index. What was written is counted.
UPDATE {runs} AS r
   SET state = 4, attempt = r.attempt + (r.last AND r.state <> 3)::int4, lost_count = x.lost_count,
       started_ms = coalesce(nullif(x.started_ms, 0), r.started_ms),
       finished_ms = coalesce(nullif(x.finished_ms, 0), %(pin)s::int8, tickwheel.clock_ms()), lease_ms = NULL,
       http_status = x.http_status, error = NULL
  FROM unnest(%(shard)s::int2[], %(scheduled)s::int8[], %(id)s::uuid[], %(fence)s::int8[], %(lost)s::int4[],
              %(started)s::int8[], %(finished)s::int8[], %(http)s::int2[])
       AS x (shard, scheduled_ms, job_id, fence, lost_count, started_ms, finished_ms, http_status)
 WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id AND r.fence = x.fence
   AND r.state IN (1, 2, 3) AND r.beat_ms IS NULL
   {prunes runs: AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8}

-- name: succeeded
-- Which of these runs have ended well under these very tokens: a token has one outcome, whoever asks.
SELECT x.n FROM unnest(%(shard)s::int2[], %(scheduled)s::int8[], %(id)s::uuid[], %(fence)s::int8[]) WITH ORDINALITY
               AS x (shard, scheduled_ms, job_id, fence, n)
 CROSS JOIN LATERAL (
   SELECT FROM tickwheel.runs AS r
    WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id AND r.fence = x.fence
      AND r.state = 4
      AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8
   OFFSET 0
 ) AS r

-- name: succeed
-- plan: lookups
-- Plain successes: guarded by token and state (F6), and a HOT update each, because nothing written is in an index.
-- It tells how many it wrote and, if that is not all, which. A lease that was renewed goes with it (F7).
WITH x AS MATERIALIZED (
  SELECT * FROM unnest(%(shard)s::int2[], %(scheduled)s::int8[], %(id)s::uuid[], %(fence)s::int8[], %(lost)s::int4[],
                       %(started)s::int8[], %(finished)s::int8[], %(http)s::int2[])
       WITH ORDINALITY AS x (shard, scheduled_ms, job_id, fence, lost_count, started_ms, finished_ms, http_status, n)
), done AS (
  UPDATE tickwheel.runs AS r
     SET state = 4, attempt = r.attempt + (r.last AND r.state <> 3)::int4, lost_count = x.lost_count,
         started_ms = coalesce(nullif(x.started_ms, 0), r.started_ms),
         finished_ms = coalesce(nullif(x.finished_ms, 0), %(pin)s::int8, tickwheel.clock_ms()), lease_ms = NULL,
         http_status = x.http_status, error = NULL
    FROM x
   WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id AND r.fence = x.fence
     AND r.state IN (1, 2, 3)
     AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8
  RETURNING x.n, r.shard, r.scheduled_ms, r.job_id, r.beat_ms
), gone AS (
  DELETE FROM tickwheel.leases AS l USING done
   WHERE done.beat_ms IS NOT NULL
     AND l.shard = done.shard AND l.scheduled_ms = done.scheduled_ms AND l.job_id = done.job_id
)
SELECT count(*), CASE WHEN count(*) < %(total)s::int8 THEN array_agg(n) END FROM done

-- name: clock
-- Begins a completion that needs a look; draws the xid before the time is read.
SELECT coalesce(%(pin)s::int8, tickwheel.clock_ms())
  FROM (SELECT pg_current_xact_id() AS xid OFFSET 0) AS drawn WHERE xid IS NOT NULL

-- name: lock_runs
-- What a completion has to know, per row of the batch, which comes sorted by key (no deadlocks).
SELECT x.n, r.state, r.gen, r.fence, r.attempt, r.last, r.unstarted_count, r.worker,
       coalesce((SELECT dead FROM tickwheel.nodes WHERE number = r.worker), false),
       greatest(r.lease_ms, (SELECT l.lease_ms FROM tickwheel.leases AS l
                              WHERE l.shard = x.shard AND l.scheduled_ms = x.scheduled_ms AND l.job_id = x.job_id
                                AND l.fence = r.fence)),
       r.due_ms, r.started_ms, r.error, (j.flags & ~3) | r.lane, j.tenant_id
  FROM unnest(%(shards)s::int2[], %(scheduled)s::int8[], %(ids)s::uuid[], %(homes)s::int4[]) WITH ORDINALITY
       AS x (shard, scheduled_ms, job_id, home, n)
 CROSS JOIN LATERAL (
   SELECT * FROM tickwheel.runs AS r
    WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id
      AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8
      FOR NO KEY UPDATE
 ) AS r
 CROSS JOIN LATERAL (
   SELECT flags, tenant_id FROM tickwheel.jobs AS j
    WHERE j.home = x.home AND j.job_id = x.job_id AND j.home = ANY (%(home_set)s::int4[])
   OFFSET 0
 ) AS j

-- name: end_runs
-- plan: lookups
UPDATE tickwheel.runs AS r
   SET state = x.state, attempt = x.attempt, unstarted_count = x.unstarted_count, lost_count = x.lost_count,
       started_ms = nullif(x.started_ms, -1), finished_ms = x.finished_ms, lease_ms = NULL,
       http_status = x.http_status, error = x.error
  FROM unnest(%(shard)s::int2[], %(scheduled_ms)s::int8[], %(job_id)s::uuid[], %(fence)s::int8[], %(state)s::int2[],
              %(attempt)s::int4[], %(unstarted_count)s::int4[], %(lost_count)s::int4[], %(started_ms)s::int8[],
              %(finished_ms)s::int8[], %(http_status)s::int2[], %(error)s::text[])
       AS x (shard, scheduled_ms, job_id, fence, state, attempt, unstarted_count, lost_count, started_ms, finished_ms,
             http_status, error)
 WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id AND r.fence = x.fence
   AND r.state IN (1, 2, 3)
   AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8

-- name: wait_again
-- plan: lookups
UPDATE tickwheel.runs AS r
   SET state = 0, gen = x.gen, attempt = x.attempt, unstarted_count = x.unstarted_count, lost_count = x.lost_count,
       due_ms = x.due_ms, timer_gen = -x.gen, http_status = x.http_status, error = x.error,
       worker = NULL, started_ms = NULL, lease_ms = NULL, beat_ms = NULL
  FROM unnest(%(shard)s::int2[], %(scheduled_ms)s::int8[], %(job_id)s::uuid[], %(fence)s::int8[], %(gen)s::int4[],
              %(attempt)s::int4[], %(unstarted_count)s::int4[], %(lost_count)s::int4[], %(due_ms)s::int8[],
              %(http_status)s::int2[], %(error)s::text[])
       AS x (shard, scheduled_ms, job_id, fence, gen, attempt, unstarted_count, lost_count, due_ms, http_status, error)
 WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id AND r.fence = x.fence
   AND r.state IN (1, 2, 3)
   AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8

-- name: record_attempts
INSERT INTO tickwheel.attempts (shard, scheduled_ms, job_id, fence, attempt, worker, started_ms, finished_ms, outcome,
                                http_status, error, excerpt)
SELECT shard, scheduled_ms, job_id, fence, attempt, nullif(worker, -1), nullif(started_ms, -1), finished_ms, outcome,
       http_status, error, excerpt
  FROM unnest(%(shard)s::int2[], %(scheduled_ms)s::int8[], %(job_id)s::uuid[], %(fence)s::int8[], %(attempt)s::int4[],
              %(worker)s::int4[], %(started_ms)s::int8[], %(finished_ms)s::int8[], %(outcome)s::int2[],
              %(http_status)s::int2[], %(error)s::text[], %(excerpt)s::text[])
       AS x (shard, scheduled_ms, job_id, fence, attempt, worker, started_ms, finished_ms, outcome, http_status, error,
             excerpt)
    ON CONFLICT DO NOTHING

-- name: bury
INSERT INTO tickwheel.dead_letters (shard, scheduled_ms, job_id, tenant_id, failed_ms, cause)
SELECT shard, scheduled_ms, job_id, tenant_id, failed_ms, cause
  FROM unnest(%(shard)s::int2[], %(scheduled_ms)s::int8[], %(job_id)s::uuid[], %(tenant_id)s::text[],
              %(failed_ms)s::int8[], %(cause)s::text[]) AS x (shard, scheduled_ms, job_id, tenant_id, failed_ms, cause)
    ON CONFLICT (shard, scheduled_ms, job_id) DO UPDATE SET failed_ms = excluded.failed_ms, cause = excluded.cause

-- name: note_drops
-- For rules of notification, as the trigger of dead letters does.
INSERT INTO tickwheel.notices (kind, tenant_id, job_id, scheduled_ms, at_ms, subject, detail)
SELECT 'run.dropped', x.tenant_id, x.job_id, x.scheduled_ms, x.failed_ms, '', x.cause
  FROM unnest(%(scheduled_ms)s::int8[], %(job_id)s::uuid[], %(tenant_id)s::text[], %(failed_ms)s::int8[],
              %(cause)s::text[]) AS x (scheduled_ms, job_id, tenant_id, failed_ms, cause)
 WHERE EXISTS (SELECT FROM tickwheel.records AS r WHERE r.kind = 'notification' AND r.tenant_id IN (x.tenant_id, ''))

-- name: record_results
INSERT INTO tickwheel.results (shard, scheduled_ms, job_id, result, dropped)
SELECT shard, scheduled_ms, job_id, result, dropped
  FROM unnest(%(shard)s::int2[], %(scheduled_ms)s::int8[], %(job_id)s::uuid[], %(result)s::text[], %(dropped)s::text[])
       AS x (shard, scheduled_ms, job_id, result, dropped)
    ON CONFLICT DO NOTHING

-- name: note_progress
-- plan: lookups
-- What attempts in flight say of themselves, under their tokens; it goes with the lease.
UPDATE tickwheel.leases AS l SET progress = x.progress::real, note = x.note
  FROM unnest(%(shard)s::int2[], %(scheduled)s::int8[], %(id)s::uuid[], %(fence)s::int8[], %(progress)s::text[],
              %(note)s::text[]) AS x (shard, scheduled_ms, job_id, fence, progress, note)
 WHERE l.shard = x.shard AND l.scheduled_ms = x.scheduled_ms AND l.job_id = x.job_id AND l.fence = x.fence

-- name: drop_leases
-- plan: lookups
DELETE FROM tickwheel.leases AS l
 USING unnest(%(shard)s::int2[], %(scheduled_ms)s::int8[], %(job_id)s::uuid[]) AS x (shard, scheduled_ms, job_id)
 WHERE l.shard = x.shard AND l.scheduled_ms = x.scheduled_ms AND l.job_id = x.job_id

-- name: renew
-- plan: lookups
-- A renewed attempt has a row in `leases`, by which it is found when it stops being renewed.
WITH x AS MATERIALIZED (
  SELECT * FROM unnest(%(shard)s::int2[], %(scheduled)s::int8[], %(id)s::uuid[], %(fence)s::int8[], %(started)s::int8[],
                       %(lease)s::int8[], %(beat)s::int8[], %(running)s::int2[])
       WITH ORDINALITY AS x (shard, scheduled_ms, job_id, fence, started_ms, lease_ms, beat_ms, running, n)
), held AS (
  UPDATE tickwheel.runs AS r
     SET state = CASE WHEN x.running = 1 THEN 3 ELSE r.state END,
         attempt = r.attempt + (x.running = 1 AND r.last AND r.state <> 3)::int4,
         started_ms = coalesce(nullif(x.started_ms, 0), r.started_ms), lease_ms = x.lease_ms, beat_ms = x.beat_ms
    FROM x
   WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id AND r.fence = x.fence
     AND r.state IN (1, 2, 3)
     AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8
  RETURNING x.n, r.shard, r.scheduled_ms, r.job_id, r.fence, r.lease_ms, r.worker
), kept AS (
  INSERT INTO tickwheel.leases (shard, scheduled_ms, job_id, fence, lease_ms, worker)
  SELECT DISTINCT ON (shard, scheduled_ms, job_id) shard, scheduled_ms, job_id, fence, lease_ms, worker
    FROM held ORDER BY shard, scheduled_ms, job_id
      ON CONFLICT (shard, scheduled_ms, job_id)
      DO UPDATE SET fence = excluded.fence, lease_ms = excluded.lease_ms, worker = excluded.worker,
                    progress = CASE WHEN leases.fence = excluded.fence THEN leases.progress END,
                    note = CASE WHEN leases.fence = excluded.fence THEN leases.note END
)
SELECT count(*), CASE WHEN count(*) < %(total)s::int8 THEN array_agg(n) END FROM held

-- name: expired
-- Renewed attempts whose lease is past, or whose worker is proved dead.
SELECT scheduled_ms, job_id FROM (
  (SELECT l.lease_ms, l.job_id, l.scheduled_ms FROM tickwheel.leases AS l
    WHERE l.lease_ms <= %(now)s::int8 AND (%(shards)s::int2[] IS NULL OR l.shard = ANY (%(shards)s::int2[]))
    ORDER BY l.lease_ms LIMIT %(limit)s::int8)
  UNION
  (SELECT l.lease_ms, l.job_id, l.scheduled_ms
     FROM tickwheel.nodes AS n JOIN tickwheel.leases AS l ON l.worker = n.number
    WHERE n.dead AND (%(shards)s::int2[] IS NULL OR l.shard = ANY (%(shards)s::int2[]))
    ORDER BY l.lease_ms LIMIT %(limit)s::int8)
) AS found ORDER BY lease_ms, job_id, scheduled_ms LIMIT %(limit)s::int8

-- name: claim_once
-- plan: lookups
-- First claims of one-off runs whose jobs were seen to be live at some count of changes of their shard. A shard that
-- still has that count, and keeps it until this commits, has had no edit, pause or cancel since (E1): no job is
-- looked at. Shards in which something is being changed are left out instead of waited for. A row that is there
-- already fails the whole (nobody has claimed it, but for a takeover or an answer that was lost). A transaction of
-- its own; what it won is counted. `me` and `clock` as in `claim_first`.
WITH me AS MATERIALIZED (
  SELECT number FROM tickwheel.nodes WHERE incarnation = %(me)s AND NOT deposed FOR SHARE
), clock AS MATERIALIZED (
  SELECT coalesce(%(pin)s::int8, tickwheel.clock_ms()) AS now_ms
), unchanged AS MATERIALIZED (
  SELECT s.shard FROM me
   CROSS JOIN unnest(%(shard_set)s::int2[], %(epoch_set)s::int8[], %(change_set)s::int8[]) AS x (shard, epoch, changes)
    JOIN tickwheel.shards AS s ON s.shard = x.shard AND s.epoch = x.epoch AND s.owner = me.number
    JOIN tickwheel.shard_changes AS c ON c.shard = x.shard AND c.changes = x.changes
     FOR SHARE OF c SKIP LOCKED
)
INSERT INTO {runs} (shard, scheduled_ms, job_id, state, fence, attempt, last, lane, listed, worker, due_ms, timer_gen,
                    armed_ms, claimed_ms, lease_ms)
SELECT x.shard, x.scheduled_ms, x.job_id, %(state)s::int2, x.fence, 1 - x.last, x.last = 1, x.lane, false,
       CASE WHEN %(state)s::int2 = 2 THEN me.number END, x.due_ms, x.gen, x.armed_ms, clock.now_ms, %(lease)s::int8
  FROM me CROSS JOIN clock
 CROSS JOIN unnest(%(shard)s::int2[], %(scheduled)s::int8[], %(id)s::uuid[], %(lane)s::int2[], %(due)s::int8[],
                   %(gen)s::int4[], %(fence)s::int8[], %(last)s::int2[], %(armed)s::int8[])
         AS x (shard, scheduled_ms, job_id, lane, due_ms, gen, fence, last, armed_ms)
 WHERE x.due_ms <= clock.now_ms AND (x.shard IN (SELECT shard FROM unchanged)) IS TRUE

-- name: held_by
-- Which of these runs are in flight under these very tokens.
SELECT x.n FROM unnest(%(shard)s::int2[], %(scheduled)s::int8[], %(id)s::uuid[], %(fence)s::int8[]) WITH ORDINALITY
               AS x (shard, scheduled_ms, job_id, fence, n)
 CROSS JOIN LATERAL (
   SELECT FROM tickwheel.runs AS r
    WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id AND r.fence = x.fence
      AND r.state IN (1, 2, 3)
      AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8
   OFFSET 0
 ) AS r

-- name: claim_first
-- First claims of runs that may simply start: one statement, a transaction of its own. It tells how many it won and,
-- if that is not all, which.
--
-- `me`: the lock that makes a deposer wait, and whoever was deposed join nothing (D1). `clock`: read after the
-- transaction drew its xid, for the timers that it inserts (A2); it decides what is due (D6). The jobs are locked
-- so that an edit, a pause or a cancel comes wholly before or wholly after (E1). `nxt` joins `won`: whoever inserts
-- the row of an occurrence inserts the next timer, nobody else does (E2). (`IN ... IS TRUE` is looked up in a hash
-- table; a join, of whose size the planner knows nothing, would compare each row with each.)
WITH me AS MATERIALIZED (
  SELECT number FROM tickwheel.nodes WHERE incarnation = %(me)s AND NOT deposed FOR SHARE
), clock AS MATERIALIZED (
  SELECT coalesce(%(pin)s::int8, tickwheel.clock_ms()) AS now_ms
    FROM (SELECT pg_current_xact_id() AS xid OFFSET 0) AS drawn WHERE xid IS NOT NULL
), x AS MATERIALIZED (
  SELECT * FROM unnest(%(shard)s::int2[], %(scheduled)s::int8[], %(id)s::uuid[], %(home)s::int4[], %(due)s::int8[],
                       %(gen)s::int4[], %(fence)s::int8[], %(last)s::int2[], %(next)s::int8[],
                       %(flags)s::int2[])
       WITH ORDINALITY AS x (shard, scheduled_ms, job_id, home, due_ms, gen, fence, last, next_ms, timer_flags, n)
), ok AS MATERIALIZED (
  SELECT x.*, me.number, clock.now_ms, j.lane, j.flags,
         CASE WHEN j.flags & 4 = 0 THEN j.updated_ms ELSE (
           SELECT t.armed_ms FROM tickwheel.timers AS t
            WHERE t.shard = x.shard AND t.due_ms = x.due_ms AND t.job_id = x.job_id AND t.scheduled_ms = x.scheduled_ms
              AND t.gen = x.gen AND t.due_ms BETWEEN %(due_min)s::int8 AND %(due_max)s::int8
         ) END AS armed_ms
    FROM me CROSS JOIN clock CROSS JOIN x
    JOIN tickwheel.shards AS s ON s.shard = x.shard AND s.epoch = x.fence >> 32 AND s.owner = me.number
   CROSS JOIN LATERAL (
     SELECT lane, flags, updated_ms FROM tickwheel.jobs AS j
      WHERE j.home = x.home AND j.job_id = x.job_id AND j.home = ANY (%(homes)s::int4[])
        AND j.state = 0 AND j.version = x.gen
        FOR SHARE
   ) AS j
   WHERE x.due_ms <= clock.now_ms
), won AS (
  INSERT INTO tickwheel.runs (shard, scheduled_ms, job_id, state, fence, attempt, last, lane, listed, worker, due_ms,
                              timer_gen, armed_ms, claimed_ms, lease_ms)
  SELECT shard, scheduled_ms, job_id, %(state)s::int2, fence, 1 - last, last = 1, lane, flags & 4 <> 0,
         CASE WHEN %(state)s::int2 = 2 THEN number END, due_ms, gen, armed_ms, now_ms, %(lease)s::int8
    FROM ok ORDER BY n
      ON CONFLICT DO NOTHING
  RETURNING scheduled_ms, job_id, fence
), nxt AS (
  INSERT INTO tickwheel.timers (due_ms, job_id, scheduled_ms, armed_ms, gen, shard, flags)
  SELECT greatest(ok.next_ms, ok.now_ms), ok.job_id, ok.next_ms, ok.now_ms, ok.gen, ok.shard, ok.timer_flags
    FROM ok
   WHERE ok.flags & 4 <> 0 AND ok.next_ms >= 0
     AND ((ok.job_id, ok.scheduled_ms, ok.fence) IN (SELECT job_id, scheduled_ms, fence FROM won)) IS TRUE
      ON CONFLICT DO NOTHING
)
SELECT count(*),
       CASE WHEN count(*) < %(total)s::int8 THEN
         (SELECT array_agg(ok.n) FROM ok
           WHERE ((ok.job_id, ok.scheduled_ms, ok.fence) IN (SELECT w.job_id, w.scheduled_ms, w.fence FROM won AS w))
                 IS TRUE) END
  FROM won

-- name: hold
-- Begins a claim that needs a look: locks this node's row, and tells the time and which of the shards are held (as epoch << 16 | shard).
WITH me AS MATERIALIZED (
  SELECT number FROM tickwheel.nodes WHERE incarnation = %(me)s AND NOT deposed FOR SHARE
)
SELECT (SELECT number FROM me),
       (SELECT coalesce(%(pin)s::int8, tickwheel.clock_ms())
          FROM (SELECT pg_current_xact_id() AS xid OFFSET 0) AS drawn WHERE xid IS NOT NULL),
       ARRAY(SELECT s.epoch << 16 | s.shard FROM me
               JOIN unnest(%(shards)s::int2[], %(epochs)s::int8[]) AS x (shard, epoch) ON true
               JOIN tickwheel.shards AS s ON s.shard = x.shard AND s.epoch = x.epoch AND s.owner = me.number)

-- name: lock_jobs
-- Shared, in one order, to the end of the transaction (E1). The spec of those only that may state limits.
SELECT j.* FROM unnest(%(homes)s::int4[], %(ids)s::uuid[]) AS x (home, job_id)
 CROSS JOIN LATERAL (
   SELECT j.job_id, j.state, j.version, j.lane, j.flags, j.tenant_id, j.name,
          CASE WHEN strpos(j.spec, '"concurrency":') > 0 THEN j.spec END
     FROM tickwheel.jobs AS j
    WHERE j.home = x.home AND j.job_id = x.job_id AND j.home = ANY (%(home_set)s::int4[])
      FOR SHARE
 ) AS j

-- name: lock_runs
-- `lease_ms` 0: the worker is proved dead.
SELECT x.n, r.* FROM unnest(%(shards)s::int2[], %(scheduled)s::int8[], %(ids)s::uuid[]) WITH ORDINALITY
               AS x (shard, scheduled_ms, job_id, n)
 CROSS JOIN LATERAL (
   SELECT r.state, r.gen, r.fence, r.attempt, r.last::int4, r.lost_count,
          CASE WHEN (SELECT dead FROM tickwheel.nodes WHERE number = r.worker) THEN 0 ELSE r.lease_ms END, r.armed_ms
     FROM tickwheel.runs AS r
    WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id
      AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8
      FOR NO KEY UPDATE OF r
 ) AS r

-- name: armed
SELECT x.n, t.armed_ms FROM unnest(%(shards)s::int2[], %(due)s::int8[], %(ids)s::uuid[], %(scheduled)s::int8[],
                                   %(gens)s::int4[]) WITH ORDINALITY AS x (shard, due_ms, job_id, scheduled_ms, gen, n)
 CROSS JOIN LATERAL (
   SELECT t.armed_ms FROM tickwheel.timers AS t
    WHERE t.shard = x.shard AND t.due_ms = x.due_ms AND t.job_id = x.job_id AND t.scheduled_ms = x.scheduled_ms
      AND t.gen = x.gen AND t.due_ms BETWEEN %(due_min)s::int8 AND %(due_max)s::int8
   OFFSET 0
 ) AS t

-- name: open_keys
SELECT job_id, scheduled_ms FROM tickwheel.open_runs WHERE job_id = ANY (%(ids)s::uuid[])

-- name: open_runs
SELECT x.job_id, x.scheduled_ms, r.state, r.fence
  FROM unnest(%(shards)s::int2[], %(scheduled)s::int8[], %(ids)s::uuid[]) AS x (shard, scheduled_ms, job_id)
 CROSS JOIN LATERAL (
   SELECT r.state, r.fence FROM tickwheel.runs AS r
    WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id
      AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8
   OFFSET 0
 ) AS r

-- name: insert_runs
INSERT INTO tickwheel.runs (shard, scheduled_ms, job_id, state, gen, fence, attempt, last, lane, listed, skip_reason,
                            worker, due_ms, timer_gen, armed_ms, claimed_ms, finished_ms, lease_ms, limited)
SELECT shard, scheduled_ms, job_id, state, gen, fence, attempt, last = 1, lane, listed = 1, skip_reason,
       nullif(worker, -1), due_ms, timer_gen, nullif(armed_ms, -1), nullif(claimed_ms, -1), nullif(finished_ms, -1),
       nullif(lease_ms, -1), nullif(limited, 0) = 1
  FROM unnest(%(shard)s::int2[], %(scheduled_ms)s::int8[], %(job_id)s::uuid[], %(state)s::int2[], %(gen)s::int4[],
              %(fence)s::int8[], %(attempt)s::int4[], %(last)s::int2[], %(lane)s::int2[], %(listed)s::int2[],
              %(skip_reason)s::int2[], %(worker)s::int4[], %(due_ms)s::int8[], %(timer_gen)s::int4[],
              %(armed_ms)s::int8[], %(claimed_ms)s::int8[], %(finished_ms)s::int8[], %(lease_ms)s::int8[], %(limited)s::int2[])
       AS x (shard, scheduled_ms, job_id, state, gen, fence, attempt, last, lane, listed, skip_reason, worker, due_ms,
             timer_gen, armed_ms, claimed_ms, finished_ms, lease_ms, limited)
    ON CONFLICT DO NOTHING

-- name: start_waiting
-- plan: lookups
-- By gen, never by attempt number (D7), and only under a higher token (D4).
UPDATE tickwheel.runs AS r
   SET state = %(started_as)s::int2, fence = x.fence, attempt = x.attempt, last = x.last = 1, worker = %(me)s::int4,
       claimed_ms = %(now)s::int8, lease_ms = %(lease)s::int8, beat_ms = NULL, limited = nullif(x.limited, 0) = 1
  FROM unnest(%(shard)s::int2[], %(scheduled_ms)s::int8[], %(job_id)s::uuid[], %(gen)s::int4[], %(fence)s::int8[],
              %(attempt)s::int4[], %(last)s::int2[], %(limited)s::int2[])
       AS x (shard, scheduled_ms, job_id, gen, fence, attempt, last, limited)
 WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id
   AND r.state = 0 AND r.gen = x.gen AND r.fence < x.fence
   AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8

-- name: leave_waiting
-- plan: lookups
-- A waiting run is skipped (7), or waits on under a new timer (0).
UPDATE tickwheel.runs AS r
   SET state = x.state, gen = x.gen, skip_reason = x.skip_reason, due_ms = x.due_ms, timer_gen = -x.gen,
       finished_ms = nullif(x.finished_ms, -1)
  FROM unnest(%(shard)s::int2[], %(scheduled_ms)s::int8[], %(job_id)s::uuid[], %(old_gen)s::int4[], %(state)s::int2[],
              %(gen)s::int4[], %(skip_reason)s::int2[], %(due_ms)s::int8[], %(finished_ms)s::int8[])
       AS x (shard, scheduled_ms, job_id, old_gen, state, gen, skip_reason, due_ms, finished_ms)
 WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id
   AND r.state = 0 AND r.gen = x.old_gen
   AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8

-- name: insert_timers
-- The transaction has drawn its xid; the due time is moved up to the clock here, in the statement that inserts (A2).
INSERT INTO tickwheel.timers (due_ms, job_id, scheduled_ms, armed_ms, gen, shard, flags)
SELECT greatest(x.due_ms, clock.now_ms), x.job_id, x.scheduled_ms, clock.now_ms, x.gen, x.shard, x.flags
  FROM (SELECT coalesce(%(pin)s::int8, tickwheel.clock_ms()) AS now_ms
          FROM (SELECT pg_current_xact_id() AS xid OFFSET 0) AS drawn WHERE xid IS NOT NULL OFFSET 0) AS clock,
       unnest(%(shard)s::int2[], %(due_ms)s::int8[], %(job_id)s::uuid[], %(scheduled_ms)s::int8[], %(gen)s::int4[],
              %(flags)s::int2[]) AS x (shard, due_ms, job_id, scheduled_ms, gen, flags)
    ON CONFLICT DO NOTHING

-- name: complete_jobs
UPDATE tickwheel.jobs SET state = 3
 WHERE state = 0 AND home = 0 AND job_id = ANY (%(ids)s::uuid[])

-- name: enlist
WITH me AS (
  INSERT INTO tickwheel.nodes (incarnation, enlisted_ms) VALUES (%(me)s, tickwheel.clock_ms())
      ON CONFLICT (incarnation) DO NOTHING
  RETURNING number
)
INSERT INTO tickwheel.workers (number, note, enlisted_ms, seen_ms)
SELECT number, %(note)s, clock.now_ms, clock.now_ms
  FROM me, (SELECT coalesce(%(pin)s::int8, tickwheel.clock_ms()) AS now_ms OFFSET 0) AS clock
RETURNING number

-- name: renew
UPDATE tickwheel.workers AS w SET note = %(note)s, seen_ms = coalesce(%(pin)s::int8, tickwheel.clock_ms())
  FROM tickwheel.nodes AS n
 WHERE n.incarnation = %(me)s AND NOT n.deposed AND w.number = n.number
RETURNING w.number

-- name: end
-- Waits for the begins under that name that are open: each has locked the row in `nodes`.
WITH gone AS (
  DELETE FROM tickwheel.workers AS w USING tickwheel.nodes AS n
   WHERE n.incarnation = %(me)s AND w.number = n.number
     AND (%(unseen)s::int8 IS NULL OR w.seen_ms <= %(unseen)s::int8)
  RETURNING w.number
)
UPDATE tickwheel.nodes AS n SET deposed = true, dead = true FROM gone WHERE n.number = gone.number
RETURNING n.number

-- name: is_open
SELECT count(*) FROM tickwheel.workers AS w JOIN tickwheel.nodes AS n ON n.number = w.number
 WHERE n.incarnation = %(me)s AND NOT n.deposed

-- name: states
SELECT n.incarnation, w.note, w.enlisted_ms, w.seen_ms
  FROM tickwheel.workers AS w JOIN tickwheel.nodes AS n ON n.number = w.number
 WHERE NOT n.deposed
 ORDER BY n.incarnation

-- name: begin
-- plan: lookups
-- Queued runs start under a worker's name, each once: RUNNING is no source (F1). Their leases are written at once, so
-- that from here on a row leads to them whoever dies (C3 c). A worker that was declared dead joins nothing.
WITH me AS MATERIALIZED (
  SELECT number FROM tickwheel.nodes WHERE incarnation = %(me)s AND NOT deposed FOR SHARE
), clock AS MATERIALIZED (
  SELECT coalesce(%(pin)s::int8, tickwheel.clock_ms()) AS now_ms
), x AS MATERIALIZED (
  SELECT DISTINCT ON (shard, scheduled_ms, job_id) *
    FROM unnest(%(shard)s::int2[], %(scheduled)s::int8[], %(id)s::uuid[], %(fence)s::int8[])
         WITH ORDINALITY AS x (shard, scheduled_ms, job_id, fence, n)
   ORDER BY shard, scheduled_ms, job_id, fence DESC
), begun AS (
  UPDATE tickwheel.runs AS r
     SET state = 3, attempt = r.attempt + r.last::int4, worker = me.number, started_ms = clock.now_ms,
         beat_ms = clock.now_ms, lease_ms = %(lease)s::int8
    FROM x, me, clock
   WHERE r.shard = x.shard AND r.scheduled_ms = x.scheduled_ms AND r.job_id = x.job_id AND r.fence = x.fence
     AND r.state = 1
     AND r.scheduled_ms BETWEEN %(scheduled_min)s::int8 AND %(scheduled_max)s::int8
  RETURNING x.n, r.shard, r.scheduled_ms, r.job_id, r.fence, r.worker, r.attempt, r.lost_count
), kept AS (
  INSERT INTO tickwheel.leases (shard, scheduled_ms, job_id, fence, lease_ms, worker)
  SELECT shard, scheduled_ms, job_id, fence, %(lease)s::int8, worker FROM begun ORDER BY shard, scheduled_ms, job_id
      ON CONFLICT (shard, scheduled_ms, job_id)
      DO UPDATE SET fence = excluded.fence, lease_ms = excluded.lease_ms, worker = excluded.worker
)
SELECT n, attempt, lost_count FROM begun

-- name: enlist
INSERT INTO tickwheel.nodes (incarnation, enlisted_ms) VALUES (%(me)s, tickwheel.clock_ms())
    ON CONFLICT (incarnation) DO NOTHING
RETURNING number

-- name: enlist_again
-- For a process that is alone on its store: it may come again under one name.
INSERT INTO tickwheel.nodes (incarnation, enlisted_ms) VALUES (%(me)s, tickwheel.clock_ms())
    ON CONFLICT (incarnation) DO UPDATE SET deposed = false, dead = false
RETURNING number

-- name: depose
-- Waits for the open claims of that node: each has locked this row.
UPDATE tickwheel.nodes SET deposed = true, dead = dead OR %(dead)s::bool
 WHERE incarnation = %(incarnation)s AND NOT (deposed AND (dead OR NOT %(dead)s::bool))
RETURNING number

-- name: depose_others
UPDATE tickwheel.nodes SET deposed = true, dead = true
 WHERE incarnation <> %(me)s AND NOT (deposed AND dead)
   AND NOT EXISTS (SELECT FROM tickwheel.workers AS w WHERE w.number = nodes.number)
RETURNING number

-- name: deposed
SELECT x.incarnation FROM unnest(%(incarnations)s::text[]) AS x (incarnation)
  LEFT JOIN tickwheel.nodes AS n ON n.incarnation = x.incarnation
 WHERE n.deposed IS NOT FALSE

-- name: take_all
UPDATE tickwheel.shards AS s SET epoch = s.epoch + 1, owner = n.number
  FROM (SELECT number FROM tickwheel.nodes WHERE incarnation = %(me)s AND NOT deposed FOR SHARE) AS n
RETURNING s.shard, s.epoch

-- name: list_shards
SELECT s.shard, s.epoch, n.incarnation
  FROM tickwheel.shards AS s LEFT JOIN tickwheel.nodes AS n ON n.number = s.owner
 ORDER BY s.shard

-- name: take
-- Each acquisition raises the epoch, also from ourselves (D3). A pair of another database cluster tells nothing (B7).
WITH me AS MATERIALIZED (
  SELECT number FROM tickwheel.nodes WHERE incarnation = %(me)s AND NOT deposed FOR SHARE
), took AS (
  UPDATE tickwheel.shards AS s SET epoch = s.epoch + 1, owner = me.number
    FROM me, unnest(%(shards)s::int2[], %(epochs)s::int8[]) AS x (shard, epoch)
   WHERE s.shard = x.shard AND s.epoch = x.epoch
     AND (s.owner IS NULL OR s.owner = me.number
          OR (SELECT n.deposed FROM tickwheel.nodes AS n WHERE n.number = s.owner))
  RETURNING s.shard, s.epoch
)
SELECT took.shard, took.epoch, a.ack_ms, a.snapshot
  FROM took LEFT JOIN tickwheel.shard_acks AS a
    ON a.shard = took.shard AND a.system_id = (SELECT system_identifier::text FROM pg_control_system())
 ORDER BY took.shard

-- name: release
UPDATE tickwheel.shards AS s SET owner = NULL
  FROM tickwheel.nodes AS n, unnest(%(shards)s::int2[], %(epochs)s::int8[]) AS x (shard, epoch)
 WHERE n.incarnation = %(me)s AND s.shard = x.shard AND s.epoch = x.epoch AND s.owner = n.number
RETURNING s.shard

-- name: store_pairs
-- Under the owner check of a claim (C8); no GREATEST, for an ack may go back (C2).
WITH me AS MATERIALIZED (
  SELECT number FROM tickwheel.nodes WHERE incarnation = %(me)s AND NOT deposed FOR SHARE
), ours AS MATERIALIZED (
  SELECT x.* FROM me
   CROSS JOIN unnest(%(shards)s::int2[], %(epochs)s::int8[], %(acks)s::int8[], %(snapshots)s::text[])
           AS x (shard, epoch, ack_ms, snapshot)
    JOIN tickwheel.shards AS s ON s.shard = x.shard AND s.epoch = x.epoch AND s.owner = me.number
)
INSERT INTO tickwheel.shard_acks AS a (shard, ack_ms, snapshot, system_id)
SELECT shard, ack_ms, snapshot, (SELECT system_identifier::text FROM pg_control_system()) FROM ours ORDER BY shard
    ON CONFLICT (shard) DO UPDATE
   SET ack_ms = excluded.ack_ms, snapshot = excluded.snapshot, system_id = excluded.system_id
RETURNING a.shard

-- name: now_ms
SELECT coalesce(%(pin)s::int8, tickwheel.clock_ms())

-- name: snapshot
SELECT pg_current_snapshot()::text, pg_is_in_recovery()

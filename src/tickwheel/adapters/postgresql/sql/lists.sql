-- name: newest
SELECT job_id FROM tickwheel.jobs WHERE tenant_id = %(tenant_id)s AND job_id < %(before)s
 ORDER BY job_id DESC LIMIT %(count)s

-- name: count_of_tenant
SELECT count(*) FROM (SELECT 1 FROM tickwheel.jobs
                       WHERE tenant_id = %(tenant_id)s AND state <> 4 LIMIT %(count)s) AS j

-- name: newest_with_tag
SELECT job_id FROM tickwheel.job_tags WHERE tenant_id = %(tenant_id)s AND tag = %(tag)s AND job_id < %(before)s
 ORDER BY job_id DESC LIMIT %(count)s

-- name: newest_held
-- Definitions that are paused, cancelled or completed.
SELECT job_id FROM tickwheel.jobs
 WHERE tenant_id = %(tenant_id)s AND state = %(state)s AND state IN (1, 2, 3) AND job_id < %(before)s
 ORDER BY job_id DESC LIMIT %(count)s

-- name: named_like
SELECT job_id FROM tickwheel.jobs
 WHERE tenant_id = %(tenant_id)s AND name COLLATE "C" >= %(name_from)s AND name COLLATE "C" < %(name_to)s
 LIMIT %(count)s

-- name: dead_jobs
SELECT DISTINCT job_id FROM (SELECT job_id FROM tickwheel.dead_letters
                              WHERE tenant_id = %(tenant_id)s LIMIT %(count)s) AS d

-- name: leased_jobs
SELECT job_id FROM tickwheel.leases LIMIT %(count)s

-- name: started_lately
-- Claims of the last moments: their attempts have no row in `leases` yet.
SELECT r.job_id
  FROM generate_series(0, 255) AS s (shard)
 CROSS JOIN LATERAL (SELECT job_id FROM tickwheel.runs AS r
                      WHERE r.shard = s.shard AND r.scheduled_ms >= %(from_ms)s AND r.scheduled_ms <= %(to_ms)s
                        AND r.state IN (1, 2, 3) LIMIT %(count)s) AS r
 LIMIT %(count)s

-- name: timer_leaves
-- Those that hold anything, by their bounds: "FOR VALUES FROM ('1') TO ('2')".
SELECT pg_get_expr(c.relpartbound, c.oid)
  FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'tickwheel.timers'::regclass AND pg_relation_size(c.oid) > 0

-- name: soonest
-- First timers in a range of due time, the first few of each shard. (The key begins with the shard.)
SELECT t.due_ms, t.job_id, s.shard
  FROM generate_series(0, 255) AS s (shard)
 CROSS JOIN LATERAL (SELECT due_ms, job_id FROM tickwheel.timers AS t
                      WHERE t.shard = s.shard AND t.due_ms >= greatest(%(from_ms)s::int8, %(due_ms)s::int8)
                        AND t.due_ms < %(until_ms)s::int8
                        AND (t.due_ms, t.job_id) > (%(due_ms)s::int8, %(after)s) AND t.gen > 0
                      ORDER BY t.due_ms, t.job_id LIMIT %(each)s) AS t
 ORDER BY t.due_ms, t.job_id

-- name: acknowledged
-- Before it nothing is unresolved, in no shard.
SELECT CASE WHEN count(*) = 256 THEN min(ack_ms) END FROM tickwheel.shard_acks

-- name: facts
-- What the filters look at. Live timers and runs of one-offs are looked up apart.
SELECT j.job_id, j.tenant_id, j.name, j.schedule_type, j.lane, j.state, j.flags, j.version, j.first_due_ms,
       j.first_instant_ms, j.first_gen, j.tags, octet_length(j.payload)
  FROM unnest(%(homes)s::int4[], %(ids)s::uuid[]) AS w (home, job_id)
 CROSS JOIN LATERAL (SELECT * FROM tickwheel.jobs AS j
                      WHERE j.home = w.home AND j.job_id = w.job_id AND j.home = ANY (%(home_set)s::int4[])
                     OFFSET 0) AS j

-- name: states_by_key
SELECT r.job_id, r.scheduled_ms, r.state
  FROM unnest(%(shards)s::int2[], %(instants)s::int8[], %(ids)s::uuid[]) AS w (shard, scheduled_ms, job_id)
 CROSS JOIN LATERAL (SELECT job_id, scheduled_ms, state FROM tickwheel.runs AS r
                      WHERE r.shard = w.shard AND r.scheduled_ms = w.scheduled_ms AND r.job_id = w.job_id
                        AND r.scheduled_ms = ANY (%(instants)s::int8[])
                     OFFSET 0) AS r

-- name: dead_letters
SELECT shard, scheduled_ms, job_id, failed_ms, cause
  FROM (SELECT * FROM (SELECT * FROM tickwheel.dead_letters
                        WHERE tenant_id = %(tenant_id)s AND failed_ms = %(failed_ms)s
                          AND (job_id, scheduled_ms) > (%(job_id)s, %(scheduled_ms)s)
                        ORDER BY job_id, scheduled_ms LIMIT %(count)s) AS same
         UNION ALL
        SELECT * FROM (SELECT * FROM tickwheel.dead_letters
                        WHERE tenant_id = %(tenant_id)s AND failed_ms < %(failed_ms)s
                        ORDER BY failed_ms DESC, job_id, scheduled_ms LIMIT %(count)s) AS older) AS d
 ORDER BY failed_ms DESC, job_id, scheduled_ms LIMIT %(count)s

-- name: drop_dead
DELETE FROM tickwheel.dead_letters
 WHERE shard = %(shard)s AND scheduled_ms = %(scheduled_ms)s AND job_id = %(job_id)s AND tenant_id = %(tenant_id)s
RETURNING 1

-- name: sizes
-- Rows of each partitioned table as the statistics have it, and its size in pages now.
SELECT p.relname, sum(greatest(c.reltuples, 0))::int8, sum(pg_relation_size(c.oid) / 8192)::int8
  FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid JOIN pg_class AS p ON p.oid = i.inhparent
 WHERE i.inhparent IN ('tickwheel.jobs'::regclass, 'tickwheel.timers'::regclass)
 GROUP BY p.relname

-- name: count_jobs
SELECT count(*) FROM tickwheel.jobs WHERE state <> 4

-- name: count_waiting
-- Timers whose run has not ended: first timers without a row, follow-ups that their row waits for, and those in flight.
SELECT count(*)
  FROM tickwheel.timers AS t
  JOIN tickwheel.jobs AS j ON j.job_id = t.job_id
  LEFT JOIN tickwheel.runs AS r ON r.shard = t.shard AND r.scheduled_ms = t.scheduled_ms AND r.job_id = t.job_id
 WHERE CASE WHEN r.job_id IS NULL
            THEN t.gen = CASE WHEN t.flags & 4 <> 0 THEN j.version ELSE j.first_gen END AND j.state = 0
            ELSE r.due_ms = t.due_ms AND r.timer_gen = t.gen AND r.state IN (0, 1, 2, 3) END

-- name: count_dead
SELECT count(*) FROM (SELECT FROM tickwheel.dead_letters LIMIT %(count)s) AS d

-- name: dead_estimate
SELECT reltuples::int8 FROM pg_class WHERE oid = 'tickwheel.dead_letters'::regclass

-- name: write
-- Proves that writing works: changes a row to what it is.
UPDATE tickwheel.meta SET created_ms = created_ms RETURNING 1

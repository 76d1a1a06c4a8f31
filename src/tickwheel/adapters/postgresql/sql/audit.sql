-- name: jobs
-- A piece of the jobs, each with its standing: of a one-off that of its run, of a recurring job that of its live
-- timer. What has no row because its leaf was dropped as history has ended.
WITH piece AS MATERIALIZED (
  SELECT home, job_id, state, flags, version, first_due_ms, first_instant_ms, first_gen,
         (get_byte(uuid_send(job_id), 6) << 8 | get_byte(uuid_send(job_id), 7))::int2 AS shard
    FROM tickwheel.jobs
   WHERE (home, job_id) > (%(home)s::int4, %(job_id)s::uuid) ORDER BY home, job_id LIMIT %(count)s),
judged AS (
  SELECT p.job_id,
         CASE WHEN p.state IN (2, 3, 4) THEN 'ended'
              WHEN p.flags & 4 <> 0 AND p.state = 1 THEN 'paused'
              WHEN r.state IN (4, 5, 6, 7, 8) THEN (ARRAY['succeeded', 'failed', 'cancelled', 'skipped', 'paused'])[r.state - 3]
              WHEN r.state IN (1, 2, 3) THEN CASE WHEN r.lease_ms <= %(now_ms)s THEN 'past_lease' ELSE 'in_flight' END
              WHEN coalesce(l.due_ms, f.due_ms, t.due_ms) <= %(overdue_ms)s THEN 'overdue'
              WHEN coalesce(l.due_ms, f.due_ms, t.due_ms) IS NOT NULL THEN 'waiting'
              WHEN r.state IS NULL AND p.first_instant_ms < m.sealed_runs_ms THEN 'ended'
              ELSE 'unaccounted' END AS standing
    FROM piece AS p
   CROSS JOIN tickwheel.meta AS m
    LEFT JOIN LATERAL (SELECT r.state, r.due_ms, r.timer_gen, r.lease_ms FROM tickwheel.runs AS r
                        WHERE p.flags & 4 = 0 AND p.state IN (0, 1) AND r.shard = p.shard
                          AND r.scheduled_ms = p.first_instant_ms AND r.job_id = p.job_id OFFSET 0) AS r ON true
    LEFT JOIN LATERAL (SELECT t.due_ms FROM tickwheel.timers AS t
                        WHERE p.flags & 4 = 0 AND p.state IN (0, 1) AND r.state IS NULL AND t.shard = p.shard
                          AND t.due_ms = p.first_due_ms AND t.job_id = p.job_id
                          AND t.scheduled_ms = p.first_instant_ms AND t.gen = p.first_gen OFFSET 0) AS t ON true
    LEFT JOIN LATERAL (SELECT t.due_ms FROM tickwheel.timers AS t
                        WHERE r.state = 0 AND t.shard = p.shard AND t.due_ms = r.due_ms AND t.job_id = p.job_id
                          AND t.scheduled_ms = p.first_instant_ms AND t.gen = r.timer_gen OFFSET 0) AS f ON true
    LEFT JOIN LATERAL (SELECT min(c.due_ms) AS due_ms
                         FROM (SELECT t.due_ms, t.scheduled_ms FROM tickwheel.timers AS t
                                WHERE p.flags & 4 <> 0 AND p.state = 0 AND t.job_id = p.job_id AND t.gen = p.version
                                  AND t.gen > 0 AND t.flags & 4 <> 0
                                ORDER BY t.due_ms DESC LIMIT 8) AS c
                        WHERE NOT EXISTS (SELECT 1 FROM tickwheel.runs AS o
                                           WHERE o.shard = p.shard AND o.scheduled_ms = c.scheduled_ms
                                             AND o.job_id = p.job_id)) AS l ON true)
SELECT standing, count(*), (array_agg(job_id) FILTER (WHERE standing = 'unaccounted'))[1:%(examples)s], NULL::int8[]
  FROM judged GROUP BY standing
UNION ALL
(SELECT '', home, ARRAY[job_id], NULL FROM piece ORDER BY home DESC, job_id DESC LIMIT 1)

-- name: runs
-- A piece of the listed runs.
WITH piece AS MATERIALIZED (
  SELECT shard, job_id, scheduled_ms, state, lease_ms, due_ms, timer_gen FROM tickwheel.runs
   WHERE listed AND (job_id, scheduled_ms) > (%(job_id)s::uuid, %(scheduled_ms)s)
   ORDER BY job_id, scheduled_ms LIMIT %(count)s)
{judge}

-- name: open_runs
-- The same of those that have not ended.
WITH piece AS MATERIALIZED (
  SELECT r.shard, o.job_id, o.scheduled_ms, r.state, r.lease_ms, r.due_ms, r.timer_gen
    FROM (SELECT job_id, scheduled_ms, (get_byte(uuid_send(job_id), 6) << 8 | get_byte(uuid_send(job_id), 7))::int2 AS shard
            FROM tickwheel.open_runs WHERE (job_id, scheduled_ms) > (%(job_id)s::uuid, %(scheduled_ms)s)
           ORDER BY job_id, scheduled_ms LIMIT %(count)s) AS o
   CROSS JOIN LATERAL (SELECT * FROM tickwheel.runs AS r
                        WHERE r.shard = o.shard AND r.scheduled_ms = o.scheduled_ms AND r.job_id = o.job_id OFFSET 0) AS r)
{judge}

-- name: judge
, judged AS (
  SELECT p.job_id, p.scheduled_ms,
         CASE WHEN p.state IN (4, 5, 6, 7, 8) THEN (ARRAY['succeeded', 'failed', 'cancelled', 'skipped', 'paused'])[p.state - 3]
              WHEN p.state IN (1, 2, 3) THEN CASE WHEN p.lease_ms <= %(now_ms)s THEN 'past_lease' ELSE 'in_flight' END
              WHEN f.due_ms IS NULL THEN 'unaccounted'
              WHEN f.due_ms <= %(overdue_ms)s THEN 'overdue'
              ELSE 'waiting' END AS standing
    FROM piece AS p
    LEFT JOIN LATERAL (SELECT t.due_ms FROM tickwheel.timers AS t
                        WHERE p.state = 0 AND t.shard = p.shard AND t.due_ms = p.due_ms AND t.job_id = p.job_id
                          AND t.scheduled_ms = p.scheduled_ms AND t.gen = p.timer_gen OFFSET 0) AS f ON true)
SELECT standing, count(*), (array_agg(job_id) FILTER (WHERE standing = 'unaccounted'))[1:%(examples)s],
       (array_agg(scheduled_ms) FILTER (WHERE standing = 'unaccounted'))[1:%(examples)s]
  FROM judged GROUP BY standing
UNION ALL
(SELECT '', scheduled_ms, ARRAY[job_id], NULL FROM piece ORDER BY job_id DESC, scheduled_ms DESC LIMIT 1)

-- name: old_leaves
-- Leaves whose time ended before an instant, by table.
SELECT p.relname, count(*)
  FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid JOIN pg_class AS p ON p.oid = i.inhparent
 WHERE i.inhparent IN ('tickwheel.timers'::regclass, 'tickwheel.runs'::regclass, 'tickwheel.attempts'::regclass)
   AND (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''?(-?\d+)''?\)'))[1]::int8 < %(before_ms)s
 GROUP BY p.relname

-- name: slots_astray
-- Slots whose run neither is in flight nor waits: there must be none. One snapshot.
SELECT count(*)
  FROM tickwheel.limit_slots AS s
  LEFT JOIN LATERAL (
    SELECT r.state FROM tickwheel.runs AS r
     WHERE r.shard = s.shard AND r.scheduled_ms = s.scheduled_ms AND r.job_id = s.job_id
    OFFSET 0
  ) AS r ON true
 WHERE (CASE WHEN s.waiting THEN r.state = 0 ELSE r.state IN (1, 2, 3) END) IS NOT TRUE

-- name: timers
-- Up to `per_shard` timers of each shard, the soonest first. Of those that are past, the ones whose run is resolved
-- are left out: their row says nothing by being there. (A change of a one-off leaves a run at its old instant; of a
-- recurring job the definition is asked.)
-- What is to come is resolved by changes only, which delete it.
-- The numbers are written into the text, for they are what the plan hangs on.
SELECT {columns}
  FROM unnest({shards}::int2[]) AS s (shard)
 CROSS JOIN LATERAL (
   SELECT t.due_ms, t.job_id, t.scheduled_ms, t.gen, t.flags FROM tickwheel.timers AS t
    WHERE t.shard = s.shard AND t.due_ms >= {from_ms} AND t.due_ms < {until_ms}
      AND (t.due_ms > {now_ms} OR coalesce(
        (SELECT r.state IN (0, 1, 2, 3) AND r.gen = greatest(0, -t.gen) FROM tickwheel.runs AS r
          WHERE r.shard = t.shard AND r.scheduled_ms = t.scheduled_ms AND r.job_id = t.job_id
            AND r.scheduled_ms <= {now_ms}),
        t.gen > 0 AND (t.flags & 4 = 0 OR (
          SELECT j.state = 0 AND j.version = t.gen FROM tickwheel.jobs AS j
           WHERE j.home = get_byte(uuid_send(t.job_id), 8) * 256 + get_byte(uuid_send(t.job_id), 9)
             AND j.job_id = t.job_id)),
        false))
    ORDER BY t.due_ms LIMIT {per_shard}
 ) AS t

-- name: feed
-- What the snapshot before had not seen and this statement sees, and its own snapshot (B3).
-- (`shard + 0`: from PostgreSQL 17 on the planner would take the primary key for a list of shards, and read the day.)
SELECT pg_current_snapshot()::text, {columns} FROM (
  SELECT due_ms, job_id, scheduled_ms, gen, flags FROM tickwheel.timers
   WHERE xid >= {xmax}::xid8 AND due_ms < {until_ms} AND shard + 0 = ANY ({shards}::int4[])
   UNION ALL
  SELECT due_ms, job_id, scheduled_ms, gen, flags FROM tickwheel.timers
   WHERE xid = ANY ({in_progress}::xid8[]) AND due_ms < {until_ms} AND shard + 0 = ANY ({shards}::int4[])
) AS t

-- name: work
-- plan: lookups
-- With the count of changes of each job's shard, of the same snapshot as the job.
SELECT x.n, j.*,
       coalesce((ARRAY(SELECT changes FROM tickwheel.shard_changes
                        WHERE shard BETWEEN %(shard_min)s::int2 AND %(shard_max)s::int2 ORDER BY shard)
                )[x.shard - %(shard_min)s::int2 + 1], 0)
  FROM unnest(%(shards)s::int2[], %(homes)s::int4[], %(ids)s::uuid[]) WITH ORDINALITY AS x (shard, home, job_id, n)
 CROSS JOIN LATERAL (
   SELECT tenant_id, name, state, version, spec, payload, idempotency_key, effective_ms, updated_ms, flags
     FROM {jobs} AS j
    WHERE j.home = x.home AND j.job_id = x.job_id {prunes jobs: AND j.home = ANY (%(home_set)s::int4[])}
   OFFSET 0
 ) AS j

-- name: taken
-- Of recurring jobs: the instants after the live timer that have a row already. Whoever takes an occurrence inserts
-- the next timer, so the last timer of the present version is the live one, or nothing comes after it.
SELECT x.job_id, array_agg(r.scheduled_ms ORDER BY r.scheduled_ms)
  FROM unnest(%(ids)s::uuid[], %(versions)s::int4[]) AS x (job_id, version)
 CROSS JOIN LATERAL (
   SELECT t.scheduled_ms FROM tickwheel.timers AS t
    WHERE t.job_id = x.job_id AND t.gen = x.version AND t.gen > 0 AND t.flags & 4 <> 0
    ORDER BY t.due_ms DESC LIMIT 1
 ) AS live
 CROSS JOIN LATERAL (
   SELECT r.scheduled_ms FROM tickwheel.runs AS r
    WHERE r.job_id = x.job_id AND r.listed AND r.scheduled_ms > live.scheduled_ms
   OFFSET 0
 ) AS r
 GROUP BY x.job_id

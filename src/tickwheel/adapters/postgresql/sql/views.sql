-- name: jobs
-- The homes are read off the ids; the set of them prunes the leaves when the statement is planned.
SELECT {job}, j.first_due_ms, j.first_instant_ms, j.first_gen
  FROM unnest(%(homes)s::int4[], %(ids)s::uuid[]) AS w (home, job_id)
 CROSS JOIN LATERAL (SELECT * FROM tickwheel.jobs AS j
                      WHERE j.home = w.home AND j.job_id = w.job_id AND j.home = ANY (%(home_set)s::int4[])
                     OFFSET 0) AS j

-- name: job_state
SELECT state FROM tickwheel.jobs WHERE home = %(home)s AND job_id = %(job_id)s AND tenant_id = %(tenant_id)s

-- name: lock_job
-- Waits for the claims of the job's occurrences that are open, and makes later ones wait, or look at the job again.
WITH job AS MATERIALIZED (
  SELECT state FROM tickwheel.jobs
   WHERE home = %(home)s AND job_id = %(job_id)s AND tenant_id = %(tenant_id)s FOR UPDATE
), counted AS (
  UPDATE tickwheel.shard_changes SET changes = changes + 1 WHERE shard = %(shard)s AND EXISTS (SELECT FROM job)
)
SELECT state FROM job

-- name: named_job
SELECT job_id FROM tickwheel.job_names WHERE tenant_id = %(tenant_id)s AND name = %(name)s

-- name: latest_timers
-- plan: lookups
-- Of recurring jobs. Who takes an occurrence inserts the next timer, so the live one is among the last of its version.
SELECT w.job_id, t.due_ms, t.scheduled_ms, t.gen, t.armed_ms
  FROM unnest(%(ids)s::uuid[], %(versions)s::int4[]) AS w (job_id, version)
 CROSS JOIN LATERAL (SELECT due_ms, scheduled_ms, gen, armed_ms FROM tickwheel.timers AS t
                      WHERE t.job_id = w.job_id AND t.gen = w.version AND t.gen > 0 AND t.flags & 4 <> 0
                      ORDER BY t.due_ms DESC LIMIT %(count)s) AS t

-- name: first_timers
-- Of one-offs, by the key that the job names.
SELECT w.job_id, t.due_ms, t.scheduled_ms, t.gen, t.armed_ms
  FROM unnest(%(shards)s::int2[], %(due)s::int8[], %(ids)s::uuid[], %(instants)s::int8[], %(gens)s::int4[])
       AS w (shard, due_ms, job_id, scheduled_ms, gen)
 CROSS JOIN LATERAL (SELECT due_ms, scheduled_ms, gen, armed_ms FROM tickwheel.timers AS t
                      WHERE t.shard = w.shard AND t.due_ms = w.due_ms AND t.job_id = w.job_id
                        AND t.scheduled_ms = w.scheduled_ms AND t.gen = w.gen AND t.due_ms = ANY (%(due)s::int8[])
                     OFFSET 0) AS t

-- name: open_runs
SELECT job_id, scheduled_ms FROM tickwheel.open_runs WHERE job_id = ANY (%(ids)s::uuid[])

-- name: latest_runs
-- plan: lookups
SELECT w.job_id, r.scheduled_ms
  FROM unnest(%(ids)s::uuid[]) AS w (job_id)
 CROSS JOIN LATERAL (SELECT scheduled_ms FROM tickwheel.runs AS r WHERE r.job_id = w.job_id AND r.listed
                      ORDER BY r.scheduled_ms DESC LIMIT 1) AS r

-- name: runs_by_key
SELECT {run}
  FROM unnest(%(shards)s::int2[], %(instants)s::int8[], %(ids)s::uuid[]) AS w (shard, scheduled_ms, job_id)
 CROSS JOIN LATERAL (SELECT * FROM tickwheel.runs AS r
                      WHERE r.shard = w.shard AND r.scheduled_ms = w.scheduled_ms AND r.job_id = w.job_id
                        AND r.scheduled_ms = ANY (%(instants)s::int8[])
                     OFFSET 0) AS r
  LEFT JOIN tickwheel.nodes AS n ON n.number = r.worker

-- name: attempts
SELECT a.attempt, a.fence, n.incarnation, a.started_ms, a.finished_ms, a.outcome, a.http_status, a.error, a.excerpt
  FROM tickwheel.attempts AS a LEFT JOIN tickwheel.nodes AS n ON n.number = a.worker
 WHERE a.shard = %(shard)s AND a.scheduled_ms = %(scheduled_ms)s AND a.job_id = %(job_id)s
 ORDER BY a.fence

-- name: attempt_in_flight
SELECT last FROM tickwheel.runs WHERE shard = %(shard)s AND scheduled_ms = %(scheduled_ms)s AND job_id = %(job_id)s

-- name: runs_of_job
-- Latest first, before an instant.
SELECT scheduled_ms FROM tickwheel.runs
 WHERE job_id = %(job_id)s AND listed AND scheduled_ms < %(before_ms)s
 ORDER BY scheduled_ms DESC LIMIT %(count)s

-- name: chains
-- Active recurring jobs from a position on.
SELECT job_id, tenant_id, version FROM tickwheel.jobs
 WHERE state = 0 AND flags & 4 <> 0 AND job_id > %(after)s ORDER BY job_id LIMIT %(count)s

-- name: progress
-- By way of its text, for a `real` as it is shows digits that nobody said (0.30000001192092896).
SELECT progress::text::float8, note FROM tickwheel.leases
 WHERE shard = %(shard)s AND scheduled_ms = %(scheduled_ms)s AND job_id = %(job_id)s AND fence = %(fence)s

-- name: result
SELECT result, dropped FROM tickwheel.results
 WHERE shard = %(shard)s AND scheduled_ms = %(scheduled_ms)s AND job_id = %(job_id)s

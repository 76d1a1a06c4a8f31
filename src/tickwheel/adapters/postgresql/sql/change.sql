-- name: clock
SELECT coalesce(%(pinned_ms)s::int8, tickwheel.clock_ms())

-- name: update_job
UPDATE tickwheel.jobs
   SET tenant_id = %(tenant_id)s, name = %(name)s, schedule_type = %(schedule_type)s, lane = %(lane)s,
       flags = %(flags)s, state = %(state)s, version = %(version)s, created_ms = %(created_ms)s,
       updated_ms = %(updated_ms)s, effective_ms = %(effective_ms)s, scheduled_ms = %(scheduled_ms)s,
       named = %(named)s, idempotency_key = %(idempotency_key)s, tags = %(tags)s::text[], spec = %(spec)s,
       payload = %(payload)s
 WHERE home = %(home)s AND job_id = %(job_id)s

-- name: insert_job
INSERT INTO tickwheel.jobs (job_id, home, tenant_id, name, schedule_type, lane, flags, state, version, created_ms,
                            updated_ms, effective_ms, scheduled_ms, first_due_ms, first_instant_ms, first_gen, named,
                            idempotency_key, tags, spec, payload)
VALUES (%(job_id)s, %(home)s, %(tenant_id)s, %(name)s, %(schedule_type)s, %(lane)s, %(flags)s, %(state)s, %(version)s,
        %(created_ms)s, %(updated_ms)s, %(effective_ms)s, %(scheduled_ms)s, %(first_due_ms)s, %(first_instant_ms)s,
        %(first_gen)s, %(named)s, %(idempotency_key)s, %(tags)s::text[], %(spec)s, %(payload)s)

-- name: take_name
INSERT INTO tickwheel.job_names (tenant_id, name, job_id) VALUES (%(tenant_id)s, %(name)s, %(job_id)s)
    ON CONFLICT DO NOTHING RETURNING job_id

-- name: free_name
DELETE FROM tickwheel.job_names WHERE tenant_id = %(tenant_id)s AND name = %(name)s AND job_id = %(job_id)s

-- name: insert_tags
INSERT INTO tickwheel.job_tags (tenant_id, tag, job_id)
SELECT %(tenant_id)s, tag, %(job_id)s FROM unnest(%(tags)s::text[]) AS t (tag) ON CONFLICT DO NOTHING

-- name: drop_tags
DELETE FROM tickwheel.job_tags
 WHERE tenant_id = %(tenant_id)s AND tag = ANY (%(tags)s::text[]) AND job_id = %(job_id)s

-- name: forget_key
DELETE FROM tickwheel.idempotency_keys
 WHERE tenant_id = %(tenant_id)s AND idempotency_key = %(idempotency_key)s AND job_id = %(job_id)s

-- name: list_run_of_one_off
-- The one-off is about to get another instant: from now on its run is found through runs_of_job.
UPDATE tickwheel.runs SET listed = true
 WHERE shard = %(shard)s AND scheduled_ms = %(scheduled_ms)s AND job_id = %(job_id)s

-- name: set_first_timer
UPDATE tickwheel.jobs SET first_due_ms = %(due_ms)s, first_instant_ms = %(scheduled_ms)s, first_gen = %(gen)s
 WHERE home = %(home)s AND job_id = %(job_id)s

-- name: draw_xid
-- Before the insert of a timer compares its due time with the clock.
SELECT pg_current_xact_id()

-- name: insert_timer
INSERT INTO tickwheel.timers (shard, due_ms, job_id, scheduled_ms, gen, flags, armed_ms)
VALUES (%(shard)s, greatest(%(due_ms)s::int8, coalesce(%(pinned_ms)s::int8, tickwheel.clock_ms())), %(job_id)s,
        %(scheduled_ms)s, %(gen)s, %(flags)s, %(now_ms)s)
    ON CONFLICT DO NOTHING RETURNING due_ms

-- name: drop_timer
DELETE FROM tickwheel.timers
 WHERE shard = %(shard)s AND due_ms = %(due_ms)s AND job_id = %(job_id)s AND scheduled_ms = %(scheduled_ms)s
   AND gen = %(gen)s

-- name: run_state
SELECT state, gen, fence, lane FROM tickwheel.runs
 WHERE shard = %(shard)s AND scheduled_ms = %(scheduled_ms)s AND job_id = %(job_id)s

-- name: insert_run
INSERT INTO tickwheel.runs (shard, scheduled_ms, job_id, state, gen, lane, listed, skip_reason, due_ms, timer_gen,
                            armed_ms, finished_ms)
VALUES (%(shard)s, %(scheduled_ms)s, %(job_id)s, %(state)s, %(gen)s, %(lane)s, %(listed)s, %(skip_reason)s,
        %(due_ms)s, -%(gen)s::int4, %(armed_ms)s, %(finished_ms)s)
    ON CONFLICT DO NOTHING RETURNING 1

-- name: move_run
-- Only from the state that the decision saw; a claim or a completion that came between makes it look again.
UPDATE tickwheel.runs
   SET state = %(state)s, skip_reason = %(skip_reason)s, lease_ms = NULL, finished_ms = %(finished_ms)s
 WHERE shard = %(shard)s AND scheduled_ms = %(scheduled_ms)s AND job_id = %(job_id)s
   AND state = %(seen_state)s AND gen = %(seen_gen)s AND fence = %(seen_fence)s
RETURNING 1

-- name: let_run_wait
UPDATE tickwheel.runs
   SET state = 0, gen = %(gen)s, due_ms = %(due_ms)s, timer_gen = -%(gen)s::int4, skip_reason = %(skip_reason)s,
       attempt = CASE WHEN %(reset)s THEN 0 ELSE attempt END,
       lost_count = CASE WHEN %(reset)s THEN 0 ELSE lost_count END,
       unstarted_count = CASE WHEN %(reset)s THEN 0 ELSE unstarted_count END,
       worker = NULL, claimed_ms = NULL, started_ms = NULL, finished_ms = NULL, lease_ms = NULL, beat_ms = NULL
 WHERE shard = %(shard)s AND scheduled_ms = %(scheduled_ms)s AND job_id = %(job_id)s
   AND state = %(seen_state)s AND gen = %(seen_gen)s AND fence = %(seen_fence)s
RETURNING 1

-- name: drop_lease
DELETE FROM tickwheel.leases
 WHERE shard = %(shard)s AND scheduled_ms = %(scheduled_ms)s AND job_id = %(job_id)s

-- name: unbury
DELETE FROM tickwheel.dead_letters
 WHERE shard = %(shard)s AND scheduled_ms = %(scheduled_ms)s AND job_id = %(job_id)s

-- name: update_job
-- batch: tenant_id name schedule_type lane flags state version created_ms updated_ms effective_ms scheduled_ms due_ms instant_ms gen named idempotency_key tags spec payload
UPDATE jobs
   SET tenant_id = b.tenant_id, name = b.name, schedule_type = b.schedule_type, lane = b.lane, flags = b.flags,
       state = b.state, version = b.version, created_ms = b.created_ms, updated_ms = b.updated_ms,
       effective_ms = b.effective_ms, scheduled_ms = b.scheduled_ms, named = b.named,
       idempotency_key = b.idempotency_key, tags = b.tags, spec = b.spec, payload = b.payload
  FROM batch AS b
 WHERE jobs.job_id = b.job_id

-- name: list_run_of_one_off
-- The one-off is about to get another instant: from now on its run is found through runs_of_job.
UPDATE runs SET listed = 1
 WHERE job_id = :job_id AND scheduled_ms = (SELECT first_instant_ms FROM jobs WHERE job_id = :job_id)

-- name: set_first_timer
UPDATE jobs SET first_due_ms = :due_ms, first_instant_ms = :scheduled_ms, first_gen = :gen WHERE job_id = :job_id

-- name: insert_timer
INSERT INTO timers (due_ms, job_id, scheduled_ms, gen, flags, armed_ms)
SELECT :due_ms, job_id, :scheduled_ms, :gen, flags, :now_ms FROM jobs WHERE job_id = :job_id
    ON CONFLICT DO NOTHING

-- name: insert_run
INSERT INTO runs (scheduled_ms, job_id, state, gen, lane, listed, skip_reason, due_ms, timer_gen, armed_ms, finished_ms)
SELECT :scheduled_ms, job_id, :state, :gen, lane, first_instant_ms IS NOT :scheduled_ms, :skip_reason, :due_ms, -:gen,
       :armed_ms, :finished_ms
  FROM jobs WHERE job_id = :job_id

-- name: move_run
-- The table's trigger drops the timer that stood for the run.
UPDATE runs
   SET state = :state, skip_reason = :skip_reason, lease_ms = NULL, finished_ms = :finished_ms
 WHERE scheduled_ms = :scheduled_ms AND job_id = :job_id AND state NOT IN (4, 6, 7)

-- name: let_run_wait
-- The table's trigger replaces the timer by the follow-up.
UPDATE runs
   SET state = 0, gen = gen + 1, due_ms = :due_ms, timer_gen = -(gen + 1), skip_reason = :skip_reason,
       attempt = iif(:reset, 0, attempt), lost_count = iif(:reset, 0, lost_count),
       unstarted_count = iif(:reset, 0, unstarted_count),
       worker = NULL, claimed_ms = NULL, started_ms = NULL, finished_ms = NULL, lease_ms = NULL, beat_ms = NULL
 WHERE scheduled_ms = :scheduled_ms AND job_id = :job_id AND state NOT IN (4, 6, 7)

-- name: run_state
SELECT state, gen FROM runs WHERE scheduled_ms = :scheduled_ms AND job_id = :job_id

-- name: forget_key
DELETE FROM idempotency_keys
 WHERE tenant_id = :tenant_id AND idempotency_key = :idempotency_key AND job_id = :job_id

-- name: drop_tags
DELETE FROM job_tags
 WHERE job_id = :job_id AND tenant_id = :tenant_id AND tag IN (SELECT value FROM json_each(:tags))

-- name: unbury
DELETE FROM dead_letters WHERE scheduled_ms = :scheduled_ms AND job_id = :job_id

-- name: claim_first
-- First claims of runs that are plainly allowed to start: all or none. A run that has a row violates the key; a job
-- that is gone, not active or of another version joins nothing, which violates NOT NULL of `lane`.
-- batch: scheduled_ms due_ms gen fence last
INSERT INTO runs (scheduled_ms, job_id, state, fence, attempt, last, lane, listed, worker, due_ms, timer_gen,
                  armed_ms, claimed_ms, lease_ms)
SELECT b.scheduled_ms, b.job_id, :state, b.fence, 1 - b.last, b.last, j.lane, coalesce(j.flags & 4 <> 0, 0), :worker, b.due_ms, b.gen,
       t.armed_ms, :now_ms, :lease_ms
  FROM batch AS b
  LEFT JOIN jobs AS j ON j.job_id = b.job_id AND j.state = 0 AND j.version = b.gen
  LEFT JOIN timers AS t
    ON t.due_ms = b.due_ms AND t.job_id = b.job_id AND t.scheduled_ms = b.scheduled_ms AND t.gen = b.gen

-- name: claim_seen
-- The same, of one-offs that were seen to be active and of that version, and have not been changed since.
-- batch: scheduled_ms due_ms gen fence last lane
INSERT INTO runs (scheduled_ms, job_id, state, fence, attempt, last, lane, listed, worker, due_ms, timer_gen,
                  armed_ms, claimed_ms, lease_ms)
SELECT b.scheduled_ms, b.job_id, :state, b.fence, 1 - b.last, b.last, b.lane, 0, :worker, b.due_ms, b.gen,
       t.armed_ms, :now_ms, :lease_ms
  FROM batch AS b
  LEFT JOIN timers AS t
    ON t.due_ms = b.due_ms AND t.job_id = b.job_id AND t.scheduled_ms = b.scheduled_ms AND t.gen = b.gen

-- name: observe
-- What a claim has to know, per row of the batch: the job, the run, the timer. An attempt has no lease left if its
-- worker is neither this process nor one whose session goes on.
-- batch: scheduled_ms due_ms gen
SELECT json_group_array(json_array(b.n, j.state, j.version, j.lane, j.flags & 4, r.state, r.gen, r.fence, r.attempt,
                                     r.last, r.lost_count, iif(r.worker = :worker OR r.worker IN (SELECT worker FROM worker_sessions),
                                         r.lease_ms, 0), t.armed_ms,
                                     j.tenant_id, j.name, iif(instr(j.spec, '"concurrency":'), j.spec, NULL)))
  FROM batch AS b
  LEFT JOIN jobs AS j ON j.job_id = b.job_id
  LEFT JOIN runs AS r ON r.scheduled_ms = b.scheduled_ms AND r.job_id = b.job_id
  LEFT JOIN timers AS t
    ON t.due_ms = b.due_ms AND t.job_id = b.job_id AND t.scheduled_ms = b.scheduled_ms AND t.gen = b.gen

-- name: open_runs
SELECT json_group_array(json_array(hex(r.job_id), r.scheduled_ms, r.state, r.fence))
  FROM carray(:wanted) CROSS JOIN runs AS r ON r.job_id = carray.value AND r.listed = 1 AND r.state NOT BETWEEN 4 AND 7

-- name: insert_runs
-- batch: scheduled_ms state gen fence attempt last lane listed skip_reason worker due_ms timer_gen armed_ms claimed_ms finished_ms lease_ms limited
INSERT INTO runs (scheduled_ms, job_id, state, gen, fence, attempt, last, lane, listed, skip_reason, worker, due_ms,
                  timer_gen, armed_ms, claimed_ms, finished_ms, lease_ms, limited)
SELECT scheduled_ms, job_id, state, gen, fence, attempt, last, lane, listed, skip_reason, worker, due_ms,
       timer_gen, armed_ms, claimed_ms, finished_ms, lease_ms, nullif(limited, 0)
  FROM batch

-- name: start_waiting
-- batch: scheduled_ms gen fence attempt last limited
UPDATE runs
   SET state = :state, fence = b.fence, attempt = b.attempt, last = b.last, worker = :worker, claimed_ms = :now_ms,
       lease_ms = :lease_ms, limited = nullif(b.limited, 0)
  FROM batch AS b
 WHERE runs.scheduled_ms = b.scheduled_ms AND runs.job_id = b.job_id
   AND runs.state = 0 AND runs.gen = b.gen AND runs.fence < b.fence

-- name: leave_waiting
-- A waiting run is skipped (7), or waits on under a new timer (0).
-- batch: scheduled_ms old_gen state gen skip_reason due_ms finished_ms
UPDATE runs
   SET state = b.state, gen = b.gen, skip_reason = b.skip_reason, due_ms = b.due_ms, timer_gen = -b.gen,
       finished_ms = b.finished_ms
  FROM batch AS b
 WHERE runs.scheduled_ms = b.scheduled_ms AND runs.job_id = b.job_id AND runs.state = 0 AND runs.gen = b.old_gen

-- name: insert_timers
-- batch: due_ms scheduled_ms gen flags
INSERT INTO timers (due_ms, job_id, scheduled_ms, gen, flags, armed_ms)
SELECT due_ms, job_id, scheduled_ms, gen, flags, :now_ms FROM batch WHERE true
    ON CONFLICT DO NOTHING

-- name: drop_timers
-- batch: due_ms scheduled_ms gen
DELETE FROM timers
 WHERE (due_ms, job_id, scheduled_ms, gen) IN (SELECT due_ms, job_id, scheduled_ms, gen FROM batch)

-- name: complete_jobs
UPDATE jobs SET state = 3 WHERE state = 0 AND job_id IN (SELECT value FROM carray(:wanted))

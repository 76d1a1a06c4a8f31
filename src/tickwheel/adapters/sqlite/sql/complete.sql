-- name: succeed
-- Plain successes; the caller compares the count with what it asked for.
-- batch: scheduled_ms fence lost_count started_ms finished_ms http_status
UPDATE runs
   SET state = 4, attempt = attempt + (last AND state <> 3), lost_count = b.lost_count,
       started_ms = coalesce(nullif(b.started_ms, 0), runs.started_ms),
       finished_ms = coalesce(nullif(b.finished_ms, 0), :now_ms), lease_ms = NULL, http_status = b.http_status,
       error = NULL
  FROM batch AS b
 WHERE runs.scheduled_ms = b.scheduled_ms AND runs.job_id = b.job_id
   AND runs.fence = b.fence AND runs.state BETWEEN 1 AND 3

-- name: observe
-- What a completion has to know, per row of the batch.
-- batch: scheduled_ms
SELECT json_group_array(json_array(b.n, r.state, r.gen, r.fence, r.attempt, r.last, r.unstarted_count, r.worker,
                                     r.worker IS NOT :worker AND r.worker NOT IN (SELECT worker FROM worker_sessions),
                                     r.lease_ms, r.due_ms, r.started_ms, r.error, (j.flags & ~3) | r.lane, j.tenant_id))
  FROM batch AS b
 CROSS JOIN runs AS r ON r.scheduled_ms = b.scheduled_ms AND r.job_id = b.job_id
 CROSS JOIN jobs AS j ON j.job_id = b.job_id

-- name: end_runs
-- Terminal ends.
-- batch: scheduled_ms fence state attempt unstarted_count lost_count started_ms finished_ms http_status error
UPDATE runs
   SET state = b.state, attempt = b.attempt, unstarted_count = b.unstarted_count, lost_count = b.lost_count,
       started_ms = b.started_ms, finished_ms = b.finished_ms, lease_ms = NULL, http_status = b.http_status,
       error = b.error
  FROM batch AS b
 WHERE runs.scheduled_ms = b.scheduled_ms AND runs.job_id = b.job_id
   AND runs.fence = b.fence AND runs.state BETWEEN 1 AND 3

-- name: wait_again
-- Retries and returns; the table's trigger replaces the timer by the follow-up.
-- batch: scheduled_ms fence gen attempt unstarted_count lost_count due_ms http_status error
UPDATE runs
   SET state = 0, gen = b.gen, attempt = b.attempt, unstarted_count = b.unstarted_count, lost_count = b.lost_count,
       due_ms = b.due_ms, timer_gen = -b.gen, http_status = b.http_status, error = b.error,
       worker = NULL, started_ms = NULL, lease_ms = NULL, beat_ms = NULL
  FROM batch AS b
 WHERE runs.scheduled_ms = b.scheduled_ms AND runs.job_id = b.job_id
   AND runs.fence = b.fence AND runs.state BETWEEN 1 AND 3

-- name: record_attempts
-- batch: scheduled_ms fence attempt worker started_ms finished_ms outcome http_status error excerpt
INSERT INTO attempts (scheduled_ms, job_id, fence, attempt, worker, started_ms, finished_ms, outcome, http_status,
                      error, excerpt)
SELECT scheduled_ms, job_id, fence, attempt, worker, started_ms, finished_ms, outcome, http_status, error, excerpt
  FROM batch WHERE true
    ON CONFLICT DO NOTHING

-- name: bury
-- batch: scheduled_ms tenant_id failed_ms cause
INSERT INTO dead_letters (scheduled_ms, job_id, tenant_id, failed_ms, cause)
SELECT scheduled_ms, job_id, tenant_id, failed_ms, cause FROM batch WHERE true
    ON CONFLICT (scheduled_ms, job_id) DO UPDATE SET failed_ms = excluded.failed_ms, cause = excluded.cause

-- name: note_drops
-- For rules of notification, as the trigger of dead letters does.
-- batch: scheduled_ms tenant_id failed_ms cause
INSERT INTO notices (kind, tenant_id, job_id, scheduled_ms, at_ms, subject, detail)
SELECT 'run.dropped', b.tenant_id, b.job_id, b.scheduled_ms, b.failed_ms, '', b.cause FROM batch AS b
 WHERE EXISTS (SELECT 1 FROM records WHERE kind = 'notification' AND tenant_id IN (b.tenant_id, ''))

-- name: renew
-- batch: scheduled_ms fence started_ms lease_ms beat_ms mark_running
UPDATE runs
   SET state = iif(b.mark_running, 3, runs.state),
       attempt = runs.attempt + (b.mark_running AND runs.last AND runs.state <> 3),
       started_ms = coalesce(nullif(b.started_ms, 0), runs.started_ms), lease_ms = b.lease_ms, beat_ms = b.beat_ms
  FROM batch AS b
 WHERE runs.scheduled_ms = b.scheduled_ms AND runs.job_id = b.job_id
   AND runs.fence = b.fence AND runs.state BETWEEN 1 AND 3

-- name: note_progress
-- What an attempt in flight says of itself; shown while its token holds the run.
-- batch: scheduled_ms fence progress note
UPDATE runs SET progress = b.progress, note = b.note, noted_fence = b.fence
  FROM batch AS b
 WHERE runs.scheduled_ms = b.scheduled_ms AND runs.job_id = b.job_id
   AND runs.fence = b.fence AND runs.state BETWEEN 1 AND 3

-- name: record_results
-- batch: scheduled_ms result dropped
INSERT INTO results (scheduled_ms, job_id, result, dropped)
SELECT scheduled_ms, job_id, result, dropped FROM batch WHERE true
    ON CONFLICT DO NOTHING

-- name: held
-- batch: scheduled_ms fence
SELECT json_group_array(b.n)
  FROM batch AS b
 CROSS JOIN runs AS r ON r.scheduled_ms = b.scheduled_ms AND r.job_id = b.job_id
 WHERE r.fence = b.fence AND r.state BETWEEN 1 AND 3

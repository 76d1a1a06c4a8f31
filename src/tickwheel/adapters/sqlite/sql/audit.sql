-- name: jobs
-- Each job of the piece with its standing. A one-off's is that of its run; of a recurring job its live timer counts.
SELECT json_group_array(json_array(hex(p.job_id), 0,
         CASE
           WHEN p.state BETWEEN 2 AND 4 THEN 'ended'
           WHEN p.flags & 4 AND p.state = 1 THEN 'paused'
           WHEN p.flags & 4 THEN
             (SELECT CASE WHEN count(*) = 0 THEN 'unaccounted'
                          WHEN min(t.due_ms) <= :overdue_ms THEN 'overdue' ELSE 'waiting' END
                FROM timers AS t
               WHERE t.job_id = p.job_id AND t.flags & 4 AND t.gen > 0
                 AND NOT EXISTS (SELECT 1 FROM runs AS o WHERE o.scheduled_ms = t.scheduled_ms AND o.job_id = t.job_id))
           WHEN r.state IS NULL THEN
             (SELECT CASE WHEN count(*) = 0 THEN 'unaccounted'
                          WHEN min(t.due_ms) <= :overdue_ms THEN 'overdue' ELSE 'waiting' END
                FROM timers AS t
               WHERE t.due_ms = p.first_due_ms AND t.job_id = p.job_id AND t.scheduled_ms = p.first_instant_ms
                 AND t.gen = p.first_gen)
           WHEN r.state BETWEEN 1 AND 3 THEN iif(r.lease_ms <= :now_ms, 'past_lease', 'in_flight')
           WHEN r.state = 0 THEN
             (SELECT CASE WHEN count(*) = 0 THEN 'unaccounted'
                          WHEN min(t.due_ms) <= :overdue_ms THEN 'overdue' ELSE 'waiting' END
                FROM timers AS t
               WHERE t.due_ms = r.due_ms AND t.job_id = p.job_id AND t.scheduled_ms = r.scheduled_ms
                 AND t.gen = r.timer_gen)
           ELSE CASE r.state WHEN 4 THEN 'succeeded' WHEN 5 THEN 'failed' WHEN 6 THEN 'cancelled'
                             WHEN 7 THEN 'skipped' ELSE 'paused' END
         END))
  FROM (SELECT job_id, state, flags, first_due_ms, first_instant_ms, first_gen FROM jobs
         WHERE job_id > :after ORDER BY job_id LIMIT :limit) AS p
  LEFT JOIN runs AS r ON r.scheduled_ms = p.first_instant_ms AND r.job_id = p.job_id

-- name: runs
-- Listed runs; `:open_only`: of those that have not ended.
SELECT json_group_array(json_array(hex(r.job_id), r.scheduled_ms,
         CASE
           WHEN r.state BETWEEN 1 AND 3 THEN iif(r.lease_ms <= :now_ms, 'past_lease', 'in_flight')
           WHEN r.state = 0 THEN
             (SELECT CASE WHEN count(*) = 0 THEN 'unaccounted'
                          WHEN min(t.due_ms) <= :overdue_ms THEN 'overdue' ELSE 'waiting' END
                FROM timers AS t
               WHERE t.due_ms = r.due_ms AND t.job_id = r.job_id AND t.scheduled_ms = r.scheduled_ms
                 AND t.gen = r.timer_gen)
           ELSE CASE r.state WHEN 4 THEN 'succeeded' WHEN 5 THEN 'failed' WHEN 6 THEN 'cancelled'
                             WHEN 7 THEN 'skipped' ELSE 'paused' END
         END))
  FROM (SELECT job_id, scheduled_ms, state, lease_ms, due_ms, timer_gen FROM runs
         WHERE listed = 1 AND (job_id, scheduled_ms) > (:job_id, :scheduled_ms)
         ORDER BY job_id, scheduled_ms LIMIT :limit) AS r

-- name: open_runs
SELECT json_group_array(json_array(hex(r.job_id), r.scheduled_ms,
         CASE
           WHEN r.state BETWEEN 1 AND 3 THEN iif(r.lease_ms <= :now_ms, 'past_lease', 'in_flight')
           WHEN r.state = 0 THEN
             (SELECT CASE WHEN count(*) = 0 THEN 'unaccounted'
                          WHEN min(t.due_ms) <= :overdue_ms THEN 'overdue' ELSE 'waiting' END
                FROM timers AS t
               WHERE t.due_ms = r.due_ms AND t.job_id = r.job_id AND t.scheduled_ms = r.scheduled_ms
                 AND t.gen = r.timer_gen)
           ELSE 'paused'
         END))
  FROM (SELECT job_id, scheduled_ms, state, lease_ms, due_ms, timer_gen FROM runs
         WHERE listed = 1 AND state NOT BETWEEN 4 AND 7 AND (job_id, scheduled_ms) > (:job_id, :scheduled_ms)
         ORDER BY job_id, scheduled_ms LIMIT :limit) AS r

-- name: slots_astray
-- Slots whose run neither is in flight nor waits: there must be none.
SELECT count(*)
  FROM limit_slots AS s
  LEFT JOIN runs AS r ON r.scheduled_ms = s.scheduled_ms AND r.job_id = s.job_id
 WHERE iif(s.waiting, r.state = 0, r.state BETWEEN 1 AND 3) IS NOT TRUE

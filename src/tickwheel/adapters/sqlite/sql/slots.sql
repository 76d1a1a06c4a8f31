-- name: running
SELECT json_group_array(json_array(value, (SELECT count(*) FROM limit_slots WHERE counted = value AND waiting = 0)))
  FROM carray(:counted)

-- name: waiting
SELECT json_group_array(json_array(s.counted, hex(s.job_id), s.scheduled_ms))
  FROM carray(:counted) CROSS JOIN limit_slots AS s ON s.counted = carray.value AND s.waiting = 1

-- name: leave_waiting
-- Runs that waited start: they wait no more, whatever their limits were then.
-- batch: scheduled_ms counted waiting
DELETE FROM limit_slots
 WHERE (scheduled_ms, job_id) IN (SELECT scheduled_ms, job_id FROM batch)

-- name: take_slots
-- batch: scheduled_ms counted waiting
INSERT INTO limit_slots (counted, scheduled_ms, job_id, waiting)
SELECT counted, scheduled_ms, job_id, waiting FROM batch

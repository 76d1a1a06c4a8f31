-- name: lock_counts
-- One claim after the other per count, to the end of the transaction: whoever comes next sees all slots that were given
-- out. The numbers stand for names, and come in rising order, so that none waits in a circle.
SELECT pg_advisory_xact_lock(number) FROM unnest(%(numbers)s::int8[]) AS x (number)

-- name: running
SELECT x.counted, s.running
  FROM unnest(%(counted)s::text[]) AS x (counted)
 CROSS JOIN LATERAL (
   SELECT count(*) AS running FROM tickwheel.limit_slots AS s WHERE s.counted = x.counted AND NOT s.waiting
 ) AS s

-- name: waiting
SELECT s.counted, s.job_id, s.scheduled_ms
  FROM unnest(%(counted)s::text[]) AS x (counted)
 CROSS JOIN LATERAL (
   SELECT s.counted, s.job_id, s.scheduled_ms FROM tickwheel.limit_slots AS s
    WHERE s.counted = x.counted AND s.waiting
   OFFSET 0
 ) AS s

-- name: leave_waiting
-- Runs that waited start: they wait no more, whatever their limits were then.
DELETE FROM tickwheel.limit_slots AS s
 USING unnest(%(shard)s::int2[], %(scheduled_ms)s::int8[], %(job_id)s::uuid[]) AS x (shard, scheduled_ms, job_id)
 WHERE s.shard = x.shard AND s.scheduled_ms = x.scheduled_ms AND s.job_id = x.job_id

-- name: take_slots
INSERT INTO tickwheel.limit_slots (counted, shard, scheduled_ms, job_id, waiting)
SELECT counted, shard, scheduled_ms, job_id, waiting = 1
  FROM unnest(%(counted)s::text[], %(shard)s::int2[], %(scheduled_ms)s::int8[], %(job_id)s::uuid[],
              %(waiting)s::int2[]) AS x (counted, shard, scheduled_ms, job_id, waiting)

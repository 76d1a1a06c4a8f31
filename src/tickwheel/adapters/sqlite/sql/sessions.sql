-- name: name_worker
INSERT INTO workers (name) VALUES (:name) ON CONFLICT DO NOTHING

-- name: enlist
INSERT INTO worker_sessions (worker, note, enlisted_ms, seen_ms)
SELECT worker, :note, :now_ms, :now_ms FROM workers WHERE name = :name
    ON CONFLICT DO NOTHING

-- name: renew
UPDATE worker_sessions SET note = :note, seen_ms = :now_ms
 WHERE worker = (SELECT worker FROM workers WHERE name = :name)

-- name: end
DELETE FROM worker_sessions
 WHERE worker = (SELECT worker FROM workers WHERE name = :name) AND (:unseen_since_ms IS NULL OR seen_ms <= :unseen_since_ms)

-- name: is_open
SELECT count(*) FROM worker_sessions WHERE worker = (SELECT worker FROM workers WHERE name = :name)

-- name: states
SELECT json_group_array(json_array(w.name, s.note, s.enlisted_ms, s.seen_ms))
  FROM worker_sessions AS s CROSS JOIN workers AS w ON w.worker = s.worker

-- name: queued
-- Which of these runs wait for a worker under these very tokens, and what their attempt will be.
-- batch: scheduled_ms fence
SELECT json_group_array(json_array(b.n, r.attempt + r.last, r.lost_count))
  FROM batch AS b
 CROSS JOIN runs AS r ON r.scheduled_ms = b.scheduled_ms AND r.job_id = b.job_id
 WHERE r.fence = b.fence AND r.state = 1

-- name: begin
-- batch: scheduled_ms fence
UPDATE runs
   SET state = 3, attempt = runs.attempt + runs.last, started_ms = :now_ms, beat_ms = :now_ms, lease_ms = :lease_ms,
       worker = (SELECT worker FROM workers WHERE name = :name)
  FROM batch AS b
 WHERE runs.scheduled_ms = b.scheduled_ms AND runs.job_id = b.job_id AND runs.fence = b.fence AND runs.state = 1

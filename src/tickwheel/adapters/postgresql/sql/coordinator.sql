-- name: beat
-- A holder that was silent for too long must not find its lock as if nothing had happened.
WITH lapsed AS (
  UPDATE tickwheel.locks SET holder = NULL
   WHERE holder = %(incarnation)s
     AND NOT EXISTS (SELECT FROM tickwheel.beats AS b
                      WHERE b.incarnation = %(incarnation)s
                        AND coalesce(%(now_ms)s::int8, tickwheel.clock_ms()) - b.changed_ms < %(lapse_ms)s)
)
INSERT INTO tickwheel.beats AS b (incarnation, counter, payload, changed_ms)
VALUES (%(incarnation)s, %(counter)s, %(payload)s, coalesce(%(now_ms)s::int8, tickwheel.clock_ms()))
ON CONFLICT (incarnation) DO UPDATE
   SET counter = excluded.counter, payload = excluded.payload, changed_ms = excluded.changed_ms
 WHERE b.counter < excluded.counter
RETURNING 1

-- name: members
SELECT incarnation, counter, payload FROM tickwheel.beats

-- name: leave
WITH gone AS (
  DELETE FROM tickwheel.beats WHERE incarnation = %(incarnation)s
)
UPDATE tickwheel.locks SET holder = NULL WHERE holder = %(incarnation)s
RETURNING 1

-- name: lock_holder
SELECT l.holder, l.token
  FROM tickwheel.locks AS l
  JOIN tickwheel.beats AS b
    ON b.incarnation = l.holder
   AND coalesce(%(now_ms)s::int8, tickwheel.clock_ms()) - b.changed_ms < %(lapse_ms)s
 WHERE l.name = %(name)s

-- name: acquire_lock
INSERT INTO tickwheel.locks AS l (name, holder, token)
SELECT %(name)s, b.incarnation, 1
  FROM tickwheel.beats AS b
 WHERE b.incarnation = %(incarnation)s
   AND coalesce(%(now_ms)s::int8, tickwheel.clock_ms()) - b.changed_ms < %(lapse_ms)s
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = l.token + 1
 WHERE l.holder IS NULL
    OR NOT EXISTS (SELECT FROM tickwheel.beats AS b
                    WHERE b.incarnation = l.holder
                      AND coalesce(%(now_ms)s::int8, tickwheel.clock_ms()) - b.changed_ms < %(lapse_ms)s)
RETURNING token

-- name: release_lock
UPDATE tickwheel.locks SET holder = NULL WHERE name = %(name)s AND holder = %(incarnation)s
RETURNING 1

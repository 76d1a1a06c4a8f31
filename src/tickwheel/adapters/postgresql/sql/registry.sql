-- name: note_change
-- First of all: changes wait for one another here.
INSERT INTO tickwheel.record_changes AS c (changes) VALUES (1)
    ON CONFLICT (single_row) DO UPDATE SET changes = c.changes + 1

-- name: record
SELECT version, used_ms, shown, coalesce(%(pin)s::int8, tickwheel.clock_ms())
  FROM (SELECT) AS always
  LEFT JOIN tickwheel.records ON kind = %(kind)s AND tenant_id = %(tenant_id)s AND name = %(name)s

-- name: put_record
INSERT INTO tickwheel.records (kind, tenant_id, name, body, shown, version, updated_ms, used_ms)
VALUES (%(kind)s, %(tenant_id)s, %(name)s, %(body)s, %(shown)s, %(version)s, %(updated_ms)s, %(used_ms)s)
    ON CONFLICT (kind, tenant_id, name) DO UPDATE
   SET body = excluded.body, shown = excluded.shown, version = excluded.version, updated_ms = excluded.updated_ms,
       used_ms = greatest(records.used_ms, excluded.used_ms)
RETURNING used_ms

-- name: delete_record
DELETE FROM tickwheel.records WHERE kind = %(kind)s AND tenant_id = %(tenant_id)s AND name = %(name)s

-- name: changes
SELECT changes FROM tickwheel.record_changes

-- name: records
SELECT kind, tenant_id, name, body, version, updated_ms, used_ms FROM tickwheel.records
 WHERE kind = %(kind)s ORDER BY tenant_id, name

-- name: touch_records
UPDATE tickwheel.records AS r SET used_ms = u.used_ms
  FROM unnest(%(names)s::text[], %(used_ms)s::int8[]) AS u (name, used_ms)
 WHERE r.kind = %(kind)s AND r.name = u.name AND r.used_ms < u.used_ms

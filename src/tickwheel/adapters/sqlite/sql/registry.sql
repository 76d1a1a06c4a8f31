-- name: record
SELECT json_array(version, used_ms, shown) FROM records WHERE kind = ? AND tenant_id = ? AND name = ?

-- name: put_record
INSERT INTO records (kind, tenant_id, name, body, shown, version, updated_ms, used_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET body = excluded.body, shown = excluded.shown, version = excluded.version,
                              updated_ms = excluded.updated_ms, used_ms = excluded.used_ms

-- name: delete_record
DELETE FROM records WHERE kind = ? AND tenant_id = ? AND name = ?

-- name: note_change
UPDATE record_changes SET changes = changes + 1

-- name: changes
SELECT changes FROM record_changes

-- name: records
SELECT json_group_array(json_array(kind, tenant_id, name, body, version, updated_ms, used_ms))
  FROM (SELECT * FROM records WHERE kind = ? ORDER BY tenant_id, name)

-- name: touch_records
UPDATE records SET used_ms = u.value
  FROM jsonb_each(:used_ms) AS u
 WHERE records.kind = :kind AND records.name = u.key AND records.used_ms < u.value

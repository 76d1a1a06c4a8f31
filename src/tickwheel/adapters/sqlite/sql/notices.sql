-- name: add
INSERT INTO notices (kind, tenant_id, job_id, scheduled_ms, at_ms, subject, detail)
SELECT value ->> 0, value ->> 1, unhex(value ->> 2), value ->> 3, value ->> 4, value ->> 5, value ->> 6
  FROM jsonb_each(:rows)
 WHERE EXISTS (SELECT 1 FROM records WHERE kind = 'notification' AND tenant_id IN (value ->> 1, ''))

-- name: oldest
SELECT json_group_array(json_array(kind, tenant_id, hex(job_id), scheduled_ms, at_ms, subject, detail, number))
  FROM (SELECT * FROM notices ORDER BY number LIMIT ?)

-- name: version
SELECT version FROM notice_changes

-- name: groups
SELECT json_group_array(json_array(tenant_id, rule, subject, body)) FROM notice_groups

-- name: rise
UPDATE notice_changes SET version = version + 1 WHERE version = ?

-- name: take_away
DELETE FROM notices WHERE number IN (SELECT value FROM jsonb_each(:numbers))

-- name: put_groups
INSERT INTO notice_groups (tenant_id, rule, subject, body)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM jsonb_each(:rows) WHERE true
    ON CONFLICT DO UPDATE SET body = excluded.body

-- name: drop_groups
DELETE FROM notice_groups WHERE (tenant_id, rule, subject) IN
       (SELECT value ->> 0, value ->> 1, value ->> 2 FROM jsonb_each(:rows))

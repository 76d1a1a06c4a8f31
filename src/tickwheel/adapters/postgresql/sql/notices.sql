-- name: add
INSERT INTO tickwheel.notices (kind, tenant_id, job_id, scheduled_ms, at_ms, subject, detail)
SELECT x.kind, x.tenant_id, x.job_id, x.scheduled_ms, x.at_ms, x.subject, x.detail
  FROM unnest(%(kinds)s::text[], %(tenant_ids)s::text[], %(job_ids)s::uuid[], %(scheduled_ms)s::int8[],
              %(at_ms)s::int8[], %(subjects)s::text[], %(details)s::text[])
       AS x (kind, tenant_id, job_id, scheduled_ms, at_ms, subject, detail)
 WHERE EXISTS (SELECT FROM tickwheel.records AS r WHERE r.kind = 'notification' AND r.tenant_id IN (x.tenant_id, ''))

-- name: oldest
SELECT kind, tenant_id, job_id, scheduled_ms, at_ms, subject, detail, number
  FROM tickwheel.notices ORDER BY number LIMIT %(limit)s

-- name: version
SELECT version FROM tickwheel.notice_changes

-- name: groups
SELECT tenant_id, rule, subject, body FROM tickwheel.notice_groups

-- name: rise
-- First of all, for it locks the one row; no row yet is version 0.
INSERT INTO tickwheel.notice_changes AS c (version) SELECT 1
    ON CONFLICT (single_row) DO UPDATE SET version = c.version + 1
 WHERE c.version = %(version)s
RETURNING version

-- name: take_away
DELETE FROM tickwheel.notices WHERE number = ANY (%(numbers)s::int8[])

-- name: put_groups
INSERT INTO tickwheel.notice_groups (tenant_id, rule, subject, body)
SELECT * FROM unnest(%(tenant_ids)s::text[], %(rules)s::text[], %(subjects)s::text[], %(bodies)s::text[])
    ON CONFLICT (tenant_id, rule, subject) DO UPDATE SET body = excluded.body

-- name: drop_groups
DELETE FROM tickwheel.notice_groups AS g
 USING unnest(%(tenant_ids)s::text[], %(rules)s::text[], %(subjects)s::text[]) AS x (tenant_id, rule, subject)
 WHERE (g.tenant_id, g.rule, g.subject) = (x.tenant_id, x.rule, x.subject)

-- name: insert_entries
INSERT INTO tickwheel.audit_log (at_ms, tenant_id, actor, source, action, subject, before, after)
SELECT coalesce(nullif(at_ms, 0), %(pin)s::int8, tickwheel.clock_ms()), tenant_id, actor, source, action, subject, before,
       after
  FROM unnest(%(entry_at_ms)s::int8[], %(entry_tenant_id)s::text[], %(entry_actor)s::text[], %(entry_source)s::text[],
              %(entry_action)s::text[], %(entry_subject)s::text[], %(entry_before)s::text[], %(entry_after)s::text[])
       WITH ORDINALITY AS e (at_ms, tenant_id, actor, source, action, subject, before, after, n)
 ORDER BY n

-- name: facts
-- The next chunk of a source, whose condition is {where}, newest first.
SELECT at_ms, number, tenant_id, actor, action, subject,
       coalesce(octet_length(before), 0) + coalesce(octet_length(after), 0)
  FROM tickwheel.audit_log
 WHERE {where} AND (at_ms, number) < (%(at_ms)s::int8, %(number)s::int8) AND at_ms >= %(from_ms)s::int8
 ORDER BY at_ms DESC, number DESC LIMIT %(count)s

-- name: entries
SELECT l.number, l.at_ms, l.tenant_id, l.actor, l.source, l.action, l.subject, l.before, l.after
  FROM unnest(%(instants)s::int8[], %(numbers)s::int8[]) AS w (at_ms, number)
 CROSS JOIN LATERAL (SELECT * FROM tickwheel.audit_log AS l
                      WHERE l.at_ms = w.at_ms AND l.number = w.number OFFSET 0) AS l

-- name: trim
-- Materialized: looked at again for each row, it would leave out what is deleted already, and go on beyond the limit.
WITH old AS MATERIALIZED (
  SELECT at_ms, number FROM tickwheel.audit_log WHERE at_ms < %(before_ms)s::int8
   ORDER BY at_ms, number LIMIT %(count)s FOR UPDATE SKIP LOCKED)
DELETE FROM tickwheel.audit_log AS l
 USING old
 WHERE l.at_ms = old.at_ms AND l.number = old.number
RETURNING 1

-- name: created_entries
-- Part of `insert_jobs`: an entry for each draft (a call and a tenant) that a job was created for. `told` is what there
-- is to say of the one job that was asked for.
INSERT INTO tickwheel.audit_log (at_ms, tenant_id, actor, source, action, subject, after)
SELECT clock.now_ms, d.tenant_id, d.actor, d.source, d.action,
       CASE WHEN c.job_count = 1 THEN c.first_id ELSE c.job_count || ' jobs' END,
       coalesce(d.told, '{"job_count":' || c.job_count || ',"job_ids":["' || c.job_ids || '"]}')
  FROM unnest(%(draft_tenant_id)s::text[], %(draft_actor)s::text[], %(draft_source)s::text[], %(draft_action)s::text[],
              %(draft_told)s::text[]) WITH ORDINALITY AS d (tenant_id, actor, source, action, told, n)
  JOIN (SELECT p.draft, count(*) AS job_count, min(p.printed) AS first_id,
               string_agg(p.printed, '","' ORDER BY p.n) AS job_ids
          FROM unnest(%(drafted)s::int4[], %(drafted_id)s::uuid[], %(drafted_printed)s::text[])
               WITH ORDINALITY AS p (draft, job_id, printed, n)
          JOIN j ON j.job_id = p.job_id
         GROUP BY p.draft) AS c ON c.draft = d.n
 CROSS JOIN clock ORDER BY d.n

-- name: created_each
-- Part of `insert_jobs` where each call is for one job: an entry for each that was created.
INSERT INTO tickwheel.audit_log (at_ms, tenant_id, actor, source, action, subject, after)
SELECT clock.now_ms, d.tenant_id, d.actor, d.source, d.action, d.subject, d.after
  FROM unnest(%(entry_tenant_id)s::text[], %(entry_actor)s::text[], %(entry_source)s::text[], %(entry_action)s::text[],
              %(entry_subject)s::text[], %(entry_after)s::text[], %(entry_id)s::uuid[])
       AS d (tenant_id, actor, source, action, subject, after, job_id)
  JOIN j ON j.job_id = d.job_id
 CROSS JOIN clock

-- name: clock_and_entries
-- What is created by a COPY is told in the statement that reads the clock for it, after the transaction drew its xid.
WITH clock AS MATERIALIZED (
  SELECT coalesce(%(pin)s::int8, tickwheel.clock_ms()) AS now_ms
    FROM (SELECT pg_current_xact_id() AS xid OFFSET 0) AS drawn WHERE xid IS NOT NULL
), e AS (
  INSERT INTO tickwheel.audit_log (at_ms, tenant_id, actor, source, action, subject, after)
  SELECT clock.now_ms, d.tenant_id, d.actor, d.source, d.action, d.subject, d.after
    FROM unnest(%(entry_tenant_id)s::text[], %(entry_actor)s::text[], %(entry_source)s::text[], %(entry_action)s::text[],
                %(entry_subject)s::text[], %(entry_after)s::text[])
         WITH ORDINALITY AS d (tenant_id, actor, source, action, subject, after, n)
   CROSS JOIN clock ORDER BY d.n
)
SELECT now_ms FROM clock

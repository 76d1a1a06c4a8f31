-- name: insert_entry
INSERT INTO audit_log (at_ms, tenant_id, actor, source, action, subject, before, after) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_entries
-- The last of each row says where in :after its text begins, and how long it is: a text within a JSON text would have
-- to be written and read twice.
INSERT INTO audit_log (at_ms, tenant_id, actor, source, action, subject, before, after)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       CAST(substr(:after, value ->> 7, value ->> 8) AS TEXT)
  FROM jsonb_each(:rows)

-- name: facts
-- The next chunk of a source ({index}, whose condition is {where}), newest first.
SELECT json_group_array(json_array(at_ms, number, tenant_id, actor, action, subject, size_bytes))
  FROM (SELECT at_ms, number, tenant_id, actor, action, subject,
               coalesce(octet_length(before), 0) + coalesce(octet_length(after), 0) AS size_bytes
          FROM audit_log INDEXED BY audit_log_{index}
         WHERE {where} AND (at_ms, number) < (:at_ms, :number) AND at_ms >= :from_ms
         ORDER BY at_ms DESC, number DESC LIMIT :count)

-- name: entries
SELECT json_group_array(json_array(number, at_ms, tenant_id, actor, source, action, subject, before, after))
  FROM jsonb_each(:numbers) AS n CROSS JOIN audit_log ON number = n.value

-- name: trim
DELETE FROM audit_log
 WHERE number IN (SELECT number FROM audit_log INDEXED BY audit_log_all WHERE at_ms < ? ORDER BY at_ms LIMIT ?)
   AND number < (SELECT max(number) FROM audit_log)

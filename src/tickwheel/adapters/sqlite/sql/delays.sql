-- name: note
INSERT INTO delays (kind, subject, node, from_ms, until_ms, detail, shards)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
  FROM jsonb_each(:rows)
 WHERE true
    ON CONFLICT DO UPDATE SET until_ms = excluded.until_ms, detail = excluded.detail, shards = excluded.shards

-- name: find
SELECT json_group_array(json_array(kind, subject, node, from_ms, until_ms, detail, shards))
  FROM (SELECT * FROM (SELECT d.* FROM jsonb_each(:wanted) AS w
                         JOIN delays AS d ON d.kind = w.value ->> 0
                          AND (w.value ->> 1 IS NULL OR d.subject = w.value ->> 1)
                        WHERE d.from_ms < :until_ms AND d.until_ms > :from_ms
                        ORDER BY d.from_ms DESC, d.kind DESC, d.subject DESC LIMIT :limit)
         ORDER BY from_ms, kind, subject)

-- name: trim
DELETE FROM delays WHERE (kind, subject, from_ms, node) IN
       (SELECT kind, subject, from_ms, node FROM delays WHERE until_ms < ? ORDER BY until_ms LIMIT ?)

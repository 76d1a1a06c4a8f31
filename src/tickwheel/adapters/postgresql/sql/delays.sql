-- name: note
INSERT INTO tickwheel.delays (kind, subject, node, from_ms, until_ms, detail, shards)
SELECT * FROM unnest(%(kinds)s::text[], %(subjects)s::text[], %(nodes)s::text[], %(from_ms)s::int8[],
                     %(until_ms)s::int8[], %(details)s::text[], %(shards)s::text[])
    ON CONFLICT (kind, subject, from_ms, node) DO UPDATE
   SET until_ms = excluded.until_ms, detail = excluded.detail, shards = excluded.shards

-- name: find
SELECT kind, subject, node, from_ms, until_ms, detail, shards
  FROM (SELECT d.* FROM unnest(%(kinds)s::text[], %(subjects)s::text[], %(any)s::int2[]) AS w (kind, subject, any_one)
          JOIN tickwheel.delays AS d ON d.kind = w.kind AND (w.any_one = 1 OR d.subject = w.subject)
         WHERE d.from_ms < %(until_ms)s AND d.until_ms > %(from_ms)s
         ORDER BY d.from_ms DESC, d.kind DESC, d.subject DESC LIMIT %(limit)s) AS latest
 ORDER BY from_ms, kind, subject

-- name: trim
DELETE FROM tickwheel.delays AS d
 USING (SELECT kind, subject, from_ms, node FROM tickwheel.delays WHERE until_ms < %(before_ms)s
         ORDER BY until_ms LIMIT %(limit)s) AS x
 WHERE (d.kind, d.subject, d.from_ms, d.node) = (x.kind, x.subject, x.from_ms, x.node)

-- name: note_deposed
-- One that is alone on its store may have come again under its name.
UPDATE tickwheel.nodes SET deposed_ms = CASE WHEN deposed THEN %(now_ms)s::int8 END
 WHERE deposed <> (deposed_ms IS NOT NULL)

-- name: drop_retired
DELETE FROM tickwheel.nodes AS n
 WHERE n.deposed AND n.deposed_ms < %(cutoff_ms)s::int8
   AND NOT EXISTS (SELECT FROM tickwheel.shards AS s WHERE s.owner = n.number)
   AND NOT EXISTS (SELECT FROM tickwheel.leases AS l WHERE l.worker = n.number)

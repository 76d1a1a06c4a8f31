-- name: try_lock
-- Of this session: two who sweep at once would only get into each other's way.
SELECT pg_try_advisory_lock(%(key)s::int8)

-- name: clock
SELECT coalesce(%(pinned_ms)s::int8, tickwheel.clock_ms())

-- name: pending_detach
SELECT p.relname, c.relname
  FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid JOIN pg_class AS p ON p.oid = i.inhparent
 WHERE i.inhdetachpending AND p.relnamespace = 'tickwheel'::regnamespace

-- name: orphans
-- Tables that were taken out of their parent, and no more than that, when somebody was interrupted.
SELECT c.relname FROM pg_class AS c
 WHERE c.relnamespace = 'tickwheel'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^(timers|runs|attempts|results|jobs)_[0-9]'
   AND NOT EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = c.oid)
 ORDER BY c.relname

-- name: pieces
SELECT piece, range_start, range_end FROM tickwheel.history_files WHERE dropped_ms IS NULL ORDER BY piece

-- name: announced
SELECT piece FROM tickwheel.history_files WHERE leaf = %(leaf)s AND dropped_ms IS NULL

-- name: add_piece
INSERT INTO tickwheel.history_files (piece, leaf, range_start, range_end)
SELECT 'gone_' || %(leaf)s || '_' || count(*) + 1, %(leaf)s, %(start)s, %(end)s
  FROM tickwheel.history_files WHERE leaf = %(leaf)s
RETURNING piece

-- name: piece_is_written
UPDATE tickwheel.history_files
   SET row_count = %(row_count)s, checksum = %(checksum)s, written_ms = tickwheel.clock_ms() WHERE piece = %(piece)s

-- name: piece_is_dropped
UPDATE tickwheel.history_files
   SET row_count = %(row_count)s, dropped_ms = tickwheel.clock_ms() WHERE piece = %(piece)s

-- name: acknowledged
-- Of all shards: how far everything is resolved, and the oldest transaction that some stored snapshot may not have seen.
SELECT count(*) = (SELECT shard_count FROM tickwheel.meta)
       AND bool_and(system_id = (SELECT system_identifier::text FROM pg_control_system())),
       min(ack_ms), min(pg_snapshot_xmin(snapshot::pg_snapshot))::text::int8
  FROM tickwheel.shard_acks

-- name: marks
SELECT leaf, mark::text::int8 FROM tickwheel.leaf_marks
 WHERE system_id = (SELECT system_identifier::text FROM pg_control_system())

-- name: draw_mark
-- The transaction id of this very statement, which begins after the clock was read.
INSERT INTO tickwheel.leaf_marks (leaf, mark, system_id)
SELECT leaf, pg_current_xact_id(), (SELECT system_identifier::text FROM pg_control_system())
  FROM unnest(%(leaves)s::text[]) AS l (leaf)
    ON CONFLICT (leaf) DO UPDATE SET mark = excluded.mark, system_id = excluded.system_id
RETURNING leaf

-- name: forget_mark
DELETE FROM tickwheel.leaf_marks WHERE leaf = %(leaf)s

-- name: sealed
SELECT sealed_timers_ms, sealed_runs_ms, sealed_home FROM tickwheel.meta

-- name: seal_timers
UPDATE tickwheel.meta SET sealed_timers_ms = greatest(sealed_timers_ms, %(end)s::int8)

-- name: seal_runs
UPDATE tickwheel.meta SET sealed_runs_ms = greatest(sealed_runs_ms, %(end)s::int8)

-- name: seal_jobs
UPDATE tickwheel.meta SET sealed_home = greatest(sealed_home, %(end)s::int4)

-- name: hold_leaves
SELECT pg_advisory_xact_lock(%(key)s::int8)

-- name: side_rows
-- What refers to the definitions of a piece, after a position.
SELECT job_id, tenant_id, name, idempotency_key, tags, named FROM {piece}
 WHERE job_id > %(after)s AND (idempotency_key IS NOT NULL OR tags IS NOT NULL OR named)
 ORDER BY job_id LIMIT %(count)s

-- name: free_keys
DELETE FROM tickwheel.idempotency_keys AS k
 USING unnest(%(tenants)s::text[], %(keys)s::text[], %(ids)s::uuid[]) AS w (tenant_id, idempotency_key, job_id)
 WHERE k.tenant_id = w.tenant_id AND k.idempotency_key = w.idempotency_key AND k.job_id = w.job_id

-- name: free_tags
DELETE FROM tickwheel.job_tags AS t
 USING unnest(%(tenants)s::text[], %(tags)s::text[], %(ids)s::uuid[]) AS w (tenant_id, tag, job_id)
 WHERE t.tenant_id = w.tenant_id AND t.tag = w.tag AND t.job_id = w.job_id

-- name: free_names
DELETE FROM tickwheel.job_names AS n
 USING unnest(%(tenants)s::text[], %(names)s::text[], %(ids)s::uuid[]) AS w (tenant_id, name, job_id)
 WHERE n.tenant_id = w.tenant_id AND n.name = w.name AND n.job_id = w.job_id

-- name: over
-- Of the leaf without an end: definitions that are over, from a position on; those with a key stay a day longer.
SELECT updated_ms, job_id,
       greatest(updated_ms, created_ms)
       < CASE WHEN idempotency_key IS NULL THEN %(cutoff_ms)s::int8 ELSE %(key_cutoff_ms)s::int8 END
  FROM tickwheel.jobs
 WHERE home = 0 AND state IN (2, 3, 4) AND (updated_ms, job_id) > (%(at_ms)s::int8, %(after)s)
   AND updated_ms < %(cutoff_ms)s::int8
 ORDER BY updated_ms, job_id LIMIT %(count)s

-- name: once
-- The same for one-offs that were far ahead when they were made: their instant is past.
SELECT first_instant_ms, job_id, true
  FROM tickwheel.jobs
 WHERE home = 0 AND flags & 4 = 0 AND (first_instant_ms, job_id) > (%(at_ms)s::int8, %(after)s)
   AND first_instant_ms < %(key_cutoff_ms)s::int8
 ORDER BY first_instant_ms, job_id LIMIT %(count)s

-- name: spent
-- Of these jobs of the leaf without an end, those that nothing refers to any more.
SELECT j.job_id, j.tenant_id, j.name, j.idempotency_key, j.tags, j.named
  FROM tickwheel.jobs AS j
 WHERE j.home = 0 AND j.job_id = ANY (%(ids)s::uuid[]) AND j.updated_ms < %(cutoff_ms)s::int8
   AND (j.flags & 4 = 0 OR j.state IN (2, 3, 4))
   AND NOT EXISTS (SELECT FROM tickwheel.runs AS r WHERE r.job_id = j.job_id AND r.listed)
   AND NOT EXISTS (SELECT FROM tickwheel.runs AS r
                    WHERE r.shard = ('x' || substr(replace(j.job_id::text, '-', ''), 13, 4))::bit(16)::int
                      AND r.scheduled_ms = j.first_instant_ms AND r.job_id = j.job_id)
   AND NOT EXISTS (SELECT FROM tickwheel.timers AS t
                    WHERE t.shard = ('x' || substr(replace(j.job_id::text, '-', ''), 13, 4))::bit(16)::int
                      AND t.due_ms = j.first_due_ms AND t.job_id = j.job_id AND t.scheduled_ms = j.first_instant_ms
                      AND t.gen = j.first_gen)

-- name: delete_jobs
DELETE FROM tickwheel.jobs WHERE home = 0 AND job_id = ANY (%(ids)s::uuid[])

-- name: runs_to_keep
l.state NOT IN (4, 5, 6, 7) OR coalesce(l.finished_ms, 0) >= %(cutoff_ms)s
   OR EXISTS (SELECT FROM tickwheel.dead_letters AS d
               WHERE d.shard = l.shard AND d.scheduled_ms = l.scheduled_ms AND d.job_id = l.job_id)

-- name: attempts_to_keep
EXISTS (SELECT FROM tickwheel.runs AS r
         WHERE r.shard = l.shard AND r.scheduled_ms = l.scheduled_ms AND r.job_id = l.job_id)

-- name: jobs_to_keep
greatest(l.updated_ms, l.created_ms) >= %(cutoff_ms)s
   OR EXISTS (SELECT FROM tickwheel.runs AS r
               WHERE r.shard = ('x' || substr(replace(l.job_id::text, '-', ''), 13, 4))::bit(16)::int
                 AND r.scheduled_ms = l.first_instant_ms AND r.job_id = l.job_id)
   OR (l.version > 1 AND EXISTS (SELECT FROM tickwheel.runs AS r WHERE r.job_id = l.job_id AND r.listed))
   OR EXISTS (SELECT FROM tickwheel.timers AS t
               WHERE t.shard = ('x' || substr(replace(l.job_id::text, '-', ''), 13, 4))::bit(16)::int
                 AND t.due_ms = l.first_due_ms AND t.job_id = l.job_id AND t.scheduled_ms = l.first_instant_ms
                 AND t.gen = l.first_gen)

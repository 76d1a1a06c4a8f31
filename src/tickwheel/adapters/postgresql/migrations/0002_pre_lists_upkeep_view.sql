-- Indexes for lists, what upkeep remembers, and the view for people with SQL tools.

-- No job_id in it: equal names share one entry. (COLLATE "C": prefixes are ranges in it.)
CREATE INDEX jobs_by_name ON tickwheel.jobs (tenant_id, name COLLATE "C");
-- Small: it holds the definitions that no occurrence comes from any more, and paused ones.
CREATE INDEX jobs_held ON tickwheel.jobs (tenant_id, state, job_id) WHERE state IN (1, 2, 3);
-- For retention row by row, of the leaf that has no end: recurring jobs that are over, one-offs from far ahead.
CREATE INDEX jobs_over ON tickwheel.jobs (updated_ms, job_id) WHERE home = 0 AND state IN (2, 3, 4);
CREATE INDEX jobs_once ON tickwheel.jobs (first_instant_ms, job_id) WHERE home = 0 AND flags & 4 = 0;

-- For each leaf of timers that is over: a transaction id that was drawn when the clock had passed its end by a minute.
CREATE TABLE tickwheel.leaf_marks (
  leaf      text PRIMARY KEY,
  mark      xid8 NOT NULL,
  system_id text NOT NULL                          -- transaction ids of another database cluster mean nothing here
);

-- Leaves that were, or are about to be, taken out of their table, and what the file holds, once there is one.
CREATE TABLE tickwheel.history_files (
  piece      text PRIMARY KEY,                     -- name of the detached table; the file's name is made of it
  leaf       text NOT NULL,
  range_start int8 NOT NULL,                       -- of the leaf: instants, or days for jobs
  range_end  int8 NOT NULL,
  row_count  int8,                                 -- NULL: not exported yet
  checksum   text,
  written_ms int8,
  dropped_ms int8
);

CREATE TYPE tickwheel.job_status AS ENUM ('PENDING', 'DISPATCHED', 'COMPLETED', 'FAILED', 'CANCELLED');

-- `job_` and 26 characters of Crockford's alphabet, as everywhere else.
CREATE FUNCTION tickwheel.job_id_text(job_id uuid) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT 'job_' || string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 1 + substring(bits FROM 5 * n + 1 FOR 5)::bit(5)::int, 1),
                              '' ORDER BY n)
    FROM (SELECT B'00' || ('x' || replace(job_id::text, '-', ''))::bit(128) AS bits) AS b, generate_series(0, 25) AS n
$$;

-- NULL for a payload that is JSON but not jsonb (an escaped NUL character, a number beyond numeric).
CREATE FUNCTION tickwheel.payload_jsonb(payload text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN payload = '' THEN NULL ELSE payload::jsonb END;
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $$;

-- For people, not for programs: it has no index of its own. Give it to a role with
--   GRANT USAGE ON SCHEMA tickwheel TO reader; GRANT SELECT ON tickwheel.scheduled_jobs TO reader;
-- (the tables behind it stay closed to that role).
CREATE VIEW tickwheel.scheduled_jobs AS
SELECT tickwheel.job_id_text(j.job_id)::varchar(64) AS job_id,
       (j.spec::jsonb #>> '{target,endpoint}')::varchar(512) AS target_endpoint,
       tickwheel.payload_jsonb(j.payload) AS payload,
       to_timestamp(coalesce(live.due_ms, r.scheduled_ms, j.scheduled_ms) / 1000.0) AS execute_at,
       (j.spec::jsonb ->> 'cron')::varchar(32) AS cron_expression,
       (CASE WHEN j.flags & 4 = 0 AND r.state IS NOT NULL
             THEN CASE r.state WHEN 2 THEN 'DISPATCHED' WHEN 3 THEN 'DISPATCHED' WHEN 4 THEN 'COMPLETED'
                               WHEN 5 THEN 'FAILED' WHEN 6 THEN 'CANCELLED' WHEN 7 THEN 'CANCELLED' ELSE 'PENDING' END
             WHEN j.flags & 4 <> 0 AND j.state = 0 AND r.state IN (2, 3) THEN 'DISPATCHED'
             ELSE CASE j.state WHEN 2 THEN 'CANCELLED' WHEN 3 THEN 'COMPLETED' ELSE 'PENDING' END
         END)::tickwheel.job_status AS status,
       greatest(coalesce(r.attempt, 0) - 1, 0)::integer AS retry_count,
       CASE WHEN r.state IN (1, 2, 3) THEN left(n.incarnation, 64) END::varchar(64) AS lease_owner,
       CASE WHEN r.state IN (1, 2, 3)
            THEN to_timestamp(coalesce(l.lease_ms, r.lease_ms) / 1000.0) AT TIME ZONE 'UTC' END AS lease_expires_at,
       j.tenant_id,
       j.name
  FROM tickwheel.jobs AS j
  LEFT JOIN LATERAL (
       SELECT max(o.scheduled_ms) AS scheduled_ms FROM tickwheel.open_runs AS o
        WHERE o.job_id = j.job_id AND j.flags & 4 <> 0) AS opened ON true
  LEFT JOIN tickwheel.runs AS r
    ON r.shard = ('x' || substr(replace(j.job_id::text, '-', ''), 13, 4))::bit(16)::int
   AND r.scheduled_ms = CASE WHEN j.flags & 4 = 0 THEN j.first_instant_ms ELSE opened.scheduled_ms END
   AND r.job_id = j.job_id
  LEFT JOIN LATERAL (
       SELECT min(t.due_ms) AS due_ms
         FROM (SELECT due_ms, scheduled_ms FROM tickwheel.timers AS t
                WHERE t.job_id = j.job_id AND t.gen = j.version AND t.gen > 0 AND t.flags & 4 <> 0
                ORDER BY t.due_ms DESC LIMIT 8) AS t
        WHERE j.flags & 4 <> 0 AND j.state = 0
          AND NOT EXISTS (SELECT FROM tickwheel.runs AS taken
                           WHERE taken.shard = ('x' || substr(replace(j.job_id::text, '-', ''), 13, 4))::bit(16)::int
                             AND taken.scheduled_ms = t.scheduled_ms AND taken.job_id = j.job_id)) AS live ON true
  LEFT JOIN tickwheel.nodes AS n ON n.number = r.worker
  LEFT JOIN tickwheel.leases AS l
    ON l.shard = r.shard AND l.scheduled_ms = r.scheduled_ms AND l.job_id = r.job_id AND l.fence = r.fence
 WHERE j.state <> 4;

COMMENT ON VIEW tickwheel.scheduled_jobs IS 'One row per job, read only; see docs/reference/postgresql.md';

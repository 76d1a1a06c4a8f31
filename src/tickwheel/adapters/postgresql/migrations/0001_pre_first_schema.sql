-- Jobs, timers, runs and what belongs to them, in the schema `tickwheel`.
--
-- States are the numbers of domain.run.RunState and domain.job.JobState: waiting or in flight = 0, 1, 2, 3; in
-- flight = 1, 2, 3; paused = 8. Ids are the 16 raw bytes of a job id as a uuid; shard and home are read off them.
-- Instants are UTC epoch milliseconds. Names are written in full, so that no session needs a search_path.
--
-- `jobs`, `timers`, `runs` and `attempts` are partitioned by time; their leaves are made by `partitions.py` (ahead
-- of time, or when a row asks for one). There is no default partition: rows in it would forbid to make the leaf
-- that they belong to, and would never leave.

-- The clock that decides what is due. Rounded down, so that nothing is early.
CREATE FUNCTION tickwheel.clock_ms() RETURNS int8 LANGUAGE sql VOLATILE PARALLEL SAFE
  AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 $$;

CREATE TABLE tickwheel.meta (
  single_row    bool PRIMARY KEY CHECK (single_row),
  cluster       text NOT NULL DEFAULT '',          -- a name; two clusters on one database are told apart by it
  shard_count   int4 NOT NULL,
  leaf_ms       int8 NOT NULL,                     -- length of a near leaf of timers, runs and attempts
  sealed_timers_ms int8 NOT NULL DEFAULT 0,        -- leaves that ended up to here were dropped and never come back
  sealed_runs_ms   int8 NOT NULL DEFAULT 0,
  sealed_home      int4 NOT NULL DEFAULT 0,        -- the same for jobs, in days
  created_ms    int8 NOT NULL
);

INSERT INTO tickwheel.meta (single_row, shard_count, leaf_ms, created_ms) VALUES (true, 256, 86400000, tickwheel.clock_ms());

-- One row per process start. `number` stands for the incarnation in rows of the ledger.
CREATE TABLE tickwheel.nodes (
  number      int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  incarnation text NOT NULL UNIQUE,
  deposed     bool NOT NULL DEFAULT false,         -- none of its claims commits any more
  dead        bool NOT NULL DEFAULT false,         -- its process is proved to be gone
  enlisted_ms int8 NOT NULL
) WITH (fillfactor = 20);                          -- claims lock a row each: keep these updates on its page

-- Named apart from `nodes` because another process may take it at any time.
CREATE TABLE tickwheel.shards (
  shard int2 PRIMARY KEY,
  epoch int8 NOT NULL,
  owner int4                                       -- nodes.number; NULL after a release
) WITH (fillfactor = 30);

INSERT INTO tickwheel.shards (shard, epoch) SELECT n, 0 FROM generate_series(0, 255) AS n;

-- In a table of its own: it is written each second, and claims read `shards`.
CREATE TABLE tickwheel.shard_acks (
  shard     int2 PRIMARY KEY,
  ack_ms    int8 NOT NULL,
  snapshot  text NOT NULL,
  system_id text NOT NULL                          -- of the database cluster that the snapshot was read on
) WITH (fillfactor = 30);

CREATE TABLE tickwheel.jobs (
  job_id           uuid NOT NULL,
  created_ms       int8 NOT NULL,
  updated_ms       int8 NOT NULL,
  effective_ms     int8 NOT NULL,
  scheduled_ms     int8,                           -- the instant of a one-off
  first_due_ms     int8,                           -- key of a one-off's latest first timer, so that it is found
  first_instant_ms int8,                           --   without an index over all timers; NULL for recurring jobs
  first_gen        int4,
  home             int4 NOT NULL,                  -- due day at creation; 0 = recurring or far
  version          int4 NOT NULL,
  lane             int2 NOT NULL,
  flags            int2 NOT NULL,                  -- of its timers: bits 0-1 lane, 4 recurring, 8 handler
  state            int2 NOT NULL,
  named            bool NOT NULL,
  tenant_id        text NOT NULL,
  name             text NOT NULL,
  schedule_type    text NOT NULL,
  idempotency_key  text,
  tags             text[],                         -- NULL = none
  spec             text NOT NULL,
  payload          text NOT NULL,
  PRIMARY KEY (home, job_id)
) PARTITION BY RANGE (home);

CREATE INDEX jobs_by_tenant ON tickwheel.jobs (tenant_id, job_id);
CREATE INDEX jobs_active_recurring ON tickwheel.jobs (job_id) WHERE state = 0 AND flags & 4 <> 0;

CREATE TABLE tickwheel.job_names (                 -- live named jobs
  tenant_id text NOT NULL,
  name      text NOT NULL,
  job_id    uuid NOT NULL,
  PRIMARY KEY (tenant_id, name)
);

CREATE TABLE tickwheel.job_tags (
  tenant_id text NOT NULL,
  tag       text NOT NULL,
  job_id    uuid NOT NULL,
  PRIMARY KEY (tenant_id, tag, job_id)
);

CREATE TABLE tickwheel.idempotency_keys (
  tenant_id       text NOT NULL,
  idempotency_key text NOT NULL,
  job_id          uuid NOT NULL,
  request_hash    bytea NOT NULL,
  next_ms         int8,
  created_ms      int8 NOT NULL,
  PRIMARY KEY (tenant_id, idempotency_key)
);

-- Never updated, and deleted only by a change that takes a timer back which is not due yet; else a row leaves with its leaf.
-- So a row tells nothing by being there: a first timer is live when its gen is the job's version (one-offs: it is
-- the one that the job names) and its run has no row, a follow-up when its run waits for its gen.
CREATE TABLE tickwheel.timers (
  due_ms       int8 NOT NULL,
  job_id       uuid NOT NULL,
  scheduled_ms int8 NOT NULL,
  armed_ms     int8 NOT NULL,                      -- when it was written
  xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
  gen          int4 NOT NULL,
  shard        int2 NOT NULL,
  flags        int2 NOT NULL,
  PRIMARY KEY (shard, due_ms, job_id, scheduled_ms, gen)
) PARTITION BY RANGE (due_ms);

CREATE INDEX timers_by_xid ON tickwheel.timers (xid);
CREATE INDEX timers_of_recurring ON tickwheel.timers (job_id, due_ms) WHERE gen > 0 AND flags & 4 <> 0;

-- The ledger. Leaves have fillfactor 45 and no index over anything that a completion writes, so that each
-- completion is a HOT update: no index entry, no dead row to vacuum.
CREATE TABLE tickwheel.runs (
  scheduled_ms    int8 NOT NULL,
  job_id          uuid NOT NULL,
  fence           int8 NOT NULL DEFAULT 0,
  due_ms          int8,                            -- with timer_gen: the timer that stands for this run
  armed_ms        int8,
  claimed_ms      int8,
  started_ms      int8,
  finished_ms     int8,
  lease_ms        int8,
  beat_ms         int8,                            -- not NULL: there is a row in `leases`
  gen             int4 NOT NULL DEFAULT 0,
  timer_gen       int4,
  worker          int4,                            -- nodes.number
  attempt         int4 NOT NULL DEFAULT 0,         -- attempts used up
  lost_count      int4 NOT NULL DEFAULT 0,
  unstarted_count int4 NOT NULL DEFAULT 0,
  shard           int2 NOT NULL,
  state           int2 NOT NULL,
  lane            int2 NOT NULL,
  skip_reason     int2 NOT NULL DEFAULT 0,
  http_status     int2 NOT NULL DEFAULT 0,
  last            bool NOT NULL DEFAULT false,     -- the attempt in flight is the last allowed; counts from RUNNING on
  listed          bool NOT NULL,                   -- false: the run of a one-off at the instant that it has now
  error           text,
  PRIMARY KEY (shard, scheduled_ms, job_id)
) PARTITION BY RANGE (scheduled_ms);

CREATE INDEX runs_of_job ON tickwheel.runs (job_id, scheduled_ms) WHERE listed;

-- Listed runs that are not terminal: an index over states of `runs` would cost every completion its HOT update.
CREATE TABLE tickwheel.open_runs (
  job_id       uuid NOT NULL,
  scheduled_ms int8 NOT NULL,
  PRIMARY KEY (job_id, scheduled_ms)
);

CREATE FUNCTION tickwheel.keep_open_runs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.state IN (4, 5, 6, 7) THEN
    DELETE FROM tickwheel.open_runs WHERE job_id = NEW.job_id AND scheduled_ms = NEW.scheduled_ms;
  ELSE
    INSERT INTO tickwheel.open_runs (job_id, scheduled_ms) VALUES (NEW.job_id, NEW.scheduled_ms) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER open_run_added AFTER INSERT ON tickwheel.runs FOR EACH ROW
  WHEN (NEW.listed AND NEW.state NOT IN (4, 5, 6, 7)) EXECUTE FUNCTION tickwheel.keep_open_runs();
CREATE TRIGGER open_run_moved AFTER UPDATE OF state, listed ON tickwheel.runs FOR EACH ROW
  WHEN (NEW.listed AND (NOT OLD.listed OR (NEW.state IN (4, 5, 6, 7)) <> (OLD.state IN (4, 5, 6, 7))))
  EXECUTE FUNCTION tickwheel.keep_open_runs();

CREATE TABLE tickwheel.attempts (
  scheduled_ms int8 NOT NULL,
  job_id       uuid NOT NULL,
  fence        int8 NOT NULL,
  started_ms   int8,
  finished_ms  int8,
  attempt      int4 NOT NULL,
  worker       int4,
  shard        int2 NOT NULL,
  outcome      int2 NOT NULL,
  http_status  int2 NOT NULL,
  error        text,
  excerpt      text,
  PRIMARY KEY (shard, scheduled_ms, job_id, fence)
) PARTITION BY RANGE (scheduled_ms);

-- Attempts that were renewed at least once, so that nobody has to look for the others in the ledger.
CREATE TABLE tickwheel.leases (
  scheduled_ms int8 NOT NULL,
  job_id       uuid NOT NULL,
  fence        int8 NOT NULL,
  lease_ms     int8 NOT NULL,
  worker       int4 NOT NULL,
  shard        int2 NOT NULL,
  PRIMARY KEY (shard, scheduled_ms, job_id)
);

CREATE INDEX leases_by_end ON tickwheel.leases (lease_ms);
CREATE INDEX leases_by_worker ON tickwheel.leases (worker);

CREATE TABLE tickwheel.dead_letters (
  scheduled_ms int8 NOT NULL,
  job_id       uuid NOT NULL,
  failed_ms    int8 NOT NULL,
  shard        int2 NOT NULL,
  tenant_id    text NOT NULL,
  cause        text NOT NULL,
  PRIMARY KEY (shard, scheduled_ms, job_id)
);

CREATE INDEX dead_letters_by_tenant ON tickwheel.dead_letters (tenant_id, failed_ms DESC, job_id, scheduled_ms);

-- Long texts compress several times faster with lz4, where the server was built with it.
DO $$
BEGIN
  ALTER TABLE tickwheel.jobs ALTER COLUMN spec SET COMPRESSION lz4, ALTER COLUMN payload SET COMPRESSION lz4;
  ALTER TABLE tickwheel.runs ALTER COLUMN error SET COMPRESSION lz4;
  ALTER TABLE tickwheel.attempts ALTER COLUMN error SET COMPRESSION lz4, ALTER COLUMN excerpt SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN NULL;
END $$;

-- Jobs, timers, runs and what belongs to them.
--
-- States are the numbers of domain.run.RunState and domain.job.JobState. Waiting or in flight = 0, 1, 2, 3;
-- in flight = 1, 2, 3. Ids are 16 raw bytes, instants are UTC epoch milliseconds.

CREATE TABLE jobs (
  job_id          BLOB PRIMARY KEY NOT NULL,
  tenant_id       TEXT NOT NULL,
  name            TEXT NOT NULL,
  schedule_type   TEXT NOT NULL,
  lane            INTEGER NOT NULL,
  flags           INTEGER NOT NULL,           -- of its timers: bits 0-1 lane, 4 recurring, 8 handler
  state           INTEGER NOT NULL,
  version         INTEGER NOT NULL,
  created_ms      INTEGER NOT NULL,
  updated_ms      INTEGER NOT NULL,
  effective_ms    INTEGER NOT NULL,
  scheduled_ms    INTEGER,                    -- the instant of a one-off
  first_due_ms    INTEGER,                    -- key of a one-off's latest first timer, so that it is found
  first_instant_ms INTEGER,                   --   without an index over all timers; NULL for recurring jobs
  first_gen       INTEGER,
  named           INTEGER NOT NULL,
  idempotency_key TEXT,
  tags            TEXT,                       -- JSON array; NULL = none
  spec            TEXT NOT NULL,
  payload         TEXT NOT NULL               -- last: long ones spill into overflow pages
) STRICT;

CREATE INDEX jobs_by_tenant ON jobs (tenant_id, job_id);
CREATE INDEX jobs_by_name ON jobs (tenant_id, name, job_id);
CREATE UNIQUE INDEX jobs_named ON jobs (tenant_id, name) WHERE named = 1 AND state <> 4;
CREATE INDEX jobs_by_state ON jobs (tenant_id, state, job_id) WHERE state IN (1, 2, 3);
CREATE INDEX jobs_over ON jobs (updated_ms, job_id) WHERE state IN (2, 3, 4);

CREATE TABLE job_tags (
  tenant_id TEXT NOT NULL,
  tag       TEXT NOT NULL,
  job_id    BLOB NOT NULL,
  PRIMARY KEY (tenant_id, tag, job_id)
) STRICT, WITHOUT ROWID;

-- A row exists until its run is resolved.
CREATE TABLE timers (
  due_ms       INTEGER NOT NULL,
  job_id       BLOB NOT NULL,
  scheduled_ms INTEGER NOT NULL,
  gen          INTEGER NOT NULL,
  flags        INTEGER NOT NULL,
  armed_ms     INTEGER,                       -- when a first timer was written
  PRIMARY KEY (due_ms, job_id, scheduled_ms, gen)
) STRICT, WITHOUT ROWID;

CREATE INDEX timers_of_recurring ON timers (job_id) WHERE flags & 4 AND gen > 0;

-- The ledger. Clustered by instant: runs that are due together lie on the same few pages, so a batch of claims
-- or completions dirties few of them, and old history leaves from the low end.
CREATE TABLE runs (
  scheduled_ms    INTEGER NOT NULL,
  job_id          BLOB NOT NULL,
  state           INTEGER NOT NULL,
  gen             INTEGER NOT NULL DEFAULT 0,
  fence           INTEGER NOT NULL DEFAULT 0,
  attempt         INTEGER NOT NULL DEFAULT 0, -- attempts used up
  last            INTEGER NOT NULL DEFAULT 0, -- 1: the attempt in flight is the last allowed; counts from RUNNING on
  lane            INTEGER NOT NULL,
  listed          INTEGER NOT NULL,           -- 0: the run of a one-off at the instant that it has now; else 1
  skip_reason     INTEGER NOT NULL DEFAULT 0,
  lost_count      INTEGER NOT NULL DEFAULT 0,
  unstarted_count INTEGER NOT NULL DEFAULT 0,
  worker          INTEGER,                    -- workers.worker
  due_ms          INTEGER,                    -- with timer_gen: the timer that stands for this run
  timer_gen       INTEGER,
  armed_ms        INTEGER,
  claimed_ms      INTEGER,
  started_ms      INTEGER,
  finished_ms     INTEGER,
  lease_ms        INTEGER,
  beat_ms         INTEGER,
  http_status     INTEGER NOT NULL DEFAULT 0,
  error           TEXT,
  PRIMARY KEY (scheduled_ms, job_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_of_job ON runs (job_id, scheduled_ms) WHERE listed = 1;
CREATE INDEX runs_open ON runs (job_id, scheduled_ms) WHERE listed = 1 AND state IN (0, 1, 2, 3, 8);
CREATE INDEX runs_in_flight ON runs (worker, lease_ms) WHERE state IN (1, 2, 3);
CREATE INDEX runs_of_one_offs ON runs (state, job_id) WHERE listed = 0 AND state IN (5, 6, 7, 8);

CREATE TABLE attempts (
  scheduled_ms INTEGER NOT NULL,
  job_id       BLOB NOT NULL,
  fence        INTEGER NOT NULL,
  attempt      INTEGER NOT NULL,
  worker       INTEGER,
  started_ms   INTEGER,
  finished_ms  INTEGER,
  outcome      INTEGER NOT NULL,
  http_status  INTEGER NOT NULL,
  error        TEXT,
  excerpt      TEXT,
  PRIMARY KEY (scheduled_ms, job_id, fence)
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_letters (
  scheduled_ms INTEGER NOT NULL,
  job_id       BLOB NOT NULL,
  tenant_id    TEXT NOT NULL,
  failed_ms    INTEGER NOT NULL,
  cause        TEXT NOT NULL,
  PRIMARY KEY (scheduled_ms, job_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX dead_letters_by_tenant ON dead_letters (tenant_id, failed_ms DESC, job_id, scheduled_ms);

CREATE TABLE idempotency_keys (
  tenant_id       TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  job_id          BLOB NOT NULL,
  request_hash    BLOB NOT NULL,
  next_ms         INTEGER,
  created_ms      INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, idempotency_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
  worker INTEGER PRIMARY KEY,
  name   TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE shards (
  shard INTEGER PRIMARY KEY,
  epoch INTEGER NOT NULL
) STRICT;

INSERT INTO shards (shard, epoch)
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 255)
SELECT n, 0 FROM numbers;

CREATE TABLE totals (
  only         INTEGER PRIMARY KEY CHECK (only = 1),
  jobs         INTEGER NOT NULL,
  waiting      INTEGER NOT NULL,
  dead_letters INTEGER NOT NULL
) STRICT;

INSERT INTO totals VALUES (1, 0, 0, 0);

-- A run that leaves flight, or waits anew, takes its timer with it; one that waits gets its follow-up timer.
-- So no write can resolve a run and forget its timer, or the other way round.
CREATE TRIGGER run_moves AFTER UPDATE OF state ON runs WHEN NEW.state NOT IN (1, 2, 3)
BEGIN
  DELETE FROM timers
   WHERE due_ms = OLD.due_ms AND job_id = OLD.job_id AND scheduled_ms = OLD.scheduled_ms AND gen = OLD.timer_gen;
  INSERT INTO timers (due_ms, job_id, scheduled_ms, gen, flags)
  SELECT NEW.due_ms, NEW.job_id, NEW.scheduled_ms, NEW.timer_gen, (jobs.flags & ~3) | NEW.lane
    FROM jobs WHERE NEW.state = 0 AND jobs.job_id = NEW.job_id
      ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER job_counted AFTER INSERT ON jobs
BEGIN UPDATE totals SET jobs = jobs + 1; END;
CREATE TRIGGER job_deleted AFTER UPDATE OF state ON jobs WHEN NEW.state = 4 AND OLD.state <> 4
BEGIN UPDATE totals SET jobs = jobs - 1; END;
CREATE TRIGGER job_swept AFTER DELETE ON jobs WHEN OLD.state <> 4
BEGIN UPDATE totals SET jobs = jobs - 1; END;
CREATE TRIGGER timer_counted AFTER INSERT ON timers
BEGIN UPDATE totals SET waiting = waiting + 1; END;
CREATE TRIGGER timer_dropped AFTER DELETE ON timers
BEGIN UPDATE totals SET waiting = waiting - 1; END;
CREATE TRIGGER dead_letter_counted AFTER INSERT ON dead_letters
BEGIN UPDATE totals SET dead_letters = dead_letters + 1; END;
CREATE TRIGGER dead_letter_dropped AFTER DELETE ON dead_letters
BEGIN UPDATE totals SET dead_letters = dead_letters - 1; END;

-- What handlers return, and what attempts in flight say of themselves. `noted_fence` is the token of the attempt that
-- said it: what an earlier one said is not shown.
CREATE TABLE results (
  scheduled_ms INTEGER NOT NULL,
  job_id       BLOB NOT NULL,
  result       TEXT,                          -- JSON; NULL: not kept
  dropped      TEXT,                          -- why not
  PRIMARY KEY (scheduled_ms, job_id)
) STRICT, WITHOUT ROWID;

ALTER TABLE runs ADD COLUMN progress REAL;
ALTER TABLE runs ADD COLUMN note TEXT;
ALTER TABLE runs ADD COLUMN noted_fence INTEGER;

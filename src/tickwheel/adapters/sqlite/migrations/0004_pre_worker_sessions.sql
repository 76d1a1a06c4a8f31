-- Workers in other processes: their sessions, by the number that stands for them in runs.
CREATE TABLE worker_sessions (
  worker      INTEGER PRIMARY KEY, -- workers.worker
  note        TEXT NOT NULL,       -- JSON
  enlisted_ms INTEGER NOT NULL,
  seen_ms     INTEGER NOT NULL
) STRICT;

-- Delays: stretches of time in which a node let runs wait, and why. What explanations of late runs are made from.
CREATE TABLE delays (
  kind     TEXT NOT NULL,
  subject  TEXT NOT NULL,
  node     TEXT NOT NULL,
  from_ms  INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,
  detail   TEXT NOT NULL,
  shards   TEXT NOT NULL,         -- a bit for each, in hexadecimal; '' = all
  PRIMARY KEY (kind, subject, from_ms, node)
) STRICT, WITHOUT ROWID;

CREATE INDEX delays_by_end ON delays (until_ms);

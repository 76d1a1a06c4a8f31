-- Records that people make (API keys, tenants, signing secrets), and the audit log: who changed what.
CREATE TABLE records (
  kind       TEXT NOT NULL,
  tenant_id  TEXT NOT NULL,
  name       TEXT NOT NULL,
  body       TEXT NOT NULL,       -- JSON
  shown      TEXT NOT NULL,       -- JSON: what the audit log says of the body
  version    INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  used_ms    INTEGER NOT NULL,
  PRIMARY KEY (kind, tenant_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX records_by_name ON records (kind, name);

CREATE TABLE record_changes (
  changes INTEGER NOT NULL        -- rises with every change of a record
) STRICT;

INSERT INTO record_changes VALUES (0);

-- The audit log. Every index ends with (at_ms, number), the order in which it is read.
CREATE TABLE audit_log (
  number    INTEGER PRIMARY KEY,  -- one above the highest there is; the newest entry is never deleted
  at_ms     INTEGER NOT NULL,
  tenant_id TEXT NOT NULL,
  actor     TEXT NOT NULL,
  source    TEXT NOT NULL,
  action    TEXT NOT NULL,
  subject   TEXT NOT NULL,
  before    TEXT,                 -- JSON
  after     TEXT                  -- JSON
) STRICT;

CREATE INDEX audit_log_all ON audit_log (at_ms);
CREATE INDEX audit_log_of_tenant ON audit_log (tenant_id, at_ms);
CREATE INDEX audit_log_of_actor ON audit_log (actor, at_ms);
CREATE INDEX audit_log_of_subject ON audit_log (subject, at_ms);
-- Nearly all entries tell of new jobs; what is not one of these is found among them by these two.
CREATE INDEX audit_log_uncommon ON audit_log (at_ms) WHERE action <> 'job.create';
CREATE INDEX audit_log_uncommon_of_tenant ON audit_log (tenant_id, at_ms) WHERE action <> 'job.create';

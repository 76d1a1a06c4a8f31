-- Records that people make (API keys, tenants, signing secrets), and the audit log: who changed what.

CREATE TABLE tickwheel.records (
  kind       text NOT NULL,
  tenant_id  text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  body       text NOT NULL,                        -- JSON
  shown      text NOT NULL,                        -- JSON: what the audit log says of the body
  version    int8 NOT NULL,
  updated_ms int8 NOT NULL,
  used_ms    int8 NOT NULL,
  PRIMARY KEY (kind, tenant_id, name)
) WITH (fillfactor = 80);                          -- `used_ms` changes often, and is in no index

CREATE INDEX records_by_name ON tickwheel.records (kind, name);

-- One row, if any. Whoever changes a record locks it first: changes become visible in the order of this number.
CREATE TABLE tickwheel.record_changes (
  single_row bool PRIMARY KEY DEFAULT true CHECK (single_row),
  changes    int8 NOT NULL
) WITH (fillfactor = 10);

-- Rows are only added, and deleted from the oldest end. Every index ends with (at_ms, number), the order in which it
-- is read. What an entry tells is read by its key alone, so long texts go where they don't widen the rows.
CREATE TABLE tickwheel.audit_log (
  at_ms     int8 NOT NULL,
  number    int8 GENERATED ALWAYS AS IDENTITY (CACHE 1),
  tenant_id text COLLATE "C" NOT NULL,
  actor     text COLLATE "C" NOT NULL,
  source    text NOT NULL,
  action    text COLLATE "C" NOT NULL,
  subject   text COLLATE "C" NOT NULL,
  before    text,                                  -- JSON
  after     text,                                  -- JSON
  PRIMARY KEY (at_ms, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000);

CREATE INDEX audit_log_of_tenant ON tickwheel.audit_log (tenant_id, at_ms, number);
CREATE INDEX audit_log_of_actor ON tickwheel.audit_log (actor, at_ms, number);
CREATE INDEX audit_log_of_subject ON tickwheel.audit_log (subject, at_ms, number);
-- Nearly all entries tell of new jobs; what is not one of these is found among them by these two.
CREATE INDEX audit_log_uncommon ON tickwheel.audit_log (at_ms, number) WHERE action <> 'job.create';
CREATE INDEX audit_log_uncommon_of_tenant ON tickwheel.audit_log (tenant_id, at_ms, number)
 WHERE action <> 'job.create';

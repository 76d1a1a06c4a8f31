-- Notices: what happened that a rule of notification may want to be told. They are written by the transaction that
-- makes them true, and only while a rule of the tenant, or of the installation (''), exists.
CREATE TABLE tickwheel.notices (
  number       int8 GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
  kind         text NOT NULL,
  tenant_id    text NOT NULL,
  job_id       uuid NOT NULL,                       -- all zeros: of no job
  scheduled_ms int8 NOT NULL,
  at_ms        int8 NOT NULL,
  subject      text NOT NULL,
  detail       text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE tickwheel.notice_groups (
  tenant_id text NOT NULL,
  rule      text NOT NULL,
  subject   text NOT NULL,
  body      text NOT NULL,                         -- JSON
  PRIMARY KEY (tenant_id, rule, subject)
) WITH (fillfactor = 70);

-- One row, if any; it rises with every change of the groups.
CREATE TABLE tickwheel.notice_changes (
  single_row bool PRIMARY KEY DEFAULT true CHECK (single_row),
  version    int8 NOT NULL
) WITH (fillfactor = 10);

CREATE FUNCTION tickwheel.note_dead_letters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tickwheel.notices (kind, tenant_id, job_id, scheduled_ms, at_ms, subject, detail)
  SELECT 'run.dead_lettered', b.tenant_id, b.job_id, b.scheduled_ms, b.failed_ms, '', b.cause
    FROM buried AS b
   WHERE EXISTS (SELECT FROM tickwheel.records AS r
                  WHERE r.kind = 'notification' AND r.tenant_id IN (b.tenant_id, ''));
  RETURN NULL;
END $$;

CREATE TRIGGER dead_letters_noted AFTER INSERT ON tickwheel.dead_letters
  REFERENCING NEW TABLE AS buried FOR EACH STATEMENT EXECUTE FUNCTION tickwheel.note_dead_letters();

CREATE FUNCTION tickwheel.note_exhaustion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tickwheel.notices (kind, tenant_id, job_id, scheduled_ms, at_ms, subject, detail)
  SELECT 'schedule.exhausted', NEW.tenant_id, NEW.job_id, 0, 0, '', ''
   WHERE EXISTS (SELECT FROM tickwheel.records AS r
                  WHERE r.kind = 'notification' AND r.tenant_id IN (NEW.tenant_id, ''));
  RETURN NULL;
END $$;

CREATE TRIGGER exhaustion_noted AFTER UPDATE OF state ON tickwheel.jobs FOR EACH ROW
  WHEN (NEW.state = 3 AND OLD.state <> 3) EXECUTE FUNCTION tickwheel.note_exhaustion();

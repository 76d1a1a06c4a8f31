-- Notices: what happened that a rule of notification may want to be told. They are written by the transaction that
-- makes them true, and only while a rule of the tenant, or of the installation (''), exists.
CREATE TABLE notices (
  number       INTEGER PRIMARY KEY AUTOINCREMENT,
  kind         TEXT NOT NULL,
  tenant_id    TEXT NOT NULL,
  job_id       BLOB NOT NULL,
  scheduled_ms INTEGER NOT NULL,
  at_ms        INTEGER NOT NULL,
  subject      TEXT NOT NULL,
  detail       TEXT NOT NULL
) STRICT;

CREATE TABLE notice_groups (
  tenant_id TEXT NOT NULL,
  rule      TEXT NOT NULL,
  subject   TEXT NOT NULL,
  body      TEXT NOT NULL,        -- JSON
  PRIMARY KEY (tenant_id, rule, subject)
) STRICT, WITHOUT ROWID;

CREATE TABLE notice_changes (
  version INTEGER NOT NULL        -- rises with every change of the groups
) STRICT;

INSERT INTO notice_changes VALUES (0);

CREATE TRIGGER dead_letter_noted AFTER INSERT ON dead_letters
  WHEN EXISTS (SELECT 1 FROM records WHERE kind = 'notification' AND tenant_id IN (NEW.tenant_id, ''))
BEGIN
  INSERT INTO notices (kind, tenant_id, job_id, scheduled_ms, at_ms, subject, detail)
  VALUES ('run.dead_lettered', NEW.tenant_id, NEW.job_id, NEW.scheduled_ms, NEW.failed_ms, '', NEW.cause);
END;

CREATE TRIGGER exhaustion_noted AFTER UPDATE OF state ON jobs
  WHEN NEW.state = 3 AND OLD.state <> 3
   AND EXISTS (SELECT 1 FROM records WHERE kind = 'notification' AND tenant_id IN (NEW.tenant_id, ''))
BEGIN
  INSERT INTO notices (kind, tenant_id, job_id, scheduled_ms, at_ms, subject, detail)
  VALUES ('schedule.exhausted', NEW.tenant_id, NEW.job_id, 0, 0, '', '');
END;

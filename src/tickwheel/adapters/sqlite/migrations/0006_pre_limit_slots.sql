-- Limits of concurrency: the slots that runs hold in what they are counted under. A row is written by the claim, and
-- goes in the transaction in which its run leaves flight. `waiting`: one of the few that may wait for a slot.
ALTER TABLE runs ADD COLUMN limited INTEGER;

CREATE TABLE limit_slots (
  counted      TEXT NOT NULL,
  scheduled_ms INTEGER NOT NULL,
  job_id       BLOB NOT NULL,
  waiting      INTEGER NOT NULL,
  PRIMARY KEY (counted, waiting, scheduled_ms, job_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX limit_slots_of_run ON limit_slots (scheduled_ms, job_id);

CREATE TRIGGER run_frees_slots AFTER UPDATE OF state ON runs
  WHEN OLD.limited AND (NEW.limited IS NULL  -- an edit took its limits away while it waited
                        OR NEW.state NOT BETWEEN 1 AND 3 AND (OLD.state BETWEEN 1 AND 3 OR NEW.state > 0))
BEGIN
  DELETE FROM limit_slots WHERE scheduled_ms = NEW.scheduled_ms AND job_id = NEW.job_id;
END;

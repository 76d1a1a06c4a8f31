-- Limits of concurrency: the slots that runs hold in what they are counted under. A row is written by the claim, and
-- goes in the transaction in which its run leaves flight, so it can neither outlive nor precede it. Runs without
-- limits have NULL in `limited`, which takes no room, and pay for one condition per move.
ALTER TABLE tickwheel.runs ADD COLUMN limited bool;

CREATE TABLE tickwheel.limit_slots (
  counted      text NOT NULL,                      -- scope, tenant, key or name; see domain.concurrency
  scheduled_ms int8 NOT NULL,
  job_id       uuid NOT NULL,
  shard        int2 NOT NULL,
  waiting      bool NOT NULL,                      -- not in flight: one of the few that may wait for a slot
  PRIMARY KEY (counted, shard, scheduled_ms, job_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX limit_slots_of_run ON tickwheel.limit_slots (shard, scheduled_ms, job_id);

CREATE FUNCTION tickwheel.free_limit_slots() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM tickwheel.limit_slots
   WHERE shard = NEW.shard AND scheduled_ms = NEW.scheduled_ms AND job_id = NEW.job_id;
  RETURN NULL;
END $$;

CREATE TRIGGER run_frees_slots AFTER UPDATE OF state ON tickwheel.runs FOR EACH ROW
  WHEN (OLD.limited AND (NEW.limited IS NULL  -- an edit took its limits away while it waited
                         OR NEW.state NOT IN (1, 2, 3) AND (OLD.state IN (1, 2, 3) OR NEW.state <> 0)))
  EXECUTE FUNCTION tickwheel.free_limit_slots();

-- SQLite builds a list of more than two constants anew for each row whose index has it in its condition, and once
-- more for the row's old form: an updated run paid for five. Ranges cost nothing. A trigger's INSERT ... SELECT
-- opens a temporary table each time the trigger runs, whether or not it inserts anything, so runs that end have a
-- trigger without one. Both together are half of what a completion costs.
DROP INDEX jobs_by_state;
DROP INDEX jobs_over;
DROP INDEX runs_open;
DROP INDEX runs_in_flight;
DROP INDEX runs_of_one_offs;
DROP TRIGGER run_moves;

CREATE INDEX jobs_by_state ON jobs (tenant_id, state, job_id) WHERE state BETWEEN 1 AND 3;
CREATE INDEX jobs_over ON jobs (updated_ms, job_id) WHERE state BETWEEN 2 AND 4;
CREATE INDEX runs_open ON runs (job_id, scheduled_ms) WHERE listed = 1 AND state NOT BETWEEN 4 AND 7;
CREATE INDEX runs_in_flight ON runs (worker, lease_ms) WHERE state BETWEEN 1 AND 3;
CREATE INDEX runs_of_one_offs ON runs (state, job_id) WHERE listed = 0 AND state >= 5;

CREATE TRIGGER run_ends AFTER UPDATE OF state ON runs WHEN NEW.state >= 4
BEGIN
  DELETE FROM timers
   WHERE due_ms = OLD.due_ms AND job_id = OLD.job_id AND scheduled_ms = OLD.scheduled_ms AND gen = OLD.timer_gen;
END;

CREATE TRIGGER run_waits AFTER UPDATE OF state ON runs WHEN NEW.state = 0
BEGIN
  DELETE FROM timers
   WHERE due_ms = OLD.due_ms AND job_id = OLD.job_id AND scheduled_ms = OLD.scheduled_ms AND gen = OLD.timer_gen;
  INSERT INTO timers (due_ms, job_id, scheduled_ms, gen, flags)
  SELECT NEW.due_ms, NEW.job_id, NEW.scheduled_ms, NEW.timer_gen, (jobs.flags & ~3) | NEW.lane
    FROM jobs WHERE jobs.job_id = NEW.job_id
      ON CONFLICT DO NOTHING;
END;

-- So that the check of all chains looks at recurring jobs only.
CREATE INDEX jobs_active_recurring ON jobs (job_id) WHERE state = 0 AND flags & 4;

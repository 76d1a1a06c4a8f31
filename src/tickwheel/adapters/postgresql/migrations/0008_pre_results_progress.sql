-- What handlers return, and what attempts in flight say of themselves (it goes with their lease).
ALTER TABLE tickwheel.leases ADD COLUMN IF NOT EXISTS progress real, ADD COLUMN IF NOT EXISTS note text;

-- Cut like `runs`, which its leaves follow; a leaf is made when the first result asks for it.
CREATE TABLE tickwheel.results (
  scheduled_ms int8 NOT NULL,
  job_id       uuid NOT NULL,
  shard        int2 NOT NULL,
  result       text,                               -- JSON; NULL: not kept
  dropped      text,                               -- why not
  PRIMARY KEY (shard, scheduled_ms, job_id)
) PARTITION BY RANGE (scheduled_ms);

DO $$
BEGIN
  ALTER TABLE tickwheel.results ALTER COLUMN result SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN NULL;
END $$;

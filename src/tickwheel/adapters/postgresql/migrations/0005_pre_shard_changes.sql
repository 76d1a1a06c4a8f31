-- How many changes (edits, pauses, cancels) the jobs of a shard have had. A claim that saw the definitions of its batch
-- at some count, and still finds that count, need not look at any job again. Apart from `shards`: takeovers write that.
CREATE TABLE tickwheel.shard_changes (
  shard   int2 PRIMARY KEY,
  changes int8 NOT NULL
) WITH (fillfactor = 30);

INSERT INTO tickwheel.shard_changes (shard, changes) SELECT n, 1 FROM generate_series(0, 255) AS n;

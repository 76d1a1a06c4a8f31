-- Who is alive, and who does the chores: for clusters without etcd or Consul.

-- Written several times a second by each node. UNLOGGED: no WAL, no flush, and a crash of the server empties it,
-- which every reader survives (its own beat is gone as well, so it judges nobody until it is written again).
CREATE UNLOGGED TABLE tickwheel.beats (
  incarnation text PRIMARY KEY,
  counter     int8 NOT NULL,
  payload     bytea NOT NULL,
  changed_ms  int8 NOT NULL                        -- by this server's clock; for the life of locks only
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Logged: a token is never given out again.
CREATE TABLE tickwheel.locks (
  name   text PRIMARY KEY,
  holder text,                                     -- an incarnation; NULL after a release
  token  int8 NOT NULL
) WITH (fillfactor = 30);

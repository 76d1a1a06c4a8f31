-- Workers in other processes: their sessions. Each has a row in `nodes` too, by which its runs are found.
CREATE TABLE tickwheel.workers (
  number      int4 PRIMARY KEY,                    -- nodes.number
  note        text NOT NULL,                       -- JSON
  enlisted_ms int8 NOT NULL,
  seen_ms     int8 NOT NULL
) WITH (fillfactor = 50);

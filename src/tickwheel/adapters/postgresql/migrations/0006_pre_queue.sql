-- The queue, for clusters without Redis: packs of hints on their way to workers.

-- UNLOGGED: no WAL, no flush, and a crash of the server empties it, which costs latency only: owners publish again what
-- nobody began. Small, and every row of it is new all the time; a take changes no column of the index, so it is a HOT
-- update, for which each page keeps room.
CREATE UNLOGGED TABLE tickwheel.queue_packs (
  lane       int2 NOT NULL,
  route      text COLLATE "C" NOT NULL,            -- "webhooks" or "handler:NAME"
  number     int8 GENERATED ALWAYS AS IDENTITY,    -- the order of publication
  visible_ms int8 NOT NULL,                        -- by this server's clock; a take moves it into the future
  delivery   int4 NOT NULL,                        -- how often it was taken; a receipt names one of these times
  hints      bytea NOT NULL,                       -- of one pack
  PRIMARY KEY (lane, route, number)
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000000000  -- empty or full: no figure lasts
);

-- A full pack is 2,176 bytes. In the row, so that it is written once, and not again into a table beside this one.
ALTER TABLE tickwheel.queue_packs ALTER COLUMN hints SET STORAGE PLAIN;

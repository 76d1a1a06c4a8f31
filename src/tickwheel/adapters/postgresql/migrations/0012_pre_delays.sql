-- Delays: stretches of time in which a node let runs wait, and why. What explanations of late runs are made from.
CREATE TABLE tickwheel.delays (
  kind     text COLLATE "C" NOT NULL,
  subject  text COLLATE "C" NOT NULL,
  node     text COLLATE "C" NOT NULL,
  from_ms  int8 NOT NULL,
  until_ms int8 NOT NULL,
  detail   text NOT NULL,
  shards   text NOT NULL,                          -- a bit for each, in hexadecimal; '' = all
  PRIMARY KEY (kind, subject, from_ms, node)
) WITH (fillfactor = 80);                          -- a delay that goes on is written again and again

CREATE INDEX delays_by_end ON tickwheel.delays (until_ms);

-- name: publish
-- Packs of several topics: a row each. Sorted by the order of the arrays, so that numbers rise as they were given.
-- Packs are sent in binary (%b): in hexadecimal they cost twice as much.
INSERT INTO tickwheel.queue_packs (lane, route, visible_ms, delivery, hints)
SELECT x.lane, x.route, 0, 0, x.hints
  FROM unnest(%(lanes)s::int2[], %(routes)s::text[], %(packs)b::bytea[])
       WITH ORDINALITY AS x (lane, route, hints, place)
 ORDER BY x.place

-- name: take
-- The oldest packs of each topic that nobody else is taking at this moment, as many as fit, topic by topic. Those
-- that don't fit were locked for nothing, until the end of this statement.
WITH candidates AS (
  SELECT p.place, r.*
    FROM unnest(%(lanes)s::int2[], %(routes)s::text[], %(floors)s::int8[])
         WITH ORDINALITY AS p (lane, route, floor, place)
   CROSS JOIN LATERAL (
         SELECT q.ctid AS tid, q.number, octet_length(q.hints) / %(width)s AS size
           FROM tickwheel.queue_packs AS q
          WHERE q.lane = p.lane AND q.route = p.route AND q.number >= p.floor
            AND q.visible_ms <= coalesce(%(now_ms)s::int8, tickwheel.clock_ms())
          ORDER BY q.number
          LIMIT %(packs)s
            FOR UPDATE SKIP LOCKED) AS r
), counted AS (
  SELECT c.place, c.tid,
         sum(c.size) OVER (ORDER BY c.place, c.number) AS total,
         row_number() OVER (ORDER BY c.place, c.number) AS rank
    FROM candidates AS c
)
UPDATE tickwheel.queue_packs AS q
   SET visible_ms = coalesce(%(now_ms)s::int8, tickwheel.clock_ms()) + %(again_ms)s, delivery = q.delivery + 1
  FROM counted AS c
 WHERE q.ctid = c.tid
   AND (c.total <= %(room)s OR c.rank = 1)
RETURNING c.place, q.number, q.delivery, q.hints

-- name: ack
DELETE FROM tickwheel.queue_packs AS q
 USING unnest(%(lanes)s::int2[], %(routes)s::text[], %(numbers)s::int8[], %(deliveries)s::int4[])
       AS x (lane, route, number, delivery)
 WHERE q.lane = x.lane AND q.route = x.route AND q.number = x.number AND q.delivery = x.delivery
   AND q.visible_ms > coalesce(%(now_ms)s::int8, tickwheel.clock_ms())

-- name: nack
-- To the end, so that a pack which nobody can use does not hold up those behind it.
UPDATE tickwheel.queue_packs AS q
   SET visible_ms = 0, number = DEFAULT
  FROM unnest(%(lanes)s::int2[], %(routes)s::text[], %(numbers)s::int8[], %(deliveries)s::int4[])
       AS x (lane, route, number, delivery)
 WHERE q.lane = x.lane AND q.route = x.route AND q.number = x.number AND q.delivery = x.delivery
   AND q.visible_ms > coalesce(%(now_ms)s::int8, tickwheel.clock_ms())

-- name: depth
SELECT (SELECT coalesce(sum(octet_length(r.hints)), 0)::int8 / %(width)s
          FROM (SELECT q.hints
                  FROM tickwheel.queue_packs AS q
                 WHERE q.lane = p.lane AND q.route = p.route AND q.number >= p.floor
                   AND q.visible_ms <= coalesce(%(now_ms)s::int8, tickwheel.clock_ms())
                 ORDER BY q.number
                 LIMIT %(packs)s) AS r)
  FROM unnest(%(lanes)s::int2[], %(routes)s::text[], %(floors)s::int8[])
       WITH ORDINALITY AS p (lane, route, floor, place)
 ORDER BY p.place

-- name: filled
SELECT p.lane, p.route
  FROM unnest(%(lanes)s::int2[], %(routes)s::text[], %(floors)s::int8[]) AS p (lane, route, floor)
 WHERE EXISTS (SELECT FROM tickwheel.queue_packs AS q
                WHERE q.lane = p.lane AND q.route = p.route AND q.number >= p.floor
                  AND q.visible_ms <= coalesce(%(now_ms)s::int8, tickwheel.clock_ms()))

-- name: floors
SELECT (SELECT q.number
          FROM tickwheel.queue_packs AS q
         WHERE q.lane = p.lane AND q.route = p.route AND q.number >= p.floor
         ORDER BY q.number
         LIMIT 1),
       (SELECT s.last_value - (NOT s.is_called)::int4 FROM tickwheel.queue_packs_number_seq AS s)
  FROM unnest(%(lanes)s::int2[], %(routes)s::text[], %(floors)s::int8[])
       WITH ORDINALITY AS p (lane, route, floor, place)
 ORDER BY p.place

-- name: page_end
-- The due time of the row that is the last one within the limit; no row when fewer are left.
SELECT due_ms FROM timers WHERE due_ms >= :from_ms AND due_ms < :until_ms ORDER BY due_ms LIMIT 1 OFFSET :limit - 1

-- name: load_timers
-- One row of five texts: parsing columns of numbers costs a tenth of decoding rows.
SELECT count(*), group_concat(due_ms), group_concat(hex(job_id), ''), group_concat(scheduled_ms),
       group_concat(gen), group_concat(flags)
  FROM (SELECT due_ms, job_id, scheduled_ms, gen, flags FROM timers
         WHERE due_ms >= :from_ms AND due_ms < :until_ms ORDER BY due_ms, job_id, scheduled_ms, gen)

-- name: chains
-- Active recurring jobs from a position on, and how many live timers each has.
SELECT json_group_array(json_array(
         hex(piece.job_id), piece.tenant_id,
         (SELECT count(*) FROM timers AS t
           WHERE t.job_id = piece.job_id AND t.flags & 4 AND t.gen > 0
             AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.scheduled_ms = t.scheduled_ms AND r.job_id = t.job_id))))
  FROM (SELECT job_id, tenant_id FROM jobs
         WHERE state = 0 AND flags & 4 AND job_id > :after ORDER BY job_id LIMIT :limit) AS piece

-- name: load_work
-- One row of columns, a place in them per wanted job, empty where there is none. Specs and payloads are long: joined
-- end to end they are neither quoted here nor read character by character there.
-- Last: the instants after the live one that have a row already (recurring jobs only).
SELECT json_array(json_group_array(j.tenant_id), json_group_array(j.name), json_group_array(j.state),
                  json_group_array(j.version), json_group_array(j.idempotency_key),
                  json_group_array(j.effective_ms), json_group_array(j.updated_ms),
                  json_group_array(octet_length(j.spec)), json_group_array(octet_length(j.payload)),
                  json_group_array(iif(j.flags & 4,
             (SELECT group_concat(r.scheduled_ms) FROM runs AS r
               WHERE r.job_id = j.job_id AND r.listed = 1
                 AND r.scheduled_ms > (SELECT min(t.scheduled_ms) FROM timers AS t
                                        WHERE t.job_id = j.job_id AND t.flags & 4 AND t.gen > 0
                                          AND NOT EXISTS (SELECT 1 FROM runs AS o
                                                           WHERE o.scheduled_ms = t.scheduled_ms
                                                             AND o.job_id = t.job_id))),
             NULL))),
       CAST(group_concat(j.spec, '') AS BLOB), CAST(group_concat(j.payload, '') AS BLOB)
  FROM carray(:wanted) LEFT JOIN jobs AS j ON j.job_id = carray.value

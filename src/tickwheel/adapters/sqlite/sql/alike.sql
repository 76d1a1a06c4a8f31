-- name: insert_alike_jobs
-- Bindings as `alike.py` makes them; the rows come in the order of :payloads.
INSERT INTO jobs (job_id, tenant_id, name, schedule_type, lane, flags, state, version, created_ms, updated_ms,
                  effective_ms, scheduled_ms, first_due_ms, first_instant_ms, first_gen, named, idempotency_key,
                  tags, spec, payload)
SELECT substr(:ids, 16 * rowid - 15, 16), :tenant_id, :name, :schedule_type, :lane, :flags, :state, :version,
       CAST(substr(:created, 16 * rowid - 15, 16) AS INTEGER), :updated_ms,
       CAST(substr(:effective, 16 * rowid - 15, 16) AS INTEGER),
       CAST(substr(:scheduled, 16 * rowid - 15, 16) AS INTEGER),
       CAST(substr(:due, 16 * rowid - 15, 16) AS INTEGER),
       CAST(substr(:instant, 16 * rowid - 15, 16) AS INTEGER),
       :gen, 0, NULL, NULL, :spec, value
  FROM carray(:payloads)

-- name: insert_alike_timers
-- The same rows.
INSERT INTO timers (due_ms, job_id, scheduled_ms, gen, flags, armed_ms)
SELECT CAST(substr(:due, 16 * rowid - 15, 16) AS INTEGER), substr(:ids, 16 * rowid - 15, 16),
       CAST(substr(:instant, 16 * rowid - 15, 16) AS INTEGER), :gen, :flags, :now_ms
  FROM carray(:payloads) WHERE true
    ON CONFLICT DO NOTHING

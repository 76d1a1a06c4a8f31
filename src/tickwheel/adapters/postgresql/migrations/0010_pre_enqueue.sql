-- Inserts a job in the transaction of whoever calls it, with its first timer and its idempotency key: the job is there
-- when that transaction commits, and not at all when it is rolled back. `tickwheel.transactional` calls it, which makes
-- the row; the argument is no interface.
--
-- It runs with the rights of the schema's owner, so an application needs no rights on tables: USAGE on the schema and
-- EXECUTE on this function (given to nobody here) let it create any job of any tenant.
--
-- The transaction has its xid before the clock is read, and the due time is moved up to that clock in the statement
-- that inserts it. The clock is read after the key was inserted, which may wait for another transaction with that key.
-- Nothing is written, and the caller's transaction goes on, where the outcome is not "created".
CREATE FUNCTION tickwheel.enqueue(
  job text, OUT outcome text, OUT stored_id text, OUT stored_next_ms int8, OUT stored_created_ms int8
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  x      record;
  holder record;
  hex    text;
  now_ms int8;
BEGIN
  SELECT * INTO STRICT x FROM json_to_record(job::json) AS x (
    job_id uuid, lane int2, flags int2, created_ms int8, scheduled_ms int8, due_ms int8, instant_ms int8,
    tenant_id text, name text, schedule_type text, idempotency_key text, request_hash text, tags text[], spec text,
    payload text);
  hex := replace(x.job_id::text, '-', '');
  PERFORM pg_current_xact_id();
  IF x.idempotency_key IS NOT NULL THEN
    INSERT INTO tickwheel.idempotency_keys AS k (tenant_id, idempotency_key, job_id, request_hash, next_ms, created_ms)
    VALUES (x.tenant_id, x.idempotency_key, x.job_id, decode(x.request_hash, 'hex'), x.due_ms, x.created_ms)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      SELECT * INTO STRICT holder FROM tickwheel.idempotency_keys AS k
       WHERE k.tenant_id = x.tenant_id AND k.idempotency_key = x.idempotency_key;
      outcome := CASE WHEN holder.request_hash = decode(x.request_hash, 'hex') THEN 'replayed' ELSE 'key_conflict' END;
      stored_id := holder.job_id;
      stored_next_ms := holder.next_ms;
      stored_created_ms := holder.created_ms;
      RETURN;
    END IF;
  END IF;
  BEGIN
    now_ms := tickwheel.clock_ms();
    INSERT INTO tickwheel.jobs (job_id, home, lane, flags, state, version, created_ms, updated_ms, effective_ms,
                                scheduled_ms, first_due_ms, first_instant_ms, first_gen, named, tenant_id, name,
                                schedule_type, idempotency_key, tags, spec, payload)
    VALUES (x.job_id, ('x' || substr(hex, 17, 4))::bit(16)::int4, x.lane, x.flags & 15, 0, 1, x.created_ms, 0, x.created_ms,
            x.scheduled_ms,
            CASE WHEN x.flags & 4 = 0 THEN greatest(x.due_ms, now_ms) END,
            CASE WHEN x.flags & 4 = 0 THEN x.instant_ms END,
            CASE WHEN x.flags & 4 = 0 THEN 1 END,
            false, x.tenant_id, x.name, x.schedule_type, x.idempotency_key, x.tags, x.spec, x.payload);
    INSERT INTO tickwheel.timers (due_ms, job_id, scheduled_ms, armed_ms, gen, shard, flags)
    VALUES (greatest(x.due_ms, now_ms), x.job_id, x.instant_ms, now_ms, 1, ('x' || substr(hex, 13, 4))::bit(16)::int4,
            x.flags);
    INSERT INTO tickwheel.job_tags (tenant_id, tag, job_id)
    SELECT x.tenant_id, tag, x.job_id FROM unnest(x.tags) AS t (tag) ON CONFLICT DO NOTHING;
  EXCEPTION WHEN check_violation THEN                -- no leaf for that day; leaves are made outside of transactions
    DELETE FROM tickwheel.idempotency_keys AS k
     WHERE k.tenant_id = x.tenant_id AND k.idempotency_key = x.idempotency_key AND k.job_id = x.job_id;
    outcome := 'no_room';
    RETURN;
  END;
  outcome := 'created';
  stored_id := x.job_id;
  stored_next_ms := x.due_ms;
  stored_created_ms := x.created_ms;
END $$;

REVOKE ALL ON FUNCTION tickwheel.enqueue(text) FROM PUBLIC;

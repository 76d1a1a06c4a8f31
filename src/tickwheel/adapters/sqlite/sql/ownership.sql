-- name: leap_epochs
-- Further than any takeover that a restore may have forgotten.
UPDATE shards SET epoch = epoch + :rise

-- name: raise_epochs
UPDATE shards SET epoch = epoch + 1

-- name: epochs
SELECT json_group_array(json_array(shard, epoch)) FROM shards

-- name: name_worker
INSERT INTO workers (name) VALUES (:name) ON CONFLICT DO NOTHING

-- name: worker
SELECT worker FROM workers WHERE name = :name

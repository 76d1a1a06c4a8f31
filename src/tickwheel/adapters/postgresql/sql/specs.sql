-- name: piece
-- The next jobs by leaf and id; the spec only of those whose target has headers.
SELECT home, job_id, tenant_id, CASE WHEN strpos(spec, '"headers":') > 0 THEN spec END
  FROM tickwheel.jobs
 WHERE (home, job_id) > (%(home)s::int4, %(job_id)s::uuid) ORDER BY home, job_id LIMIT %(count)s

-- name: replace
-- Each where it is still as it was read. An edit that holds a job is waited for, and then its spec is another.
UPDATE tickwheel.jobs AS j SET spec = x.after
  FROM unnest(%(homes)s::int4[], %(ids)s::uuid[], %(before)s::text[], %(after)s::text[]) AS x (home, job_id, before, after)
 WHERE j.home = x.home AND j.job_id = x.job_id AND j.home = ANY (%(home_set)s::int4[]) AND j.spec = x.before

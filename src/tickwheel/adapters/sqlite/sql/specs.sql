-- name: piece
-- The next jobs by id; the spec only of those whose target has headers.
SELECT json_group_array(json_array(hex(p.job_id), p.tenant_id, iif(instr(p.spec, '"headers":') > 0, p.spec, NULL)))
  FROM (SELECT job_id, tenant_id, spec FROM jobs WHERE job_id > :after ORDER BY job_id LIMIT :limit) AS p

-- name: replace
-- Each where it is still as it was read; gives how many.
-- batch: old new
UPDATE jobs SET spec = b.new FROM batch AS b WHERE jobs.job_id = b.job_id AND jobs.spec = b.old

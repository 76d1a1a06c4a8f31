-- name: jobs
SELECT json_group_array(json_array({job}))
  FROM carray(:wanted) CROSS JOIN jobs AS j ON j.job_id = carray.value

-- name: job_of_tenant
SELECT job_id FROM jobs WHERE job_id = :job_id AND tenant_id = :tenant_id AND state <> 4

-- name: named_job
SELECT job_id FROM jobs WHERE tenant_id = :tenant_id AND name = :name AND named = 1 AND state <> 4

-- name: live_timers
-- First timers of occurrences that have no ledger row yet: of recurring jobs, then of one-offs.
SELECT json_group_array(json_array(hex(job_id), due_ms, scheduled_ms, gen, armed_ms))
  FROM (SELECT t.job_id, t.due_ms, t.scheduled_ms, t.gen, t.armed_ms
          FROM carray(:wanted) CROSS JOIN timers AS t ON t.job_id = carray.value AND t.flags & 4 AND t.gen > 0
         UNION ALL
        SELECT t.job_id, t.due_ms, t.scheduled_ms, t.gen, t.armed_ms
          FROM carray(:wanted)
         CROSS JOIN jobs AS j ON j.job_id = carray.value
         CROSS JOIN timers AS t ON t.due_ms = j.first_due_ms AND t.job_id = j.job_id
                               AND t.scheduled_ms = j.first_instant_ms AND t.gen = j.first_gen) AS live
 WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.scheduled_ms = live.scheduled_ms AND r.job_id = live.job_id)

-- name: view_runs
-- Of each job: its open runs, its latest run, and the run of a one-off. A run may come twice.
SELECT json_group_array(json_array({run}))
  FROM (SELECT r.scheduled_ms, r.job_id
          FROM carray(:wanted)
         CROSS JOIN runs AS r ON r.job_id = carray.value AND r.listed = 1 AND r.state NOT BETWEEN 4 AND 7
         UNION ALL
        SELECT (SELECT max(r.scheduled_ms) FROM runs AS r WHERE r.job_id = carray.value AND r.listed = 1), carray.value
          FROM carray(:wanted)
         UNION ALL
        SELECT j.first_instant_ms, j.job_id
          FROM carray(:wanted) CROSS JOIN jobs AS j ON j.job_id = carray.value) AS k
 CROSS JOIN runs AS r ON r.scheduled_ms = k.scheduled_ms AND r.job_id = k.job_id
 CROSS JOIN jobs AS j ON j.job_id = r.job_id
  LEFT JOIN workers AS w ON w.worker = r.worker

-- name: progress
SELECT json_group_array(json_array(progress, note)) FROM runs
 WHERE scheduled_ms = :scheduled_ms AND job_id = :job_id AND noted_fence = :fence

// graphile-worker: the settings of its page on performance, and polling at 100 ms for what is scheduled ahead.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

import { main } from "./harness.mjs";

const logger = new Logger(() => () => {});
const runAt = (job) => (job.due === null ? {} : { runAt: new Date(job.due) });

async function producer({ url }) {
  const pool = new pg.Pool({ connectionString: url, max: 20 });
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await utils.migrate();
  return {
    addBatch: (jobs) => utils.addJobs(jobs.map((job) => ({ identifier: "noop", payload: job, ...runAt(job) }))),
    addOne: (job) => utils.addJob("noop", job, runAt(job)),
    left: async () => Number((await pool.query("SELECT count(*) FROM graphile_worker._private_jobs")).rows[0].count),
    close: async () => {
      await utils.release();
      await pool.end();
    },
  };
}

async function worker({ url, settings }, call) {
  const preset = {
    worker: {
      connectionString: url,
      concurrentJobs: settings.concurrency,
      maxPoolSize: settings.concurrency + 1,
      localQueue: { size: settings.local_queue },
      completeJobBatchDelay: settings.batch_delay_ms,
      failJobBatchDelay: settings.batch_delay_ms,
      pollInterval: settings.poll_ms,
      logger,
    },
  };
  let runner;
  return {
    start: async () => {
      runner = await run({ preset, taskList: { noop: async (payload) => call(payload) }, noHandleSignals: true });
    },
    stop: () => runner.stop(),
  };
}

await main({ producer, worker });

// pg-boss: batches, fetched again at once while they come back full; else polling at its shortest interval.
import pg from "pg";
import { PgBoss } from "pg-boss";

import { main } from "./harness.mjs";

const QUEUE = "bench";
const UNFINISHED = "SELECT count(*) FROM pgboss.job WHERE state IN ('created', 'retry', 'active')";
const startAfter = (job) => (job.due === null ? {} : { startAfter: new Date(job.due) });

async function producer({ url }) {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  const boss = new PgBoss({ connectionString: url, max: 20, supervise: false, schedule: false });
  boss.on("error", fail);
  await boss.start();
  await boss.createQueue(QUEUE);
  return {
    addBatch: (jobs) => boss.insert(QUEUE, jobs.map((job) => ({ data: job, ...startAfter(job) }))),
    addOne: (job) => boss.send(QUEUE, job, startAfter(job)),
    left: async () => Number((await pool.query(UNFINISHED)).rows[0].count),
    close: async () => {
      await boss.stop({ graceful: false });
      await pool.end();
    },
  };
}

async function worker({ url, settings }, call) {
  const boss = new PgBoss({ connectionString: url, max: 10, schedule: false });
  boss.on("error", fail);
  await boss.start();
  const options = {
    batchSize: settings.batch,
    localConcurrency: settings.concurrency,
    pollingIntervalSeconds: settings.poll_s,
    burstWhenBatchFull: true,
  };
  return {
    start: () => boss.work(QUEUE, options, async (jobs) => jobs.forEach((job) => call(job.data))),
    stop: () => boss.stop({ graceful: true, timeout: 10_000 }),
  };
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

await main({ producer, worker });

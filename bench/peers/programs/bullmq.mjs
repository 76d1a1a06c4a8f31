// BullMQ: several worker processes with a concurrency each, as its pages on concurrency and production advise.
import { Queue, Worker } from "bullmq";

import { main } from "./harness.mjs";

const NAME = "bench";

function connection(url) {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port), maxRetriesPerRequest: null };
}

function options(job) {
  if (job.due === null) return {};
  const timestamp = Date.now();
  return { timestamp, delay: Math.max(1, job.due - timestamp) };
}

async function producer({ url }) {
  const defaultJobOptions = { removeOnComplete: true };
  const queue = new Queue(NAME, { connection: connection(url), defaultJobOptions });
  await queue.waitUntilReady();
  return {
    addBatch: (jobs) => queue.addBulk(jobs.map((job) => ({ name: "noop", data: job, opts: options(job) }))),
    addOne: (job) => queue.add("noop", job, options(job)),
    left: () => queue.getJobCountByTypes("waiting", "active", "delayed", "prioritized", "paused"),
    close: () => queue.close(),
  };
}

async function worker({ url, settings }, call) {
  const worker = new Worker(NAME, async (job) => call(job.data), {
    connection: connection(url),
    concurrency: settings.concurrency,
    autorun: false,
  });
  worker.on("error", (error) => console.error(error));
  await worker.waitUntilReady();
  return {
    start: () => {
      worker.run();
    },
    stop: () => worker.close(),
  };
}

await main({ producer, worker });

// The workloads for peers on Node.js. A peer is { producer(config), worker(config, call) }, both asynchronous:
//   producer -> { addBatch(jobs), addOne(job), left(), close() }   left: jobs in the store that have not ended
//   worker   -> { start(), stop() }                                 stop: take nothing more, end what runs, write all
// A job is { n, due, pad }: its number, when it is due (ms, null = at once), and filling.
//
// The main process creates the jobs and forks `config.workers` workers. Each worker appends [n, start - due in ms] as
// two 64-bit floats per call to a file of its own in `config.folder`, from which the driver checks the whole.
import { fork } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const RECORD_BYTES = 16;
const FLUSH_MS = 20;
const CHECK_MS = 50;
const SLICE_MS = 100;
const BATCHES_IN_FLIGHT = 4;
const SINGLES_IN_FLIGHT = 64;
const HOUR_MS = 3_600_000;
const STOP_MS = 20_000;

export async function main(peer) {
  const [role, json] = process.argv.slice(2);
  const config = JSON.parse(json);
  await (role === "worker" ? work(peer, config) : produce(peer, config));
  process.exit(0);
}

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function mark(name, lines) {
  say({ mark: name });
  await once(lines, "line");
}

async function work(peer, config) {
  const file = fs.openSync(path.join(config.folder, `calls-${process.pid}.bin`), "a");
  const noted = [];
  const flush = () => {
    if (noted.length) fs.writeSync(file, Buffer.from(Float64Array.from(noted.splice(0)).buffer));
  };
  setInterval(flush, FLUSH_MS);
  const worker = await peer.worker(config, (job) => {
    noted.push(job.n, job.due === null ? 0 : Date.now() - job.due);
  });
  const over = new Promise((resolve) => {
    process.on("message", async (order) => {
      if (order === "start") await worker.start();
      else resolve();
    });
  });
  process.send("ready");
  await over;
  await Promise.race([worker.stop(), sleep(STOP_MS)]);
  flush();
}

async function startWorkers(config) {
  const program = process.argv[1];
  const children = Array.from({ length: config.workers }, () =>
    fork(program, ["worker", JSON.stringify(config)], { stdio: ["ignore", "ignore", "inherit", "ipc"] }),
  );
  for (const child of children) child.once("exit", (code) => code && process.exit(1));
  await Promise.all(children.map((child) => once(child, "message")));
  return {
    start: () => children.forEach((child) => child.send("start")),
    stop: () =>
      Promise.all(
        children.map((child) => {
          child.send("stop");
          return once(child, "exit");
        }),
      ),
  };
}

async function produce(peer, config) {
  const producer = await peer.producer(config);
  say(await { drain, ingest, single, burst, steady }[config.workload](producer, config));
  await producer.close();
}

const job = (config, n, due) => ({ n, due, pad: config.pad });

function* batches(config, due, count = config.jobs) {
  for (let from = 0; from < count; from += config.batch) {
    const size = Math.min(config.batch, count - from);
    yield Array.from({ length: size }, (_, i) => job(config, from + i, due));
  }
}

async function addAll(items, add, inFlight) {
  const lane = async () => {
    for (const item of items) await add(item);
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
}

function called(folder) {
  const files = fs.readdirSync(folder).filter((name) => name.startsWith("calls-"));
  return files.reduce((sum, name) => sum + fs.statSync(path.join(folder, name)).size, 0) / RECORD_BYTES;
}

async function untilDone(producer, config) {
  while (called(config.folder) < config.jobs || (await producer.left()) > 0) {
    if (performance.now() > config.limit_s * 1000) throw new Error(`${called(config.folder)} of ${config.jobs} jobs in ${config.limit_s} s`);
    await sleep(CHECK_MS);
  }
}

async function drain(producer, config) {
  await addAll(batches(config, null), producer.addBatch, BATCHES_IN_FLIGHT);
  const workers = await startWorkers(config);
  const lines = readline.createInterface({ input: process.stdin });
  await mark("loaded", lines);
  const began = performance.now();
  workers.start();
  await untilDone(producer, config);
  const took_ms = performance.now() - began;
  await mark("done", lines);
  await workers.stop();
  return { took_ms };
}

async function ingest(producer, config) {
  const due = Date.now() + HOUR_MS;
  await producer.addBatch(batches(config, due, config.batch).next().value);
  const began = performance.now();
  await addAll(batches(config, due), producer.addBatch, BATCHES_IN_FLIGHT);
  const took_ms = performance.now() - began;
  return { took_ms, stored: (await producer.left()) - config.batch };
}

async function single(producer, config) {
  const due = Date.now() + HOUR_MS;
  await producer.addOne(job(config, 0, due));
  const jobs = Array.from({ length: config.jobs }, (_, n) => job(config, n, due)).values();
  const began = performance.now();
  await addAll(jobs, producer.addOne, SINGLES_IN_FLIGHT);
  const took_ms = performance.now() - began;
  return { took_ms, stored: (await producer.left()) - 1 };
}

async function burst(producer, config) {
  const workers = await startWorkers(config);
  workers.start();
  const due = Date.now() + config.lead_ms;
  await addAll(batches(config, due), producer.addBatch, BATCHES_IN_FLIGHT);
  if (Date.now() > due - 1000) throw new Error("creating the jobs took until they were due");
  await untilDone(producer, config);
  await workers.stop();
  return {};
}

async function steady(producer, config) {
  const workers = await startWorkers(config);
  workers.start();
  const first = Date.now() + config.lead_ms + 500;
  const size = (config.rate * SLICE_MS) / 1000;
  for (let from = 0; from < config.jobs; from += size) {
    const slice = Array.from({ length: Math.min(size, config.jobs - from) }, (_, i) =>
      job(config, from + i, first + Math.floor(((from + i) * 1000) / config.rate)),
    );
    await sleep(Math.max(0, slice[0].due - config.lead_ms - Date.now()));
    await producer.addBatch(slice);
  }
  await untilDone(producer, config);
  await workers.stop();
  return {};
}

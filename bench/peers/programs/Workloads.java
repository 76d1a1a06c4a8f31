// What the main process of a peer in Java does for each workload.

import java.io.BufferedReader;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

final class Workloads {
  static final int SLICE_MS = 100;
  static final int BATCHES_IN_FLIGHT = 4;
  static final int SINGLES_IN_FLIGHT = 64;
  static final long HOUR_MS = 3_600_000;

  private interface Adding<T> {
    void add(T item) throws Exception;
  }

  private final Harness.Producer producer;
  private final Harness.Config config;
  private final String json;

  private Workloads(Harness.Producer producer, Harness.Config config, String json) {
    this.producer = producer;
    this.config = config;
    this.json = json;
  }

  static void produce(Harness.Producer producer, Harness.Config config, String json) throws Exception {
    Workloads workloads = new Workloads(producer, config, json);
    Harness.say(
        switch (config.workload()) {
          case "drain" -> workloads.drain();
          case "ingest" -> workloads.ingest();
          case "single" -> workloads.single();
          case "burst" -> workloads.burst();
          case "steady" -> workloads.steady();
          default -> throw new IllegalArgumentException("no workload " + config.workload());
        });
  }

  private Harness.Job job(int n, Long due) {
    return new Harness.Job(n, due, config.pad());
  }

  private List<Harness.Job> jobs(int from, int count, Long due) {
    List<Harness.Job> made = new ArrayList<>(count);
    for (int n = from; n < from + count; n++) made.add(job(n, due));
    return made;
  }

  private List<List<Harness.Job>> batches(Long due) {
    List<List<Harness.Job>> made = new ArrayList<>();
    for (int from = 0; from < config.jobs(); from += config.batch()) {
      made.add(jobs(from, Math.min(config.batch(), config.jobs() - from), due));
    }
    return made;
  }

  private static <T> void addAll(List<T> items, Adding<T> add, int inFlight) throws Exception {
    Iterator<T> waiting = items.iterator();
    ExecutorService lanes = Executors.newFixedThreadPool(inFlight);
    List<Future<Void>> ends = new ArrayList<>();
    for (int i = 0; i < inFlight; i++) ends.add(lanes.submit(() -> addUntilEmpty(waiting, add)));
    for (Future<Void> end : ends) end.get();
    lanes.shutdown();
  }

  private static <T> Void addUntilEmpty(Iterator<T> waiting, Adding<T> add) throws Exception {
    while (true) {
      T item;
      synchronized (waiting) {
        if (!waiting.hasNext()) return null;
        item = waiting.next();
      }
      add.add(item);
    }
  }

  private static double tookMs(long beganNs) {
    return (System.nanoTime() - beganNs) / 1e6;
  }

  private static void mark(String name, BufferedReader driver) throws Exception {
    Harness.say(Map.of("mark", name));
    Harness.await(driver);
  }

  private Map<String, Double> drain() throws Exception {
    addAll(batches(null), producer::addBatch, BATCHES_IN_FLIGHT);
    Harness.Workers workers = new Harness.Workers(config, json);
    BufferedReader driver = Harness.lines(System.in);
    mark("loaded", driver);
    long began = System.nanoTime();
    workers.start();
    Harness.untilDone(producer, config);
    double took = tookMs(began);
    mark("done", driver);
    workers.stop();
    return Map.of("took_ms", took);
  }

  private Map<String, Double> ingest() throws Exception {
    long due = System.currentTimeMillis() + HOUR_MS;
    producer.addBatch(jobs(0, config.batch(), due));
    long began = System.nanoTime();
    addAll(batches(due), producer::addBatch, BATCHES_IN_FLIGHT);
    return Map.of("took_ms", tookMs(began), "stored", (double) producer.left() - config.batch());
  }

  private Map<String, Double> single() throws Exception {
    long due = System.currentTimeMillis() + HOUR_MS;
    List<Harness.Job> made = jobs(0, config.jobs(), due);
    producer.addOne(made.get(0));
    long began = System.nanoTime();
    addAll(made, producer::addOne, SINGLES_IN_FLIGHT);
    return Map.of("took_ms", tookMs(began), "stored", producer.left() - 1.0);
  }

  private Map<String, Double> burst() throws Exception {
    Harness.Workers workers = new Harness.Workers(config, json);
    workers.start();
    long due = System.currentTimeMillis() + config.lead_ms();
    addAll(batches(due), producer::addBatch, BATCHES_IN_FLIGHT);
    if (System.currentTimeMillis() > due - 1000) {
      throw new IllegalStateException("creating the jobs took until they were due");
    }
    Harness.untilDone(producer, config);
    workers.stop();
    return Map.of();
  }

  private Map<String, Double> steady() throws Exception {
    Harness.Workers workers = new Harness.Workers(config, json);
    workers.start();
    long first = System.currentTimeMillis() + config.lead_ms() + 500;
    int size = config.rate() * SLICE_MS / 1000;
    for (int from = 0; from < config.jobs(); from += size) {
      List<Harness.Job> made = new ArrayList<>();
      for (int n = from; n < Math.min(from + size, config.jobs()); n++) {
        made.add(job(n, first + n * 1000L / config.rate()));
      }
      Thread.sleep(Math.max(0, made.get(0).due() - config.lead_ms() - System.currentTimeMillis()));
      producer.addBatch(made);
    }
    Harness.untilDone(producer, config);
    workers.stop();
    return Map.of();
  }
}

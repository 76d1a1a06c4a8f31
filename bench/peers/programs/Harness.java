// The workloads for peers in Java, as `harness.mjs` has them for peers on Node.js.
//
// A peer gives a producer and a worker. The main process creates the jobs and starts the workers as processes of
// their own. Each of those appends (number, start - due in ms) as two 64-bit floats per call to a file of its own in
// `config.folder`, from which the driver checks the whole.

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.ProcessBuilder.Redirect;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

final class Harness {
  static final int RECORD_BYTES = 16;
  static final int FLUSH_MS = 20;
  static final int CHECK_MS = 50;
  static final int STOP_S = 20;
  static final long BEGAN_NS = System.nanoTime();

  /** `due`: epoch ms; null = at once. */
  record Job(int n, Long due, String pad) {}

  /** What the driver asks for; see `bench/peers/step.py`. */
  record Config(
      String workload,
      String url,
      String folder,
      int jobs,
      int batch,
      int workers,
      int rate,
      long lead_ms,
      int limit_s,
      String pad,
      Map<String, Double> settings) {}

  /** Creates jobs; `left` counts those in the store that have not ended. */
  interface Producer {
    void addBatch(List<Job> jobs) throws Exception;

    void addOne(Job job) throws Exception;

    int left() throws Exception;
  }

  /** `stop`: take nothing more, end what runs, write all. */
  interface Worker {
    void start();

    void stop();
  }

  /** How to make its two sides; `call` notes one call of a job. */
  interface Peer {
    Producer producer(Config config) throws Exception;

    Worker worker(Config config, Consumer<Job> call) throws Exception;
  }

  /** Be what the command line says: `main CONFIG` or `worker CONFIG`. */
  static void run(Peer peer, String[] arguments) throws Exception {
    Config config = new Gson().fromJson(arguments[1], Config.class);
    try {
      if (arguments[0].equals("worker")) {
        work(peer, config);
      } else {
        Workloads.produce(peer.producer(config), config, arguments[1]);
      }
    } catch (Throwable problem) {
      problem.printStackTrace();
      System.err.println("Error: " + problem);
      Runtime.getRuntime().halt(1);
    }
    Runtime.getRuntime().halt(0); // whatever threads a peer has left behind
  }

  static void say(Map<String, ?> line) {
    System.out.println(new Gson().toJson(line));
    System.out.flush();
  }

  /** One line; the other side's end is the end of this one. */
  static void await(BufferedReader lines) throws IOException {
    if (lines.readLine() == null) throw new IOException("the other side has ended");
  }

  static BufferedReader lines(InputStream input) {
    return new BufferedReader(new InputStreamReader(input));
  }

  private static void work(Peer peer, Config config) throws Exception {
    Notes notes = new Notes(config.folder());
    Worker worker = peer.worker(config, notes::call);
    Thread flushing = new Thread(notes::flushForever);
    flushing.setDaemon(true);
    flushing.start();
    BufferedReader orders = lines(System.in);
    say(Map.of("mark", "ready"));
    await(orders);
    worker.start();
    await(orders);
    Thread stopping = new Thread(worker::stop);
    stopping.start();
    stopping.join(TimeUnit.SECONDS.toMillis(STOP_S));
    notes.flush();
  }

  /** The calls of this process, appended to its file in batches. */
  private static final class Notes {
    private final Path path;
    private double[] noted = new double[1024];
    private int used;

    Notes(String folder) {
      path = Path.of(folder, "calls-" + ProcessHandle.current().pid() + ".bin");
    }

    synchronized void call(Job job) {
      if (used == noted.length) noted = Arrays.copyOf(noted, 2 * used);
      noted[used++] = job.n();
      noted[used++] = job.due() == null ? 0 : System.currentTimeMillis() - job.due();
    }

    synchronized void flush() throws IOException {
      if (used == 0) return;
      ByteBuffer bytes = ByteBuffer.allocate(used * Double.BYTES).order(ByteOrder.nativeOrder());
      bytes.asDoubleBuffer().put(noted, 0, used);
      Files.write(path, bytes.array(), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
      used = 0;
    }

    void flushForever() {
      try {
        while (true) {
          Thread.sleep(FLUSH_MS);
          flush();
        }
      } catch (Exception problem) {
        System.err.println("Error: " + problem);
        Runtime.getRuntime().halt(1);
      }
    }
  }

  /** The worker processes of one workload. */
  static final class Workers {
    private final List<Process> processes = new ArrayList<>();
    private volatile boolean stopped;

    Workers(Config config, String json) throws IOException {
      String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
      String classes = System.getProperty("java.class.path");
      String program = System.getProperty("sun.java.command").split(" ")[0];
      for (int i = 0; i < config.workers(); i++) {
        ProcessBuilder command = new ProcessBuilder(java, "-cp", classes, program, "worker", json);
        processes.add(command.redirectError(Redirect.INHERIT).start());
      }
      for (Process process : processes) {
        await(lines(process.getInputStream()));
        process.onExit().thenAccept(this::ended);
      }
    }

    private void ended(Process process) {
      if (!stopped) {
        System.err.println("Error: a worker has ended");
        Runtime.getRuntime().halt(1);
      }
    }

    void start() throws IOException {
      order("start\n");
    }

    void stop() throws Exception {
      stopped = true;
      order("stop\n");
      for (Process process : processes) process.waitFor();
    }

    private void order(String line) throws IOException {
      for (Process process : processes) {
        OutputStream input = process.getOutputStream();
        input.write(line.getBytes());
        input.flush();
      }
    }
  }

  static int called(Config config) {
    File[] files = new File(config.folder()).listFiles((folder, name) -> name.startsWith("calls-"));
    return (int) (Arrays.stream(files).mapToLong(File::length).sum() / RECORD_BYTES);
  }

  static void untilDone(Producer producer, Config config) throws Exception {
    while (called(config) < config.jobs() || producer.left() > 0) {
      if (System.nanoTime() - BEGAN_NS > TimeUnit.SECONDS.toNanos(config.limit_s())) {
        String done = "%d of %d jobs in %d s";
        throw new Exception(done.formatted(called(config), config.jobs(), config.limit_s()));
      }
      Thread.sleep(CHECK_MS);
    }
  }
}

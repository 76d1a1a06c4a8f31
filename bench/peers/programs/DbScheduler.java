// db-scheduler on PostgreSQL through HikariCP: locked when fetched, deleted when done, JSON for the data.

import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.SchedulerName;
import com.github.kagkarlsson.scheduler.serializer.GsonSerializer;
import com.github.kagkarlsson.scheduler.task.SchedulableInstance;
import com.github.kagkarlsson.scheduler.task.TaskDescriptor;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.net.URI;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

public final class DbScheduler implements Harness.Peer {
  private static final int CONNECTIONS = 20;
  private static final TaskDescriptor<Harness.Job> NOOP = TaskDescriptor.of("noop", Harness.Job.class);

  /** The columns that it asks for; no index on priorities, which are not used here. */
  private static final String TABLE =
      """
      CREATE TABLE scheduled_tasks (
        task_name text NOT NULL, task_instance text NOT NULL, task_data bytea,
        execution_time timestamptz NOT NULL, picked boolean NOT NULL, picked_by text,
        last_success timestamptz, last_failure timestamptz, consecutive_failures int,
        last_heartbeat timestamptz, version bigint NOT NULL, priority smallint,
        PRIMARY KEY (task_name, task_instance));
      CREATE INDEX execution_time_idx ON scheduled_tasks (execution_time);
      CREATE INDEX last_heartbeat_idx ON scheduled_tasks (last_heartbeat)
      """;

  public static void main(String[] arguments) throws Exception {
    Harness.run(new DbScheduler(), arguments);
  }

  private static HikariDataSource connect(Harness.Config config, int connections) {
    URI url = URI.create(config.url());
    HikariConfig pool = new HikariConfig();
    pool.setJdbcUrl("jdbc:postgresql://%s:%d%s".formatted(url.getHost(), url.getPort(), url.getPath()));
    pool.setUsername(url.getUserInfo());
    pool.addDataSourceProperty("reWriteBatchedInserts", true);
    pool.setMaximumPoolSize(connections);
    return new HikariDataSource(pool);
  }

  @Override
  public Harness.Producer producer(Harness.Config config) throws SQLException {
    HikariDataSource pool = connect(config, CONNECTIONS);
    try (Connection connection = pool.getConnection();
        Statement statement = connection.createStatement()) {
      statement.execute(TABLE);
    }
    OneTimeTask<Harness.Job> noop = Tasks.oneTime(NOOP).execute((instance, context) -> {});
    return new Creating(
        pool, SchedulerClient.Builder.create(pool, noop).serializer(new GsonSerializer()).build());
  }

  /** Each job has an id of its own, whatever its number. */
  private record Creating(HikariDataSource pool, SchedulerClient client, AtomicInteger ids)
      implements Harness.Producer {
    Creating(HikariDataSource pool, SchedulerClient client) {
      this(pool, client, new AtomicInteger());
    }

    private SchedulableInstance<Harness.Job> instance(Harness.Job job) {
      Instant due = job.due() == null ? Instant.now() : Instant.ofEpochMilli(job.due());
      return NOOP.instance(String.valueOf(ids.incrementAndGet())).data(job).scheduledTo(due);
    }

    @Override
    public void addBatch(List<Harness.Job> jobs) {
      List<SchedulableInstance<?>> batch = new ArrayList<>(jobs.size());
      for (Harness.Job job : jobs) batch.add(instance(job));
      client.scheduleBatch(batch);
    }

    @Override
    public void addOne(Harness.Job job) {
      client.scheduleIfNotExists(instance(job));
    }

    @Override
    public int left() throws SQLException {
      try (Connection connection = pool.getConnection();
          Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("SELECT count(*) FROM scheduled_tasks")) {
        rows.next();
        return rows.getInt(1);
      }
    }
  }

  @Override
  public Harness.Worker worker(Harness.Config config, Consumer<Harness.Job> call) {
    int threads = config.settings().get("threads").intValue();
    OneTimeTask<Harness.Job> noop =
        Tasks.oneTime(NOOP).execute((instance, context) -> call.accept(instance.getData()));
    Scheduler scheduler =
        Scheduler.create(connect(config, threads + 2), noop)
            .schedulerName(new SchedulerName.Fixed("peer-" + ProcessHandle.current().pid()))
            .serializer(new GsonSerializer())
            .threads(threads)
            .pollUsingLockAndFetch(config.settings().get("lower"), config.settings().get("upper"))
            .pollingInterval(Duration.ofMillis(config.settings().get("poll_ms").longValue()))
            .enableImmediateExecution()
            .build();
    return new Running(scheduler);
  }

  private record Running(Scheduler scheduler) implements Harness.Worker {
    @Override
    public void start() {
      scheduler.start();
    }

    @Override
    public void stop() {
      scheduler.stop();
    }
  }
}

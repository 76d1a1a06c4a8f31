// River on pgx: jobs stored through COPY, completed in batches (as its client does by itself).
package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	connections = 20
	unfinished  = "SELECT count(*) FROM river_job WHERE state NOT IN ('completed', 'cancelled', 'discarded')"
)

// Kind names the job.
func (Job) Kind() string { return "noop" }

func options(job Job) *river.InsertOpts {
	if job.Due == nil {
		return nil
	}
	return &river.InsertOpts{ScheduledAt: time.UnixMilli(*job.Due)}
}

func connect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	settings, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	settings.MaxConns = connections
	return pgxpool.NewWithConfig(ctx, settings)
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

type riverProducer struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

func newProducer(ctx context.Context, config Config) (Producer, error) {
	pool, err := connect(ctx, config.URL)
	if err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: logger()})
	if err != nil {
		return nil, err
	}
	if _, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	client, err := river.NewClient(driver, &river.Config{Logger: logger()})
	return &riverProducer{pool, client}, err
}

func (p *riverProducer) AddBatch(ctx context.Context, jobs []Job) error {
	batch := make([]river.InsertManyParams, len(jobs))
	for i, job := range jobs {
		batch[i] = river.InsertManyParams{Args: job, InsertOpts: options(job)}
	}
	_, err := p.client.InsertManyFast(ctx, batch)
	return err
}

func (p *riverProducer) AddOne(ctx context.Context, job Job) error {
	_, err := p.client.Insert(ctx, job, options(job))
	return err
}

func (p *riverProducer) Left(ctx context.Context) (int, error) {
	count := 0
	err := p.pool.QueryRow(ctx, unfinished).Scan(&count)
	return count, err
}

func newWorker(ctx context.Context, config Config, call func(Job)) (Worker, error) {
	pool, err := connect(ctx, config.URL)
	if err != nil {
		return nil, err
	}
	noop := func(_ context.Context, job *river.Job[Job]) error {
		call(job.Args)
		return nil
	}
	registered := river.NewWorkers()
	river.AddWorker(registered, river.WorkFunc(noop))
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown:     milliseconds(config.Settings["cooldown_ms"]),
		FetchPollInterval: milliseconds(config.Settings["poll_ms"]),
		Logger:            logger(),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: int(config.Settings["workers"])}},
		Workers:           registered,
	})
}

func milliseconds(count float64) time.Duration { return time.Duration(count) * time.Millisecond }

func main() { Run(Peer{newProducer, newWorker}) }

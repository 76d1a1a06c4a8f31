// What the main process of a peer in Go does for each workload.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

func produce(peer Peer, config Config) {
	workloads := map[string]func(Producer, Config) map[string]any{
		"drain": drain, "ingest": ingest, "single": single, "burst": burst, "steady": steady,
	}
	producer, err := peer.Producer(context.Background(), config)
	must(err)
	say(workloads[config.Workload](producer, config))
}

// jobs are numbered from `first`; all are due at the same instant.
func jobs(config Config, first, count int, due *int64) []Job {
	made := make([]Job, count)
	for i := range made {
		made[i] = Job{N: first + i, Due: due, Pad: config.Pad}
	}
	return made
}

func batches(config Config, due *int64) [][]Job {
	made := [][]Job{}
	for first := 0; first < config.Jobs; first += config.Batch {
		made = append(made, jobs(config, first, min(config.Batch, config.Jobs-first), due))
	}
	return made
}

func addAll[Item any](items []Item, add func(context.Context, Item) error, inFlight int) {
	waiting := make(chan Item, len(items))
	for _, item := range items {
		waiting <- item
	}
	close(waiting)
	var lanes sync.WaitGroup
	for range inFlight {
		lanes.Go(func() {
			for item := range waiting {
				must(add(context.Background(), item))
			}
		})
	}
	lanes.Wait()
}

func tookMS(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }

func mark(name string, driver *bufio.Reader) {
	say(map[string]any{"mark": name})
	await(driver)
}

func drain(producer Producer, config Config) map[string]any {
	addAll(batches(config, nil), producer.AddBatch, batchesInFlight)
	workers := startWorkers(config)
	driver := bufio.NewReader(os.Stdin)
	mark("loaded", driver)
	start := time.Now()
	workers.order("start")
	untilDone(producer, config)
	took := tookMS(start)
	mark("done", driver)
	workers.stop()
	return map[string]any{"took_ms": took}
}

func ingest(producer Producer, config Config) map[string]any {
	due := nowMS() + hourMS
	must(producer.AddBatch(context.Background(), jobs(config, 0, config.Batch, &due)))
	start := time.Now()
	addAll(batches(config, &due), producer.AddBatch, batchesInFlight)
	took := tookMS(start)
	return map[string]any{"took_ms": took, "stored": left(producer) - config.Batch}
}

func single(producer Producer, config Config) map[string]any {
	due := nowMS() + hourMS
	made := jobs(config, 0, config.Jobs, &due)
	must(producer.AddOne(context.Background(), made[0]))
	start := time.Now()
	addAll(made, producer.AddOne, singlesInFlight)
	took := tookMS(start)
	return map[string]any{"took_ms": took, "stored": left(producer) - 1}
}

func burst(producer Producer, config Config) map[string]any {
	workers := startWorkers(config)
	workers.order("start")
	due := nowMS() + config.LeadMS
	addAll(batches(config, &due), producer.AddBatch, batchesInFlight)
	if nowMS() > due-1000 {
		must(fmt.Errorf("creating the jobs took until they were due"))
	}
	untilDone(producer, config)
	workers.stop()
	return map[string]any{}
}

func steady(producer Producer, config Config) map[string]any {
	workers := startWorkers(config)
	workers.order("start")
	first, size := nowMS()+config.LeadMS+500, config.Rate*sliceMS/1000
	for from := 0; from < config.Jobs; from += size {
		made := jobs(config, from, min(size, config.Jobs-from), nil)
		for i := range made {
			due := first + int64(from+i)*1000/int64(config.Rate)
			made[i].Due = &due
		}
		time.Sleep(time.Duration(*made[0].Due-config.LeadMS-nowMS()) * time.Millisecond)
		must(producer.AddBatch(context.Background(), made))
	}
	untilDone(producer, config)
	workers.stop()
	return map[string]any{}
}

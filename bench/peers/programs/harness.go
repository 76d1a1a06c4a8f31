// The workloads for peers in Go, as `harness.mjs` has them for peers on Node.js.
//
// A peer gives a producer and a worker. The main process creates the jobs and starts the workers as processes of
// their own. Each of those appends (number, start - due in ms) as two 64-bit floats per call to a file of its own in
// `config.Folder`, from which the driver checks the whole.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

const (
	recordBytes     = 16
	flushEvery      = 20 * time.Millisecond
	checkEvery      = 50 * time.Millisecond
	sliceMS         = 100
	batchesInFlight = 4
	singlesInFlight = 64
	hourMS          = 3_600_000
	stopIn          = 20 * time.Second
)

var began = time.Now()

// Job is due at an instant (epoch ms), or at once without one.
type Job struct {
	N   int    `json:"n"`
	Due *int64 `json:"due"`
	Pad string `json:"pad"`
}

// Config is what the driver asks for; see `bench/peers/step.py`.
type Config struct {
	Workload string             `json:"workload"`
	URL      string             `json:"url"`
	Folder   string             `json:"folder"`
	Jobs     int                `json:"jobs"`
	Batch    int                `json:"batch"`
	Workers  int                `json:"workers"`
	Rate     int                `json:"rate"`
	LeadMS   int64              `json:"lead_ms"`
	LimitS   int                `json:"limit_s"`
	Pad      string             `json:"pad"`
	Settings map[string]float64 `json:"settings"`
}

// Producer creates jobs; Left counts those in the store that have not ended.
type Producer interface {
	AddBatch(ctx context.Context, jobs []Job) error
	AddOne(ctx context.Context, job Job) error
	Left(ctx context.Context) (int, error)
}

// Worker runs jobs until Stop, which takes nothing more, ends what runs and writes all.
type Worker interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

// Peer says how to make its two sides; call notes one call of a job.
type Peer struct {
	Producer func(ctx context.Context, config Config) (Producer, error)
	Worker   func(ctx context.Context, config Config, call func(Job)) (Worker, error)
}

// Run is what the command line says: `main CONFIG` or `worker CONFIG`.
func Run(peer Peer) {
	var config Config
	must(json.Unmarshal([]byte(os.Args[2]), &config))
	if os.Args[1] == "worker" {
		work(peer, config)
	} else {
		produce(peer, config)
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func say(line map[string]any) {
	text, err := json.Marshal(line)
	must(err)
	fmt.Println(string(text))
}

func nowMS() int64 { return time.Now().UnixMilli() }

// notes are the calls of this process, appended to its file in batches.
type notes struct {
	lock  sync.Mutex
	noted []byte
	file  *os.File
}

func (n *notes) call(job Job) {
	late := 0.0
	if job.Due != nil {
		late = float64(time.Now().UnixMicro())/1000 - float64(*job.Due)
	}
	n.lock.Lock()
	defer n.lock.Unlock()
	n.noted = binary.NativeEndian.AppendUint64(n.noted, math.Float64bits(float64(job.N)))
	n.noted = binary.NativeEndian.AppendUint64(n.noted, math.Float64bits(late))
}

func (n *notes) flush() {
	n.lock.Lock()
	defer n.lock.Unlock()
	_, err := n.file.Write(n.noted)
	must(err)
	n.noted = n.noted[:0]
}

func work(peer Peer, config Config) {
	ctx, orders := context.Background(), bufio.NewReader(os.Stdin)
	file, err := os.Create(filepath.Join(config.Folder, fmt.Sprintf("calls-%d.bin", os.Getpid())))
	must(err)
	noted := &notes{file: file}
	worker, err := peer.Worker(ctx, config, noted.call)
	must(err)
	go func() {
		for range time.Tick(flushEvery) {
			noted.flush()
		}
	}()
	say(map[string]any{"mark": "ready"})
	await(orders)
	must(worker.Start(ctx))
	await(orders)
	ending, cancel := context.WithTimeout(ctx, stopIn)
	defer cancel()
	must(worker.Stop(ending))
	noted.flush()
}

// await reads one line; the other side's end is the end of this one.
func await(lines *bufio.Reader) {
	_, err := lines.ReadString('\n')
	must(err)
}

type workers struct {
	inputs []io.WriteCloser
	ended  sync.WaitGroup
}

func startWorkers(config Config) *workers {
	program, err := os.Executable()
	must(err)
	all := &workers{}
	for range config.Workers {
		command := exec.Command(program, "worker", os.Args[2])
		command.Stderr = os.Stderr
		input, err := command.StdinPipe()
		must(err)
		output, err := command.StdoutPipe()
		must(err)
		must(command.Start())
		await(bufio.NewReader(output))
		all.inputs = append(all.inputs, input)
		all.ended.Add(1)
		go func() {
			must(command.Wait())
			all.ended.Done()
		}()
	}
	return all
}

func (w *workers) order(line string) {
	for _, input := range w.inputs {
		_, err := io.WriteString(input, line+"\n")
		must(err)
	}
}

func (w *workers) stop() {
	w.order("stop")
	w.ended.Wait()
}

// called is how many calls the workers have noted.
func called(config Config) int {
	files, err := filepath.Glob(filepath.Join(config.Folder, "calls-*"))
	must(err)
	total := int64(0)
	for _, name := range files {
		info, err := os.Stat(name)
		must(err)
		total += info.Size()
	}
	return int(total / recordBytes)
}

func left(producer Producer) int {
	count, err := producer.Left(context.Background())
	must(err)
	return count
}

func untilDone(producer Producer, config Config) {
	for called(config) < config.Jobs || left(producer) > 0 {
		if time.Since(began) > time.Duration(config.LimitS)*time.Second {
			must(fmt.Errorf("%d of %d jobs in %d s", called(config), config.Jobs, config.LimitS))
		}
		time.Sleep(checkEvery)
	}
}

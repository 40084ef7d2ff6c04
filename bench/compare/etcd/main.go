// Asks etcd what `chorale bench` asks servers of the Redis protocol, over etcd's own: a closed loop of clients, with the same
// keys, values and draws, and a report with the same names of fields. docs/benchmarking.md says what they mean.
//
// A GET is a linearizable Range, a SET a Put; MSET and MGET are a Txn of Puts and of Ranges. `trans` is a Range and then a Txn
// that puts if the key's revision is what was read: two round trips, where Redis needs five. Clients share at most ten
// channels, each with a connection to every member; the client library sends each request to the next of them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/status"
)

const (
	channelsMax = 10
	// Puts of one request while keys are made; etcd takes 128.
	loadBatch = 100
	// Each bucket of the histogram is wider than the one before by this factor, as exact as chorale bench is.
	step = 1.004
	// Clock ticks of /proc, a second.
	ticks = 100
)

type options struct {
	endpoints    []string
	workload     string
	clients      int
	pipeline     int
	seconds      float64
	warmup       float64
	timeout      float64
	keys         uint64
	size         int
	batch        int
	distribution string
	ratio        string
	isLoaded     bool
	seed         uint64
	processes    []int
}

type latency struct {
	Average float64 `json:"average_ms"`
	P50     float64 `json:"p50_ms"`
	P90     float64 `json:"p90_ms"`
	P99     float64 `json:"p99_ms"`
	P999    float64 `json:"p999_ms"`
	Max     float64 `json:"max_ms"`
}

type setup struct {
	Workload     string   `json:"workload"`
	Endpoints    []string `json:"endpoints"`
	Versions     []string `json:"versions"`
	Clients      int      `json:"clients"`
	Pipeline     int      `json:"pipeline"`
	Keys         uint64   `json:"keys"`
	Distribution string   `json:"distribution"`
	Size         string   `json:"size"`
	Batch        int      `json:"batch"`
	Ratio        string   `json:"ratio"`
	Warmup       float64  `json:"warmup_seconds"`
	Timeout      float64  `json:"timeout_seconds"`
	Seed         uint64   `json:"seed"`
	Threads      int      `json:"threads"`
}

type server struct {
	Endpoint      string  `json:"endpoint"`
	Process       int     `json:"process"`
	CPU           float64 `json:"cpu_seconds"`
	CPUPerRequest float64 `json:"cpu_us_per_request"`
	Resident      uint64  `json:"resident_bytes"`
}

type client struct {
	CPUPerRequest float64  `json:"cpu_us_per_request"`
	Busiest       *float64 `json:"busiest_thread"`
	IsLimit       bool     `json:"is_limit"`
}

type report struct {
	Tool         string            `json:"tool"`
	Began        int64             `json:"began_unix_secs"`
	Setup        setup             `json:"setup"`
	Seconds      float64           `json:"seconds"`
	Requests     uint64            `json:"requests"`
	Rate         float64           `json:"requests_per_second"`
	Latency      latency           `json:"latency"`
	Errors       uint64            `json:"errors"`
	ErrorsByKind map[string]uint64 `json:"errors_by_kind"`
	Misses       uint64            `json:"misses"`
	Servers      []server          `json:"servers"`
	Client       client            `json:"client"`
}

// What one loop saw.
type tally struct {
	buckets  []uint64
	requests uint64
	nanos    float64
	max      time.Duration
	lastEnd  time.Time
	misses   uint64
	errors   map[string]uint64
}

func newTally() *tally {
	return &tally{buckets: make([]uint64, 8192), errors: map[string]uint64{}}
}

func (t *tally) record(took time.Duration) {
	place := int(math.Log(float64(took.Nanoseconds()+1)) / math.Log(step))
	t.buckets[min(place, len(t.buckets)-1)]++
	t.requests++
	t.nanos += float64(took.Nanoseconds())
	t.max = max(t.max, took)
}

func (t *tally) add(other *tally) {
	for place, count := range other.buckets {
		t.buckets[place] += count
	}
	t.requests += other.requests
	t.nanos += other.nanos
	t.max = max(t.max, other.max)
	t.misses += other.misses
	if other.lastEnd.After(t.lastEnd) {
		t.lastEnd = other.lastEnd
	}
	for kind, count := range other.errors {
		t.errors[kind] += count
	}
}

func (t *tally) percentile(share float64) float64 {
	missing := uint64(math.Ceil(share * float64(t.requests)))
	for place, count := range t.buckets {
		if count >= missing {
			return math.Pow(step, float64(place)+0.5) / 1e6
		}
		missing -= count
	}
	return float64(t.max.Nanoseconds()) / 1e6
}

// Draws numbers of keys: uniformly, or number n (from 1) in proportion to n^-theta.
type draw struct {
	keys uint64
	sums []float64
}

func newDraw(distribution string, keys uint64) (*draw, error) {
	if distribution == "uniform" {
		return &draw{keys: keys}, nil
	}
	theta, err := strconv.ParseFloat(strings.TrimPrefix(distribution, "zipf:"), 64)
	if err != nil || !strings.HasPrefix(distribution, "zipf:") {
		return nil, fmt.Errorf("-distribution %s: take uniform or zipf:THETA", distribution)
	}
	sums, sum := make([]float64, keys), 0.0
	for place := range sums {
		sum += math.Pow(float64(place+1), -theta)
		sums[place] = sum
	}
	return &draw{keys: keys, sums: sums}, nil
}

func (d *draw) number(random *rand.Rand) uint64 {
	if d.sums == nil {
		return random.Uint64N(d.keys)
	}
	wanted := random.Float64() * d.sums[len(d.sums)-1]
	return uint64(sort.SearchFloat64s(d.sums, wanted))
}

func name(number uint64) string {
	return fmt.Sprintf("bench:%012d", number)
}

// One loop: it asks, waits for the answer, and asks again.
type loop struct {
	options *options
	channel *clientv3.Client
	draw    *draw
	random  *rand.Rand
	letters string
	made    *atomic.Uint64
	// Of get_set and its kin: so many of so many requests are reads.
	reads, all int
	tally      *tally
}

var errAborted = errors.New("EXEC aborted")

func (l *loop) value() string {
	from := l.random.IntN(4096)
	return l.letters[from : from+l.options.size]
}

func (l *loop) get(ctx context.Context, key string) (int64, error) {
	answer, err := l.channel.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	if len(answer.Kvs) == 0 {
		l.tally.misses++
		return 0, nil
	}
	return answer.Kvs[0].ModRevision, nil
}

// Keys of one batch; etcd refuses to put one twice in a Txn.
func (l *loop) batch() []string {
	keys := make([]string, 0, l.options.batch)
	seen := map[uint64]bool{}
	for len(keys) < l.options.batch {
		number := l.draw.number(l.random)
		if !seen[number] {
			seen[number] = true
			keys = append(keys, name(number))
		}
	}
	return keys
}

func (l *loop) request(ctx context.Context) error {
	switch l.options.workload {
	case "c-unique":
		_, err := l.channel.Put(ctx, name(l.made.Add(1)-1), l.value())
		return err
	case "trans":
		key := name(l.draw.number(l.random))
		revision, err := l.get(ctx, key)
		if err != nil {
			return err
		}
		same := clientv3.Compare(clientv3.ModRevision(key), "=", revision)
		answer, err := l.channel.Txn(ctx).If(same).Then(clientv3.OpPut(key, l.value())).Commit()
		if err == nil && !answer.Succeeded {
			return errAborted
		}
		return err
	case "mset", "mget":
		ops := make([]clientv3.Op, 0, l.options.batch)
		for _, key := range l.batch() {
			if l.options.workload == "mset" {
				ops = append(ops, clientv3.OpPut(key, l.value()))
			} else {
				ops = append(ops, clientv3.OpGet(key))
			}
		}
		_, err := l.channel.Txn(ctx).Then(ops...).Commit()
		return err
	default:
		key := name(l.draw.number(l.random))
		if l.random.IntN(l.all) < l.reads {
			_, err := l.get(ctx, key)
			return err
		}
		_, err := l.channel.Put(ctx, key, l.value())
		return err
	}
}

func (l *loop) run(from, end time.Time) {
	timeout := time.Duration(l.options.timeout * float64(time.Second))
	for {
		began := time.Now()
		if !began.Before(end) {
			return
		}
		misses := l.tally.misses
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		err := l.request(ctx)
		cancel()
		now := time.Now()
		if began.Before(from) {
			l.tally.misses = misses
			continue
		}
		l.tally.lastEnd = now
		switch {
		case err == nil:
			l.tally.record(now.Sub(began))
		case errors.Is(err, context.DeadlineExceeded):
			l.tally.errors["timeout"]++
		case errors.Is(err, errAborted):
			l.tally.errors["EXEC aborted"]++
		default:
			l.tally.errors[status.Code(err).String()]++
		}
	}
}

func load(channels []*clientv3.Client, o *options, letters string) error {
	failed := make(chan error, len(channels))
	var next atomic.Uint64
	for _, channel := range channels {
		go func() {
			for {
				from := next.Add(loadBatch) - loadBatch
				if from >= o.keys {
					failed <- nil
					return
				}
				var puts []clientv3.Op
				for number := from; number < min(from+loadBatch, o.keys); number++ {
					place := number % 4096
					puts = append(puts, clientv3.OpPut(name(number), letters[place:place+uint64(o.size)]))
				}
				if _, err := channel.Txn(context.Background()).Then(puts...).Commit(); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	for range channels {
		if err := <-failed; err != nil {
			return fmt.Errorf("keys cannot be loaded: %w", err)
		}
	}
	return nil
}

// CPU time of a process so far, in seconds, by the clock of 10 ms ticks.
func cpuSeconds(process int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticks, nil
}

func residentBytes(process int) uint64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			kilobytes, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return kilobytes * 1024
		}
	}
	return 0
}

func ownCPU() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func measure(o *options) (*report, error) {
	var channels []*clientv3.Client
	for range min(o.clients, channelsMax) {
		channel, err := clientv3.New(clientv3.Config{Endpoints: o.endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		defer channel.Close()
		channels = append(channels, channel)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var versions []string
	for _, endpoint := range o.endpoints {
		answer, err := channels[0].Status(ctx, endpoint)
		if err != nil {
			return nil, fmt.Errorf("%s does not answer: %w", endpoint, err)
		}
		versions = append(versions, fmt.Sprintf("%s is etcd %s", endpoint, answer.Version))
	}
	random := rand.New(rand.NewPCG(o.seed, 0))
	letters := make([]byte, o.size+4096)
	for place := range letters {
		letters[place] = byte('a' + random.IntN(26))
	}
	if o.isLoaded {
		if err := load(channels, o, string(letters)); err != nil {
			return nil, err
		}
	}
	drawn, err := newDraw(o.distribution, o.keys)
	if err != nil {
		return nil, err
	}
	gets, sets, _ := strings.Cut(o.ratio, ":")
	reads, err := strconv.Atoi(gets)
	writes, err2 := strconv.Atoi(sets)
	if err != nil || err2 != nil || reads < 0 || writes < 0 || reads+writes == 0 {
		return nil, fmt.Errorf("-ratio %s: take GETS:SETS", o.ratio)
	}
	var made atomic.Uint64
	loops := make([]*loop, o.clients*o.pipeline)
	for place := range loops {
		loops[place] = &loop{
			options: o,
			// The requests of one client share a channel.
			channel: channels[place/o.pipeline%len(channels)],
			draw:    drawn,
			random:  rand.New(rand.NewPCG(o.seed, uint64(place)+1)),
			letters: string(letters),
			made:    &made,
			reads:   reads,
			all:     reads + writes,
			tally:   newTally(),
		}
	}
	start := time.Now()
	from := start.Add(time.Duration(o.warmup * float64(time.Second)))
	end := from.Add(time.Duration(o.seconds * float64(time.Second)))
	var running sync.WaitGroup
	for _, loop := range loops {
		running.Go(func() { loop.run(from, end) })
	}
	time.Sleep(time.Until(from))
	before, own := make([]float64, len(o.processes)), ownCPU()
	for place, process := range o.processes {
		if before[place], err = cpuSeconds(process); err != nil {
			return nil, err
		}
	}
	running.Wait()
	own = ownCPU() - own
	total := newTally()
	for _, loop := range loops {
		total.add(loop.tally)
	}
	seconds := max(o.seconds, total.lastEnd.Sub(from).Seconds())
	count := float64(max(total.requests, 1))
	var servers []server
	for place, process := range o.processes {
		now, err := cpuSeconds(process)
		if err != nil {
			return nil, err
		}
		spent := now - before[place]
		servers = append(servers, server{
			Endpoint:      o.endpoints[min(place, len(o.endpoints)-1)],
			Process:       process,
			CPU:           spent,
			CPUPerRequest: spent * 1e6 / count,
			Resident:      residentBytes(process),
		})
	}
	var failed uint64
	for _, number := range total.errors {
		failed += number
	}
	return &report{
		Tool:  "bench/compare/etcd",
		Began: from.Unix(),
		Setup: setup{
			Workload: o.workload, Endpoints: o.endpoints, Versions: versions, Clients: o.clients, Pipeline: o.pipeline, Keys: o.keys,
			Distribution: o.distribution, Size: strconv.Itoa(o.size), Batch: o.batch, Ratio: o.ratio, Warmup: o.warmup,
			Timeout: o.timeout, Seed: o.seed, Threads: runtime.GOMAXPROCS(0),
		},
		Seconds:  seconds,
		Requests: total.requests,
		Rate:     float64(total.requests) / seconds,
		Latency: latency{
			Average: total.nanos / count / 1e6,
			P50:     total.percentile(0.5),
			P90:     total.percentile(0.9),
			P99:     total.percentile(0.99),
			P999:    total.percentile(0.999),
			Max:     float64(total.max.Nanoseconds()) / 1e6,
		},
		Errors:       failed,
		ErrorsByKind: total.errors,
		Misses:       total.misses,
		Servers:      servers,
		// A Go program spreads over threads as it likes: it is the limit where it uses nine tenths of all cores.
		Client: client{CPUPerRequest: own * 1e6 / count, IsLimit: own/seconds > 0.9*float64(runtime.GOMAXPROCS(0))},
	}, nil
}

func parse() (*options, error) {
	o := options{}
	endpoints := flag.String("endpoints", "127.0.0.1:2379", "members, with commas between")
	processes := flag.String("processes", "", "their process numbers on this machine, with commas between; for CPU and memory")
	flag.StringVar(&o.workload, "workload", "get_set", "get_set, a, c-unique, trans, mset or mget")
	flag.IntVar(&o.clients, "clients", 50, "clients in all")
	flag.IntVar(&o.pipeline, "pipeline", 1, "requests of one client on their way at a time")
	flag.Float64Var(&o.seconds, "seconds", 10, "how long it is measured")
	flag.Float64Var(&o.warmup, "warmup", 0, "seconds before, which do not count")
	flag.Float64Var(&o.timeout, "timeout", 5, "how long a reply is waited for")
	flag.Uint64Var(&o.keys, "keys", 100_000, "how many keys there are")
	flag.IntVar(&o.size, "size", 100, "bytes of values")
	flag.IntVar(&o.batch, "batch", 10, "keys of one mset or mget")
	flag.StringVar(&o.distribution, "distribution", "", "uniform or zipf:THETA; that of the workload if empty")
	flag.StringVar(&o.ratio, "ratio", "1:1", "GETS:SETS of get_set")
	noLoad := flag.Bool("no-load", false, "do not make the keys first")
	flag.Uint64Var(&o.seed, "seed", 1, "everything drawn follows from it")
	flag.Parse()
	o.endpoints = strings.Split(*endpoints, ",")
	o.isLoaded = !*noLoad && o.workload != "c-unique"
	for word := range strings.SplitSeq(*processes, ",") {
		if word == "" {
			continue
		}
		process, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("-processes %s: take numbers", *processes)
		}
		o.processes = append(o.processes, process)
	}
	switch o.workload {
	case "get_set", "trans", "mset", "mget", "c-unique":
	case "a":
		o.ratio = "1:1"
		if o.distribution == "" {
			o.distribution = "zipf:0.99"
		}
	default:
		return nil, fmt.Errorf("-workload %s: take get_set, a, c-unique, trans, mset or mget", o.workload)
	}
	if o.distribution == "" {
		o.distribution = "uniform"
	}
	if o.clients < 1 || o.pipeline < 1 || o.seconds <= 0 || o.keys < uint64(o.batch) || o.size < 0 || o.size > 1<<20 {
		return nil, errors.New("-clients, -pipeline and -seconds must be more than 0, -keys at least -batch, -size at most 1 MB")
	}
	return &o, nil
}

func main() {
	o, err := parse()
	if err == nil {
		var found *report
		if found, err = measure(o); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(found)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

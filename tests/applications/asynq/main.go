// What a program does with asynq, the task queue, checked: a server of asynq for each of PORTS, in database 14. Its scripts make up
// the names of most keys from task ids, and one of them asks for MEMORY USAGE.
//
// Prints a line for each section and exits with 1 if one of them failed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

const (
	database = 14
	limit    = 30 * time.Second
	tasks    = 100
)

var (
	ports = strings.Split(orElse(os.Getenv("PORTS"), "6379"), ",")
	queue = fmt.Sprintf("asynq-%d-%d", os.Getpid(), time.Now().UnixNano()%1_000_000)
)

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func place(number int) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: "127.0.0.1:" + ports[number%len(ports)], DB: database}
}

// What was done, in order, over all servers.
type diary struct {
	sync.Mutex
	times map[string][]time.Time
}

func (d *diary) note(what string) int {
	d.Lock()
	defer d.Unlock()
	d.times[what] = append(d.times[what], time.Now())
	return len(d.times[what])
}

func (d *diary) count(what string) int {
	d.Lock()
	defer d.Unlock()
	return len(d.times[what])
}

func (d *diary) first(what string) time.Time {
	d.Lock()
	defer d.Unlock()
	return d.times[what][0]
}

var done = &diary{times: map[string][]time.Time{}}

func waitUntil(what string, isTrue func() bool) error {
	for deadline := time.Now().Add(limit); !isTrue(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v, and still not: %s", limit, what)
		}
	}
	return nil
}

func handle(ctx context.Context, task *asynq.Task) error {
	name := string(task.Payload())
	count := done.note(task.Type() + ":" + name)
	switch task.Type() {
	case "square":
		var number int
		if err := json.Unmarshal(task.Payload(), &number); err != nil {
			return err
		}
		_, err := task.ResultWriter().Write([]byte(fmt.Sprint(number * number)))
		return err
	case "fail-first":
		if count < 3 {
			return errors.New("not yet")
		}
	case "sleep":
		<-ctx.Done()
		done.note("cancelled:" + name)
		return ctx.Err()
	}
	return nil
}

func enqueue(client *asynq.Client, kind, payload string, options ...asynq.Option) (*asynq.TaskInfo, error) {
	return client.Enqueue(asynq.NewTask(kind, []byte(payload)), append(options, asynq.Queue(queue))...)
}

type world struct {
	clients   []*asynq.Client
	inspector *asynq.Inspector
}

// Enqueued through every node, done by servers of every node; results are kept for a while.
func all(w *world) error {
	ids := map[int]string{}
	for number := 0; number < tasks; number++ {
		info, err := enqueue(w.clients[number%len(w.clients)], "square", fmt.Sprint(number), asynq.Retention(time.Minute))
		if err != nil {
			return err
		}
		ids[number] = info.ID
	}
	for number, id := range ids {
		var result string
		if err := waitUntil("there is a result", func() bool {
			info, err := w.inspector.GetTaskInfo(queue, id)
			if err == nil && info.State == asynq.TaskStateCompleted {
				result = string(info.Result)
				return true
			}
			return false
		}); err != nil {
			return err
		}
		if result != fmt.Sprint(number*number) {
			return fmt.Errorf("the square of %d is %s", number, result)
		}
		if count := done.count(fmt.Sprintf("square:%d", number)); count != 1 {
			return fmt.Errorf("%d was squared %d times", number, count)
		}
	}
	return nil
}

func delays(w *world) error {
	began := time.Now()
	info, err := enqueue(w.clients[0], "late", "one", asynq.ProcessIn(2*time.Second))
	if err != nil {
		return err
	}
	if info.State != asynq.TaskStateScheduled {
		return fmt.Errorf("it is %v", info.State)
	}
	if err := waitUntil("it was done", func() bool { return done.count("late:one") == 1 }); err != nil {
		return err
	}
	// asynq counts in whole seconds.
	if took := done.first("late:one").Sub(began); took < time.Second {
		return fmt.Errorf("done after %v", took)
	}
	return nil
}

func retries(w *world) error {
	if _, err := enqueue(w.clients[0], "fail-first", "one", asynq.MaxRetry(5)); err != nil {
		return err
	}
	return waitUntil("it was done at the third try", func() bool { return done.count("fail-first:one") == 3 })
}

func unique(w *world) error {
	if _, err := enqueue(w.clients[0], "late", "only", asynq.Unique(time.Minute), asynq.ProcessIn(time.Hour)); err != nil {
		return err
	}
	_, err := enqueue(w.clients[len(w.clients)-1], "late", "only", asynq.Unique(time.Minute), asynq.ProcessIn(time.Hour))
	if !errors.Is(err, asynq.ErrDuplicateTask) {
		return fmt.Errorf("the second one: %v", err)
	}
	if _, err = enqueue(w.clients[0], "late", "named", asynq.TaskID("one-of-its-name"), asynq.ProcessIn(time.Hour)); err != nil {
		return err
	}
	if _, err = enqueue(w.clients[0], "late", "named", asynq.TaskID("one-of-its-name")); !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("the second one of a name: %v", err)
	}
	return nil
}

// Tasks that come one by one are put together, and done as one.
func groups(w *world) error {
	for number := 0; number < 5; number++ {
		if _, err := enqueue(w.clients[number%len(w.clients)], "page", fmt.Sprint(number), asynq.Group("book")); err != nil {
			return err
		}
	}
	return waitUntil("the book is bound", func() bool { return done.count("book:5 pages") == 1 })
}

func bind(_ string, pages []*asynq.Task) *asynq.Task {
	return asynq.NewTask("book", []byte(fmt.Sprintf("%d pages", len(pages))))
}

func inspect(w *world) error {
	info, err := w.inspector.GetQueueInfo(queue)
	if err != nil {
		return err
	}
	// Two wait for an hour.
	if info.Scheduled != 2 || info.Completed != tasks || info.Processed < tasks || info.MemoryUsage <= 0 {
		return fmt.Errorf("%+v", info)
	}
	if err := w.inspector.RunTask(queue, "one-of-its-name"); err != nil {
		return err
	}
	if err := waitUntil("it was done", func() bool { return done.count("late:named") == 1 }); err != nil {
		return err
	}
	if err := w.inspector.PauseQueue(queue); err != nil {
		return err
	}
	if _, err := enqueue(w.clients[0], "late", "paused"); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	if done.count("late:paused") != 0 {
		return errors.New("done while the queue was paused")
	}
	if err := w.inspector.UnpauseQueue(queue); err != nil {
		return err
	}
	if err := waitUntil("it was done", func() bool { return done.count("late:paused") == 1 }); err != nil {
		return err
	}
	servers, err := w.inspector.Servers()
	if err != nil {
		return err
	}
	mine := 0
	for _, server := range servers {
		if _, has := server.Queues[queue]; has {
			mine++
		}
	}
	if mine != len(ports) {
		return fmt.Errorf("%d servers", mine)
	}
	deleted, err := w.inspector.DeleteAllCompletedTasks(queue)
	if err != nil || deleted != tasks {
		return fmt.Errorf("deleted %d: %v", deleted, err)
	}
	return nil
}

// A server is told over Pub/Sub, from another node, to stop what it does.
func cancel(w *world) error {
	info, err := enqueue(w.clients[0], "sleep", "long", asynq.MaxRetry(0))
	if err != nil {
		return err
	}
	if err := waitUntil("somebody sleeps", func() bool { return done.count("sleep:long") == 1 }); err != nil {
		return err
	}
	return waitUntil("it was cancelled", func() bool {
		return w.inspector.CancelProcessing(info.ID) == nil && done.count("cancelled:long") == 1
	})
}

func run() int {
	w := &world{inspector: asynq.NewInspector(place(len(ports) - 1))}
	var servers []*asynq.Server
	for number := range ports {
		w.clients = append(w.clients, asynq.NewClient(place(number)))
		server := asynq.NewServer(place(number), asynq.Config{
			Concurrency:              4,
			Queues:                   map[string]int{queue: 1},
			RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond },
			DelayedTaskCheckInterval: 200 * time.Millisecond,
			GroupGracePeriod:         time.Second,
			GroupAggregator:          asynq.GroupAggregatorFunc(bind),
			LogLevel:                 asynq.ErrorLevel,
		})
		if err := server.Start(asynq.HandlerFunc(handle)); err != nil {
			fmt.Println(err)
			return 1
		}
		servers = append(servers, server)
	}
	status := 0
	for _, section := range []struct {
		name string
		run  func(*world) error
	}{
		{"tasks", all}, {"delays", delays}, {"retries", retries}, {"unique", unique}, {"groups", groups},
		{"inspector", inspect}, {"cancel", cancel},
	} {
		if err := section.run(w); err != nil {
			fmt.Printf("%-12s FAILED: %v\n", section.name, err)
			status = 1
		} else {
			fmt.Printf("%-12s ok\n", section.name)
		}
	}
	for _, server := range servers {
		server.Shutdown()
	}
	return status
}

func main() { os.Exit(run()) }

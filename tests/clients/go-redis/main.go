// What a program does with go-redis, checked: against the server at HOST:PORT, over RESP2 and over RESP3.
//
// With CLUSTER_PORT, the client also believes that it talks to a Redis Cluster there, of
// nodes at CLUSTER_PORTS. Prints a line for each section and exits with 1 if one of them failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// For whatever another connection has to do first.
const limit = 5 * time.Second

// What a section works with: go-redis pools connections, so that a blocked one is in nobody's way.
type place struct {
	*redis.Client
	ctx     context.Context
	version int
}

func (p place) key(format string, arguments ...any) string {
	return fmt.Sprintf("go-redis:%d:", p.version) + fmt.Sprintf(format, arguments...)
}

func variable(name, otherwise string) string {
	if value, ok := os.LookupEnv(name); ok {
		return value
	}
	return otherwise
}

func connect(version int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:     net.JoinHostPort(variable("HOST", "127.0.0.1"), variable("PORT", "6379")),
		Protocol: version,
	})
}

// A section ends at the first thing that is not as expected: what is thrown here is caught in `attempt`.
type failure struct{ what string }

func fail(format string, arguments ...any) {
	panic(failure{fmt.Sprintf(format, arguments...)})
}

// The reply of a command that must not fail.
func must[T any](reply T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return reply
}

func expect[T any](got, wanted T) {
	if !reflect.DeepEqual(got, wanted) {
		fail("expected %#v, got %#v", wanted, got)
	}
}

// The server refused with an error that begins with these words.
func expectError(err error, words string) {
	var refused redis.Error
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.Error(), words) {
		fail("expected the error %q, got %v", words, err)
	}
}

func waitUntil(what string, isTrue func() bool) {
	for deadline := time.Now().Add(limit); !isTrue(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			fail("waited %v, and still not: %s", limit, what)
		}
	}
}

func protocol(p place) {
	expect(must(p.Ping(p.ctx).Result()), "PONG")
	// The server's word for it: a client may fall back to RESP2 and say nothing.
	expect(must(p.ClientInfo(p.ctx).Result()).Resp, p.version)
}

func texts(p place) {
	greeting, visits, missing := p.key("greeting"), p.key("visits"), p.key("missing")
	must(p.Del(p.ctx, greeting, visits, missing).Result())
	expect(must(p.Set(p.ctx, greeting, "hello", 0).Result()), "OK")
	expect(must(p.Append(p.ctx, greeting, ", world").Result()), 12)
	expect(must(p.Get(p.ctx, greeting).Result()), "hello, world")
	expect(must(p.SetNX(p.ctx, greeting, "again", 0).Result()), false)
	expect(must(p.IncrBy(p.ctx, visits, 41).Result()), 41)
	expect(must(p.Incr(p.ctx, visits).Result()), 42)
	expect(must(p.IncrByFloat(p.ctx, visits, 0.5).Result()), 42.5)
	expect(must(p.MGet(p.ctx, visits, missing, greeting).Result()), []any{"42.5", nil, "hello, world"})
	expect(p.Get(p.ctx, missing).Err(), error(redis.Nil))
	expect(must(p.Expire(p.ctx, visits, 100*time.Second).Result()), true)
	if ttl := must(p.TTL(p.ctx, visits).Result()); ttl <= 0 || ttl > 100*time.Second {
		fail("the time to live is %v", ttl)
	}
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	must(p.Set(p.ctx, p.key("bytes"), everyByte, 0).Result())
	expect(must(p.Get(p.ctx, p.key("bytes")).Bytes()), everyByte)
}

func hashes(p place) {
	ada := p.key("ada")
	must(p.Del(p.ctx, ada).Result())
	expect(must(p.HSet(p.ctx, ada, "name", "Ada", "born", 1814, "height", 1.5).Result()), 3)
	expect(must(p.HIncrBy(p.ctx, ada, "born", 1).Result()), 1815)
	expect(must(p.HIncrByFloat(p.ctx, ada, "height", 0.25).Result()), 1.75)
	expect(must(p.HGetAll(p.ctx, ada).Result()), map[string]string{"name": "Ada", "born": "1815", "height": "1.75"})
	expect(must(p.HMGet(p.ctx, ada, "name", "died").Result()), []any{"Ada", nil})
	expect(must(p.HExists(p.ctx, ada, "died").Result()), false)
	expect(must(p.HDel(p.ctx, ada, "height", "died").Result()), 1)
	expect(sorted(must(p.HKeys(p.ctx, ada).Result())), []string{"born", "name"})
	expect(must(p.HGetAll(p.ctx, p.key("nobody")).Result()), map[string]string{})
}

func lists(p place) {
	queue, done := p.key("queue"), p.key("done")
	must(p.Del(p.ctx, queue, done).Result())
	expect(must(p.RPush(p.ctx, queue, "b", "c", "d").Result()), 3)
	expect(must(p.LPush(p.ctx, queue, "a").Result()), 4)
	expect(must(p.LRange(p.ctx, queue, 0, -1).Result()), []string{"a", "b", "c", "d"})
	expect(must(p.LInsertBefore(p.ctx, queue, "c", "b2").Result()), 5)
	expect(must(p.LIndex(p.ctx, queue, 2).Result()), "b2")
	expect(must(p.LMove(p.ctx, queue, done, "LEFT", "RIGHT").Result()), "a")
	expect(must(p.LPopCount(p.ctx, queue, 2).Result()), []string{"b", "b2"})
	expect(must(p.LLen(p.ctx, queue).Result()), 2)
	expect(p.RPop(p.ctx, p.key("nothing")).Err(), error(redis.Nil))
}

func sets(p place) {
	odd, small, both := p.key("odd"), p.key("small"), p.key("both")
	must(p.Del(p.ctx, odd, small, both).Result())
	expect(must(p.SAdd(p.ctx, odd, 1, 3, 5, 7).Result()), 4)
	expect(must(p.SAdd(p.ctx, small, 1, 2, 3, 3).Result()), 3)
	expect(sorted(must(p.SMembers(p.ctx, small).Result())), []string{"1", "2", "3"})
	expect(must(p.SMIsMember(p.ctx, odd, 1, 2).Result()), []bool{true, false})
	expect(sorted(must(p.SInter(p.ctx, odd, small).Result())), []string{"1", "3"})
	expect(sorted(must(p.SDiff(p.ctx, odd, small).Result())), []string{"5", "7"})
	expect(must(p.SUnionStore(p.ctx, both, odd, small).Result()), 5)
	expect(must(p.SCard(p.ctx, both).Result()), 5)
	expect(must(p.SRem(p.ctx, odd, 7, 9).Result()), 1)
}

func sortedSets(p place) {
	scores := p.key("scores")
	must(p.Del(p.ctx, scores).Result())
	people := []redis.Z{
		{Member: "ada", Score: 1.5}, {Member: "grace", Score: 2},
		{Member: "alan", Score: -3.25}, {Member: "edsger", Score: math.Inf(1)},
	}
	expect(must(p.ZAdd(p.ctx, scores, people...).Result()), 4)
	expect(must(p.ZScore(p.ctx, scores, "ada").Result()), 1.5)
	expect(p.ZScore(p.ctx, scores, "nobody").Err(), error(redis.Nil))
	expect(must(p.ZIncrBy(p.ctx, scores, 1, "ada").Result()), 2.5)
	expect(must(p.ZRangeWithScores(p.ctx, scores, 0, -1).Result()), []redis.Z{
		{Member: "alan", Score: -3.25}, {Member: "grace", Score: 2},
		{Member: "ada", Score: 2.5}, {Member: "edsger", Score: math.Inf(1)},
	})
	between := redis.ZRangeArgs{Key: scores, Start: 3, Stop: 2, ByScore: true, Rev: true}
	expect(must(p.ZRangeArgs(p.ctx, between).Result()), []string{"ada", "grace"})
	expect(must(p.ZRank(p.ctx, scores, "ada").Result()), 2)
	expect(must(p.ZMScore(p.ctx, scores, "alan", "grace").Result()), []float64{-3.25, 2})
	expect(must(p.ZPopMin(p.ctx, scores).Result()), []redis.Z{{Member: "alan", Score: -3.25}})
	expect(must(p.ZCount(p.ctx, scores, "2", "(2.5").Result()), 1)
}

func pipeline(p place) {
	replies := must(p.Pipelined(p.ctx, func(batch redis.Pipeliner) error {
		for number := range 500 {
			batch.Set(p.ctx, p.key("pipelined:%d", number), number, 0)
			batch.Get(p.ctx, p.key("pipelined:%d", number))
		}
		return nil
	}))
	expect(len(replies), 1000)
	for number := range 500 {
		expect(replies[2*number].(*redis.StatusCmd).Val(), "OK")
		expect(replies[2*number+1].(*redis.StringCmd).Val(), fmt.Sprint(number))
	}
}

// Four connections count to 100 together: who reads, then writes, must be told of the others' writes.
func transaction(p place) {
	counter := p.key("counter")
	increment := func(own *redis.Tx) error {
		seen, err := own.Get(p.ctx, counter).Int()
		if err != nil {
			return err
		}
		_, err = own.TxPipelined(p.ctx, func(multi redis.Pipeliner) error {
			multi.Set(p.ctx, counter, seen+1, 0)
			return nil
		})
		return err
	}
	countTo25 := func() error {
		for range 25 {
			for {
				err := p.Watch(p.ctx, increment, counter)
				if errors.Is(err, redis.TxFailedErr) {
					continue // another connection was faster
				}
				if err != nil {
					return err
				}
				break
			}
		}
		return nil
	}

	must(p.Set(p.ctx, counter, 0, 0).Result())
	ended := make(chan error)
	for range 4 {
		go func() { ended <- countTo25() }()
	}
	for range 4 {
		expect(<-ended, nil)
	}
	expect(must(p.Get(p.ctx, counter).Int()), 100)
}

func pubSub(p place) {
	news, sport, pattern := p.key("news"), p.key("news.sport"), p.key("news.*")
	subscriber := p.Subscribe(p.ctx, news)
	defer subscriber.Close()
	next := func() any { return must(subscriber.ReceiveTimeout(p.ctx, limit)) }

	expect(next(), any(&redis.Subscription{Kind: "subscribe", Channel: news, Count: 1}))
	expect(subscriber.PSubscribe(p.ctx, pattern), nil)
	expect(next(), any(&redis.Subscription{Kind: "psubscribe", Channel: pattern, Count: 2}))
	expect(must(p.Publish(p.ctx, news, "hello").Result()), 1)
	expect(next(), any(&redis.Message{Channel: news, Payload: "hello"}))
	expect(must(p.Publish(p.ctx, sport, "1:0").Result()), 1)
	expect(next(), any(&redis.Message{Pattern: pattern, Channel: sport, Payload: "1:0"}))
	expect(subscriber.Unsubscribe(p.ctx, news), nil)
	expect(next(), any(&redis.Subscription{Kind: "unsubscribe", Channel: news, Count: 1}))
	expect(must(p.Publish(p.ctx, news, "nobody hears this").Result()), 0)
	expect(subscriber.PUnsubscribe(p.ctx, pattern), nil)
	expect(next(), any(&redis.Subscription{Kind: "punsubscribe", Channel: pattern, Count: 0}))
}

func blocking(p place) {
	jobs, nothing := p.key("jobs"), p.key("nothing")
	must(p.Del(p.ctx, jobs, nothing).Result())
	waiter := make(chan *redis.StringSliceCmd)
	go func() { waiter <- p.BLPop(p.ctx, limit, jobs) }()
	waitUntil("a client is blocked", func() bool {
		return !strings.Contains(must(p.Info(p.ctx, "clients").Result()), "blocked_clients:0\r")
	})
	expect(must(p.RPush(p.ctx, jobs, "wash up").Result()), 1)
	expect(must((<-waiter).Result()), []string{jobs, "wash up"})
	// go-redis knows only whole seconds here.
	started := time.Now()
	expect(p.BLPop(p.ctx, time.Second, nothing).Err(), error(redis.Nil))
	if waited := time.Since(started); waited < time.Second {
		fail("the wait was too short: %v", waited)
	}
}

func scan(p place) {
	wanted := make([]string, 1000)
	pairs := map[string]any{}
	for number := range wanted {
		wanted[number] = p.key("scanned:%d", number)
		pairs[wanted[number]] = 1
	}
	must(p.MSet(p.ctx, pairs).Result())
	found := map[string]bool{}
	names := p.Scan(p.ctx, 0, p.key("scanned:*"), 100).Iterator()
	for names.Next(p.ctx) {
		found[names.Val()] = true
	}
	expect(names.Err(), nil)
	expect(slices.Sorted(maps.Keys(found)), sorted(wanted))

	fields := map[string]string{}
	for number := range 1000 {
		fields[fmt.Sprintf("field:%d", number)] = fmt.Sprint(number)
	}
	must(p.HSet(p.ctx, p.key("many"), fields).Result())
	scanned := map[string]string{}
	items := p.HScan(p.ctx, p.key("many"), 0, "", 100).Iterator()
	for items.Next(p.ctx) {
		field := items.Val()
		expect(items.Next(p.ctx), true)
		scanned[field] = items.Val()
	}
	expect(items.Err(), nil)
	expect(scanned, fields)
}

func refusals(p place) {
	text := p.key("text")
	must(p.Set(p.ctx, text, "not a number", 0).Result())
	expectError(p.LPush(p.ctx, text, "x").Err(), "WRONGTYPE")
	expectError(p.Incr(p.ctx, text).Err(), "ERR value is not an integer")
	expectError(p.Do(p.ctx, "NO-SUCH-COMMAND").Err(), "ERR unknown command")
	replies, err := p.Pipelined(p.ctx, func(batch redis.Pipeliner) error {
		batch.LPush(p.ctx, text, "x")
		batch.Get(p.ctx, text)
		return nil
	})
	expectError(err, "WRONGTYPE")
	expectError(replies[0].Err(), "WRONGTYPE")
	expect(must(replies[1].(*redis.StringCmd).Result()), "not a number")
}

func sorted(items []string) []string {
	return slices.Sorted(slices.Values(items))
}

// The names of keys, and their values in the same order.
func spread(p place) (names, values []string) {
	for number := range 300 {
		names = append(names, p.key("spread:%d", number))
		values = append(values, fmt.Sprint(number))
	}
	return names, values
}

// Where the nodes of the cluster are.
func leaders() []string {
	ports := strings.Split(variable("CLUSTER_PORTS", os.Getenv("CLUSTER_PORT")), ",")
	slices.Sort(ports)
	for at, port := range ports {
		ports[at] = net.JoinHostPort(variable("HOST", "127.0.0.1"), port)
	}
	return ports
}

func cluster(p place) {
	address := net.JoinHostPort(variable("HOST", "127.0.0.1"), os.Getenv("CLUSTER_PORT"))
	all := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, Protocol: p.version})
	defer all.Close()
	names, values := spread(p)
	for at, name := range names {
		expect(must(all.Set(p.ctx, name, values[at], 0).Result()), "OK")
		expect(must(all.Get(p.ctx, name).Result()), values[at])
	}
	var masters []string
	var one sync.Mutex // they are visited side by side
	if err := all.ForEachMaster(p.ctx, func(_ context.Context, master *redis.Client) error {
		one.Lock()
		defer one.Unlock()
		masters = append(masters, master.Options().Addr)
		return nil
	}); err != nil {
		fail("%v", err)
	}
	slices.Sort(masters)
	expect(masters, leaders())
	var wanted []any
	var pairs []string
	for at, value := range values {
		wanted = append(wanted, value)
		pairs = append(pairs, names[at], value)
	}
	// What was written there is read at the front door.
	expect(must(p.MGet(p.ctx, names...).Result()), wanted)
	// go-redis sends these whole, to the node of the first key.
	expect(must(all.MGet(p.ctx, names...).Result()), wanted)
	expect(must(all.MSet(p.ctx, pairs).Result()), "OK")
	expect(must(all.Exists(p.ctx, names...).Result()), 300)

	replies := must(all.Pipelined(p.ctx, func(batch redis.Pipeliner) error {
		for _, name := range names {
			batch.Incr(p.ctx, name)
		}
		return nil
	}))
	for number, reply := range replies {
		expect(reply.(*redis.IntCmd).Val(), int64(number+1))
	}

	tagged := []string{p.key("{tagged}:1"), p.key("{tagged}:2")}
	var both *redis.SliceCmd
	must(all.TxPipelined(p.ctx, func(block redis.Pipeliner) error {
		block.Set(p.ctx, tagged[0], "one", 0)
		block.Set(p.ctx, tagged[1], "two", 0)
		both = block.MGet(p.ctx, tagged...)
		return nil
	}))
	expect(both.Val(), []any{"one", "two"})
	expect(must(all.Del(p.ctx, append(names, tagged...)...).Result()), 302)

	channel := p.key("shard")
	subscriber := all.SSubscribe(p.ctx, channel)
	defer subscriber.Close()
	_, isSubscribed := must(subscriber.ReceiveTimeout(p.ctx, limit)).(*redis.Subscription)
	expect(isSubscribed, true)
	expect(must(all.SPublish(p.ctx, channel, "hello").Result()), 1)
	message, isMessage := must(subscriber.ReceiveTimeout(p.ctx, limit)).(*redis.Message)
	expect(isMessage && message.Channel == channel && message.Payload == "hello", true)

	// Each connection says READONLY.
	readers := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{address}, Protocol: p.version, ReadOnly: true,
	})
	defer readers.Close()
	expect(must(readers.Set(p.ctx, p.key("read"), "at a replica", 0).Result()), "OK")
	expect(must(readers.Get(p.ctx, p.key("read")).Result()), "at a replica")
}

// The node that leads most keys is killed: every key that was written is there, and can be written again.
func failover(p place) {
	pids := map[string]int{}
	for pair := range strings.SplitSeq(os.Getenv("PIDS"), ",") {
		port, pid, _ := strings.Cut(pair, ":")
		pids[port] = must(strconv.Atoi(pid))
	}
	address := net.JoinHostPort(variable("HOST", "127.0.0.1"), os.Getenv("CLUSTER_PORT"))
	// go-redis asks a node that is gone until it looks where the slots are: every minute, if nobody tells it to.
	all := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{address}, Protocol: p.version, ClusterStateReloadInterval: time.Second,
	})
	defer all.Close()
	var names []string
	led := map[string]int{}
	for number := range 200 {
		name := p.key("failover:%d", number)
		names = append(names, name)
		expect(must(all.Set(p.ctx, name, "before", 0).Result()), "OK")
		led[portOf(all, p, name)]++
	}
	expect(len(led) > 1, true)
	victim := slices.MaxFunc(slices.Collect(maps.Keys(led)), func(one, other string) int {
		return led[one] - led[other]
	})
	if err := syscall.Kill(pids[victim], syscall.SIGKILL); err != nil {
		fail("%v", err)
	}
	for _, name := range names {
		persistently("GET "+name, func() (string, error) { return all.Get(p.ctx, name).Result() }, "before")
	}
	for _, name := range names {
		persistently("SET "+name, func() (string, error) { return all.Set(p.ctx, name, "after", 0).Result() }, "OK")
	}
	for _, name := range names {
		persistently("GET "+name, func() (string, error) { return all.Get(p.ctx, name).Result() }, "after")
		expect(portOf(all, p, name) != victim, true)
	}
}

// The port of the node that the client asks for a key.
func portOf(all *redis.ClusterClient, p place, name string) string {
	_, port, err := net.SplitHostPort(must(all.MasterForKey(p.ctx, name)).Options().Addr)
	return must(port, err)
}

// The client gives up sooner than a cluster without a leader does; an answer must be the right one.
func persistently(what string, ask func() (string, error), wanted string) {
	for deadline := time.Now().Add(2 * limit); ; time.Sleep(50 * time.Millisecond) {
		got, err := ask()
		if err == nil || errors.Is(err, redis.Nil) {
			expect(got, wanted)
			return
		}
		if time.Now().After(deadline) {
			fail("%s: %v", what, err)
		}
	}
}

type section struct {
	name string
	run  func(place)
}

var sections = []section{
	{"protocol", protocol},
	{"strings", texts},
	{"hashes", hashes},
	{"lists", lists},
	{"sets", sets},
	{"sorted sets", sortedSets},
	{"pipeline", pipeline},
	{"transaction", transaction},
	{"pub/sub", pubSub},
	{"blocking", blocking},
	{"scan", scan},
	{"errors", refusals},
}

// Runs one section on a client of its own. Returns what is wrong, or nothing.
func attempt(section func(place), version int) (trouble string) {
	defer func() {
		if caught := recover(); caught != nil {
			failed, ok := caught.(failure)
			if !ok {
				panic(caught)
			}
			trouble = failed.what
		}
	}()
	client := connect(version)
	defer client.Close()
	section(place{client, context.Background(), version})
	return ""
}

func main() {
	if _, ok := os.LookupEnv("PIDS"); ok {
		sections = []section{{"failover", failover}}
	} else if _, ok := os.LookupEnv("CLUSTER_PORT"); ok {
		sections = append(sections, section{"cluster", cluster})
	}
	failed := 0
	for _, version := range []int{2, 3} {
		if !strings.Contains(variable("PROTOCOLS", "RESP2 RESP3"), fmt.Sprintf("RESP%d", version)) {
			continue
		}
		for _, section := range sections {
			trouble := attempt(section.run, version)
			if trouble == "" {
				fmt.Printf("RESP%d  %-12s ok\n", version, section.name)
			} else {
				failed++
				fmt.Printf("RESP%d  %-12s FAILED: %s\n", version, section.name, trouble)
			}
		}
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "go-redis: %d of %d sections failed\n", failed, 2*len(sections))
		os.Exit(1)
	}
}

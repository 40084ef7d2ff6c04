import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.ExpiredObjectListener;
import org.redisson.api.FunctionMode;
import org.redisson.api.FunctionResult;
import org.redisson.api.RBatch;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RFunction;
import org.redisson.api.RLock;
import org.redisson.api.RMapCache;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RStream;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.StreamMessageId;
import org.redisson.api.map.event.EntryExpiredListener;
import org.redisson.api.redisnode.RedisNodes;
import org.redisson.api.stream.StreamAddArgs;
import org.redisson.api.stream.StreamCreateGroupArgs;
import org.redisson.api.stream.StreamReadGroupArgs;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * What a program does with Redisson, whose objects are Lua scripts for the most part, checked: three clients, each at one of PORTS, in
 * turn. With CLUSTER_PORTS, three others believe that they talk to a Redis Cluster there.
 *
 * <p>Prints a line for each section and exits with 1 if one of them failed.
 */
public final class Program {
    private static final int CLIENTS = 3;
    private static final int LIMIT_SECONDS = 20;

    private final String name = UUID.randomUUID().toString().substring(0, 8);
    private String inCluster = "";
    private final List<RedissonClient> clients = new ArrayList<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();

    private interface Section {
        void run() throws Exception;
    }

    /** What is offered to other clients. */
    public interface Adder {
        int add(int one, int other);
    }

    private RedissonClient client(int place) {
        return clients.get(place % CLIENTS);
    }

    private String key(String word) {
        return inCluster + name + ":" + word;
    }

    private static void expect(String what, Object found, Object wanted) {
        if (!found.equals(wanted)) {
            throw new AssertionError(what + ": " + found + ", not " + wanted);
        }
    }

    private static void waitUntil(String what, Callable<Boolean> isTrue) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_SECONDS);
        while (!isTrue.call()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("waited " + LIMIT_SECONDS + " s, and still not: " + what);
            }
            Thread.sleep(10);
        }
    }

    /** Runs one task for each client at one time. */
    private void together(java.util.function.IntFunction<Callable<Void>> task) throws Exception {
        List<Future<Void>> running = new ArrayList<>();
        for (int place = 0; place < CLIENTS; place++) {
            running.add(threads.submit(task.apply(place)));
        }
        for (Future<Void> one : running) {
            one.get(60, TimeUnit.SECONDS);
        }
    }

    /** A counter that is read and written in two steps, under a lock whose end is told over Pub/Sub. */
    private void locks() throws Exception {
        client(0).getBucket(key("counter")).set(0);
        together(place -> () -> {
            RLock lock = client(place).getLock(key("lock"));
            for (int turn = 0; turn < 15; turn++) {
                lock.lock();
                try {
                    lock.lock();
                    int count = client(place).<Integer>getBucket(key("counter")).get();
                    client(place).<Integer>getBucket(key("counter")).set(count + 1);
                    lock.unlock();
                } finally {
                    lock.unlock();
                }
            }
            return null;
        });
        expect("counter", client(1).getBucket(key("counter")).get(), CLIENTS * 15);
        expect("locked", client(2).getLock(key("lock")).isLocked(), false);
        RLock fair = client(0).getFairLock(key("fair"));
        fair.lock(500, TimeUnit.MILLISECONDS);
        Future<Boolean> next = threads.submit(() -> client(1).getFairLock(key("fair")).tryLock(10, TimeUnit.SECONDS));
        expect("got when it had ended", next.get(15, TimeUnit.SECONDS), true);
        RLock all = client(0).getMultiLock(client(0).getLock(key("tea")), client(0).getLock(key("milk")));
        all.lock();
        expect("one of many", client(1).getLock(key("milk")).tryLock(), false);
        all.unlock();
        expect("one of many", client(1).getLock(key("milk")).tryLock(), true);
    }

    private void semaphores() throws Exception {
        client(0).getSemaphore(key("semaphore")).trySetPermits(2);
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        together(place -> () -> {
            for (int turn = 0; turn < 10; turn++) {
                client(place).getSemaphore(key("semaphore")).acquire();
                most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                Thread.sleep(5);
                inside.decrementAndGet();
                client(place).getSemaphore(key("semaphore")).release();
            }
            return null;
        });
        expect("at most two", most.get() <= 2, true);
        client(0).getCountDownLatch(key("latch")).trySetCount(CLIENTS);
        Future<Boolean> awaited = threads.submit(() -> client(1).getCountDownLatch(key("latch")).await(10, TimeUnit.SECONDS));
        together(place -> () -> {
            client(place).getCountDownLatch(key("latch")).countDown();
            return null;
        });
        expect("opened", awaited.get(15, TimeUnit.SECONDS), true);
    }

    /** Entries that end one by one, which scripts pack with `struct`, and those who listen. */
    private void maps() throws Exception {
        RMapCache<String, String> map = client(0).getMapCache(key("map"));
        BlockingQueue<String> ended = new LinkedBlockingQueue<>();
        RMapCache<String, String> other = client(1).getMapCache(key("map"));
        other.addListener((EntryExpiredListener<String, String>) event -> ended.add(event.getKey()));
        map.put("short", "one", 1, TimeUnit.SECONDS);
        map.put("long", "two", 60, TimeUnit.SECONDS);
        map.fastPut("ever", "three");
        expect("read", other.get("short"), "one");
        expect("replaced", other.put("long", "four"), "two");
        expect("absent", other.putIfAbsent("ever", "five"), "three");
        waitUntil("it ended", () -> other.get("short") == null);
        expect("told", String.valueOf(ended.poll(LIMIT_SECONDS, TimeUnit.SECONDS)), "short");
        expect("left", client(2).getMapCache(key("map")).readAllKeySet(), Set.of("long", "ever"));
    }

    /** Elements that are moved from one queue to another when they are due. */
    private void delays() throws Exception {
        RBlockingQueue<String> queue = client(0).getBlockingQueue(key("queue"));
        RDelayedQueue<String> delayed = client(1).getDelayedQueue(client(1).getBlockingQueue(key("queue")));
        long began = System.nanoTime();
        delayed.offer("second", 900, TimeUnit.MILLISECONDS);
        delayed.offer("first", 400, TimeUnit.MILLISECONDS);
        expect("first", String.valueOf(queue.poll(LIMIT_SECONDS, TimeUnit.SECONDS)), "first");
        expect("not too early", System.nanoTime() - began >= 390_000_000L, true);
        expect("second", String.valueOf(queue.poll(LIMIT_SECONDS, TimeUnit.SECONDS)), "second");
        expect("not too early", System.nanoTime() - began >= 890_000_000L, true);
        delayed.destroy();
    }

    private void limits() throws Exception {
        client(0).getRateLimiter(key("limiter")).trySetRate(RateType.OVERALL, 20, Duration.ofMinutes(1));
        AtomicInteger given = new AtomicInteger();
        together(place -> () -> {
            RRateLimiter limiter = client(place).getRateLimiter(key("limiter"));
            for (int turn = 0; turn < 15; turn++) {
                if (limiter.tryAcquire()) {
                    given.incrementAndGet();
                }
            }
            return null;
        });
        expect("given", given.get(), 20);
    }

    private void topics() throws Exception {
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        for (int place = 0; place < CLIENTS; place++) {
            client(place).getTopic(key("topic")).addListener(String.class, (channel, text) -> heard.add(text));
        }
        waitUntil("all are counted", () -> client(0).getTopic(key("topic")).countSubscribers() == CLIENTS);
        client(2).getTopic(key("topic")).publish("hello");
        for (int place = 0; place < CLIENTS; place++) {
            expect("heard", String.valueOf(heard.poll(LIMIT_SECONDS, TimeUnit.SECONDS)), "hello");
        }
    }

    private void streams() throws Exception {
        RStream<String, String> stream = client(0).getStream(key("stream"));
        stream.createGroup(StreamCreateGroupArgs.name("group").makeStream());
        Future<Map<StreamMessageId, Map<String, String>>> waiting = threads.submit(() -> client(1).<String, String>getStream(key("stream"))
                .readGroup("group", "ann", StreamReadGroupArgs.neverDelivered().count(1).timeout(Duration.ofSeconds(LIMIT_SECONDS))));
        Thread.sleep(200);
        StreamMessageId first = stream.add(StreamAddArgs.entry("word", "one"));
        stream.add(StreamAddArgs.entry("word", "two"));
        expect("waited for", waiting.get(LIMIT_SECONDS, TimeUnit.SECONDS), Map.of(first, Map.of("word", "one")));
        expect("left for another", client(2).<String, String>getStream(key("stream"))
                .readGroup("group", "bob", StreamReadGroupArgs.neverDelivered()).size(), 1);
        expect("pending", stream.getPendingInfo("group").getTotal(), 2L);
        expect("acknowledged", client(2).getStream(key("stream")).ack("group", first), 1L);
        expect("pending", stream.getPendingInfo("group").getConsumerNames(), Map.of("bob", 1L));
        expect("claimed", stream.autoClaim("group", "ann", 0, TimeUnit.MILLISECONDS, StreamMessageId.MIN, 10).getMessages().size(), 1);
    }

    /** Keyspace events: a key that ends is told to all who listen, at any node. */
    private void events() throws Exception {
        CountDownLatch told = new CountDownLatch(CLIENTS);
        for (int place = 0; place < CLIENTS; place++) {
            client(place).getRedisNodes(RedisNodes.SINGLE).getInstance().setConfig("notify-keyspace-events", "Ex");
            client(place).getBucket(key("ends")).addListener((ExpiredObjectListener) key -> told.countDown());
        }
        client(1).getBucket(key("ends")).set("soon", Duration.ofMillis(500));
        expect("all were told", told.await(LIMIT_SECONDS, TimeUnit.SECONDS), true);
    }

    private void batches() {
        RBatch batch = client(0).createBatch(org.redisson.api.BatchOptions.defaults()
                .executionMode(org.redisson.api.BatchOptions.ExecutionMode.REDIS_WRITE_ATOMIC));
        for (int number = 0; number < 20; number++) {
            batch.getAtomicLong(key("total")).addAndGetAsync(number);
            batch.getBucket(key("bucket:" + number)).setAsync(number);
        }
        expect("answers", batch.execute().getResponses().size(), 40);
        expect("sum", client(1).getAtomicLong(key("total")).get(), 190L);
        expect("last", client(2).getBucket(key("bucket:19")).get(), 19);
    }

    private void functions() {
        String library = "lib" + name;
        RFunction function = client(0).getFunction(StringCodec.INSTANCE);
        function.load(library, "redis.register_function('" + library + "_add', function(keys, args)"
                + " redis.call('INCRBY', keys[1], args[1]) return redis.call('INCRBY', keys[2], args[1]) end)");
        Object found = client(1).getFunction(StringCodec.INSTANCE).call(FunctionMode.WRITE, library + "_add", FunctionResult.LONG,
                List.of(key("one"), key("other")), "5");
        expect("called at another node", found, 5L);
        expect("both keys", client(2).getBucket(key("one"), StringCodec.INSTANCE).get(), "5");
        client(2).getFunction().delete(library);
        expect("deleted", client(0).getFunction().list().stream().noneMatch(one -> one.getName().equals(library)), true);
    }

    /** One client offers what another one calls: requests and answers go through queues. */
    private void remote() {
        client(0).getRemoteService(key("adder")).register(Adder.class, (one, other) -> one + other);
        Adder adder = client(1).getRemoteService(key("adder")).get(Adder.class);
        for (int number = 0; number < 10; number++) {
            expect("sum", adder.add(number, 1), number + 1);
        }
        client(0).getRemoteService(key("adder")).deregister(Adder.class);
    }

    /** What needs scripts most, by clients that believe that they talk to a Redis Cluster, and wait for its replicas. */
    private void cluster() throws Exception {
        List<RedissonClient> single = List.copyOf(clients);
        clients.clear();
        for (int place = 0; place < CLIENTS; place++) {
            Config config = new Config();
            config.setThreads(4).setNettyThreads(4);
            for (String port : System.getenv("CLUSTER_PORTS").split(",")) {
                config.useClusterServers().addNodeAddress("redis://127.0.0.1:" + port);
            }
            config.useClusterServers().setMasterConnectionMinimumIdleSize(2).setMasterConnectionPoolSize(8)
                    .setSlaveConnectionMinimumIdleSize(1).setSlaveConnectionPoolSize(8).setSubscriptionConnectionMinimumIdleSize(1);
            clients.add(Redisson.create(config));
        }
        try {
            // Names of their own: what the sections before left is there still.
            inCluster = "cluster-";
            locks();
            semaphores();
            maps();
            limits();
        } finally {
            inCluster = "";
            clients.forEach(client -> client.shutdown(0, 2, TimeUnit.SECONDS));
            clients.clear();
            clients.addAll(single);
        }
    }

    private int run() {
        String[] ports = System.getenv().getOrDefault("PORTS", "6379").split(",");
        for (int place = 0; place < CLIENTS; place++) {
            Config config = new Config();
            config.setThreads(4).setNettyThreads(4);
            config.useSingleServer().setAddress("redis://127.0.0.1:" + ports[place % ports.length])
                    .setConnectionMinimumIdleSize(2).setConnectionPoolSize(8).setSubscriptionConnectionMinimumIdleSize(1);
            clients.add(Redisson.create(config));
        }
        Map<String, Section> sections = new java.util.LinkedHashMap<>();
        sections.put("locks", this::locks);
        sections.put("semaphores", this::semaphores);
        sections.put("maps", this::maps);
        sections.put("delays", this::delays);
        sections.put("limits", this::limits);
        sections.put("topics", this::topics);
        sections.put("streams", this::streams);
        sections.put("events", this::events);
        sections.put("batches", this::batches);
        sections.put("functions", this::functions);
        sections.put("remote", this::remote);
        if (System.getenv("CLUSTER_PORTS") != null) {
            sections.put("cluster", this::cluster);
        }
        int status = 0;
        for (Map.Entry<String, Section> section : sections.entrySet()) {
            try {
                section.getValue().run();
                System.out.printf("%-12s ok%n", section.getKey());
            } catch (Throwable trouble) {
                trouble.printStackTrace(System.out);
                System.out.printf("%-12s FAILED: %s%n", section.getKey(), String.valueOf(trouble).lines().findFirst().orElse(""));
                status = 1;
            }
        }
        threads.shutdownNow();
        clients.forEach(client -> client.shutdown(0, 2, TimeUnit.SECONDS));
        return status;
    }

    public static void main(String[] arguments) {
        System.exit(new Program().run());
    }
}

import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyValue;
import io.lettuce.core.LMoveArgs;
import io.lettuce.core.Range;
import io.lettuce.core.ReadFrom;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.cluster.pubsub.RedisClusterPubSubAdapter;
import io.lettuce.core.cluster.pubsub.StatefulRedisClusterPubSubConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * What a program does with Lettuce, checked: against the server at HOST:PORT, over RESP2 and over RESP3.
 *
 * <p>With CLUSTER_PORT, the client also believes that it talks to a Redis Cluster there, of nodes at CLUSTER_PORTS.
 *
 * <p>Prints a line for each section and exits with 1 if one of them failed.
 */
public final class Client {
    private static final String HOST = variable("HOST", "127.0.0.1");
    private static final int PORT = Integer.parseInt(variable("PORT", "6379"));
    private static final int CLUSTER_PORT = Integer.parseInt(variable("CLUSTER_PORT", "0"));
    private static final List<Integer> CLUSTER_PORTS =
            Arrays.stream(variable("CLUSTER_PORTS", String.valueOf(CLUSTER_PORT)).split(",")).map(Integer::valueOf).sorted().toList();

    /** For whatever another connection has to do first. */
    private static final int LIMIT_SECS = 5;

    private final int version;
    private final RedisClient client;
    private final StatefulRedisConnection<String, String> connection;
    private final RedisCommands<String, String> r;

    private Client(int version) {
        this.version = version;
        this.client = RedisClient.create(
                RedisURI.builder().withHost(HOST).withPort(PORT).withTimeout(Duration.ofSeconds(2 * LIMIT_SECS)).build());
        ProtocolVersion protocol = version == 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2;
        client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
        this.connection = client.connect();
        this.r = connection.sync();
    }

    private static String variable(String name, String otherwise) {
        return Objects.requireNonNullElse(System.getenv(name), otherwise);
    }

    private String key(String word) {
        return "lettuce:" + version + ":" + word;
    }

    private static void expect(Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) {
            throw new AssertionError("expected " + wanted + ", got " + got);
        }
    }

    /** The server refuses the call with an error that begins with these words. */
    private static void expectError(String words, Callable<?> call) throws Exception {
        try {
            Object reply = call.call();
            throw new AssertionError("expected the error " + words + ", got " + reply);
        } catch (RedisCommandExecutionException error) {
            expect(error.getMessage().startsWith(words) ? words : error.getMessage(), words);
        }
    }

    private static void waitUntil(String what, BooleanSupplier isTrue) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_SECS);
        while (!isTrue.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("waited " + LIMIT_SECS + " s, and still not: " + what);
            }
            Thread.sleep(5);
        }
    }

    // --- sections -------------------------------------------------------------------------------------

    private void protocol() {
        expect(r.ping(), "PONG");
        // The server's word for it: a client may fall back to RESP2 and say nothing.
        expect(r.clientInfo().contains(" resp=" + version), true);
    }

    private void strings() {
        r.del(key("greeting"), key("visits"), key("missing"));
        expect(r.set(key("greeting"), "hello"), "OK");
        expect(r.append(key("greeting"), ", world"), 12L);
        expect(r.get(key("greeting")), "hello, world");
        expect(r.set(key("greeting"), "again", SetArgs.Builder.nx()), null);
        expect(r.incrby(key("visits"), 41), 41L);
        expect(r.incr(key("visits")), 42L);
        expect(r.incrbyfloat(key("visits"), 0.5), 42.5);
        expect(
                r.mget(key("visits"), key("missing"), key("greeting")),
                List.of(
                        KeyValue.just(key("visits"), "42.5"),
                        KeyValue.empty(key("missing")),
                        KeyValue.just(key("greeting"), "hello, world")));
        expect(r.expire(key("visits"), 100), true);
        long ttl = r.ttl(key("visits"));
        expect(ttl > 0 && ttl <= 100, true);
        byte[] everyByte = new byte[256];
        for (int i = 0; i < everyByte.length; i++) {
            everyByte[i] = (byte) i;
        }
        byte[] bytesKey = key("bytes").getBytes(StandardCharsets.UTF_8);
        try (StatefulRedisConnection<byte[], byte[]> raw = client.connect(ByteArrayCodec.INSTANCE)) {
            raw.sync().set(bytesKey, everyByte);
            expect(Arrays.equals(raw.sync().get(bytesKey), everyByte), true);
        }
    }

    private void hashes() {
        r.del(key("ada"));
        expect(r.hset(key("ada"), Map.of("name", "Ada", "born", "1814", "height", "1.5")), 3L);
        expect(r.hincrby(key("ada"), "born", 1), 1815L);
        expect(r.hincrbyfloat(key("ada"), "height", 0.25), 1.75);
        expect(r.hgetall(key("ada")), Map.of("name", "Ada", "born", "1815", "height", "1.75"));
        expect(r.hmget(key("ada"), "name", "died"), List.of(KeyValue.just("name", "Ada"), KeyValue.empty("died")));
        expect(r.hexists(key("ada"), "died"), false);
        expect(r.hdel(key("ada"), "height", "died"), 1L);
        expect(new HashSet<>(r.hkeys(key("ada"))), Set.of("born", "name"));
        expect(r.hgetall(key("nobody")), Map.of());
    }

    private void lists() {
        r.del(key("queue"), key("done"));
        expect(r.rpush(key("queue"), "b", "c", "d"), 3L);
        expect(r.lpush(key("queue"), "a"), 4L);
        expect(r.lrange(key("queue"), 0, -1), List.of("a", "b", "c", "d"));
        boolean before = true;
        expect(r.linsert(key("queue"), before, "c", "b2"), 5L);
        expect(r.lindex(key("queue"), 2), "b2");
        expect(r.lmove(key("queue"), key("done"), LMoveArgs.Builder.leftRight()), "a");
        expect(r.lpop(key("queue"), 2), List.of("b", "b2"));
        expect(r.llen(key("queue")), 2L);
        expect(r.rpop(key("nothing")), null);
    }

    private void sets() {
        r.del(key("odd"), key("small"), key("both"));
        expect(r.sadd(key("odd"), "1", "3", "5", "7"), 4L);
        expect(r.sadd(key("small"), "1", "2", "3", "3"), 3L);
        expect(r.smembers(key("small")), Set.of("1", "2", "3"));
        expect(r.smismember(key("odd"), "1", "2"), List.of(true, false));
        expect(r.sinter(key("odd"), key("small")), Set.of("1", "3"));
        expect(r.sdiff(key("odd"), key("small")), Set.of("5", "7"));
        expect(r.sunionstore(key("both"), key("odd"), key("small")), 5L);
        expect(r.scard(key("both")), 5L);
        expect(r.srem(key("odd"), "7", "9"), 1L);
    }

    private void sortedSets() {
        r.del(key("scores"));
        Object[] people = {1.5, "ada", 2.0, "grace", -3.25, "alan", Double.POSITIVE_INFINITY, "edsger"};
        expect(r.zadd(key("scores"), people), 4L);
        expect(r.zscore(key("scores"), "ada"), 1.5);
        expect(r.zscore(key("scores"), "nobody"), null);
        expect(r.zincrby(key("scores"), 1, "ada"), 2.5);
        expect(
                r.zrangeWithScores(key("scores"), 0, -1),
                List.of(
                        ScoredValue.just(-3.25, "alan"),
                        ScoredValue.just(2.0, "grace"),
                        ScoredValue.just(2.5, "ada"),
                        ScoredValue.just(Double.POSITIVE_INFINITY, "edsger")));
        expect(r.zrevrangebyscore(key("scores"), Range.create(2, 3)), List.of("ada", "grace"));
        expect(r.zrank(key("scores"), "ada"), 2L);
        expect(r.zmscore(key("scores"), "alan", "nobody"), Arrays.asList(-3.25, null));
        expect(r.zpopmin(key("scores")), ScoredValue.just(-3.25, "alan"));
        Range<Double> halfOpen = Range.from(Range.Boundary.including(2.0), Range.Boundary.excluding(2.5));
        expect(r.zcount(key("scores"), halfOpen), 1L);
    }

    /** Every asynchronous command of Lettuce is pipelined; here they are also written in one go. */
    private void pipeline() throws Exception {
        RedisAsyncCommands<String, String> batch = connection.async();
        List<RedisFuture<String>> replies = new ArrayList<>();
        connection.setAutoFlushCommands(false);
        try {
            for (int number = 0; number < 500; number++) {
                replies.add(batch.set(key("pipelined:" + number), String.valueOf(number)));
                replies.add(batch.get(key("pipelined:" + number)));
            }
            connection.flushCommands();
        } finally {
            connection.setAutoFlushCommands(true);
        }
        for (int number = 0; number < 500; number++) {
            expect(replies.get(2 * number).get(LIMIT_SECS, TimeUnit.SECONDS), "OK");
            expect(replies.get(2 * number + 1).get(LIMIT_SECS, TimeUnit.SECONDS), String.valueOf(number));
        }
    }

    /** Four connections count to 100 together: who reads, then writes, must be told of the others' writes. */
    private void transaction() throws Exception {
        r.set(key("counter"), "0");
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try {
            Callable<Void> countTo25 = () -> {
                try (StatefulRedisConnection<String, String> own = client.connect()) {
                    for (int times = 0; times < 25; times++) {
                        increment(own.sync());
                    }
                }
                return null;
            };
            for (Future<Void> thread : threads.invokeAll(List.of(countTo25, countTo25, countTo25, countTo25))) {
                thread.get();
            }
        } finally {
            threads.shutdownNow();
        }
        expect(r.get(key("counter")), "100");
    }

    private void increment(RedisCommands<String, String> own) {
        while (true) {
            own.watch(key("counter"));
            String next = String.valueOf(Long.parseLong(own.get(key("counter"))) + 1);
            own.multi();
            own.set(key("counter"), next);
            own.strlen(key("counter"));
            TransactionResult replies = own.exec();
            if (!replies.wasDiscarded()) {
                expect(replies.stream().toList(), List.of("OK", (long) next.length()));
                return;
            }
        }
    }

    private void pubSub() throws Exception {
        String news = key("news");
        String sport = key("news.sport");
        String pattern = key("news.*");
        BlockingQueue<List<Object>> received = new LinkedBlockingQueue<>();
        try (StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub()) {
            subscriber.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void subscribed(String channel, long count) {
                    received.add(List.of("subscribe", channel, count));
                }

                @Override
                public void psubscribed(String pattern, long count) {
                    received.add(List.of("psubscribe", pattern, count));
                }

                @Override
                public void message(String channel, String message) {
                    received.add(List.of("message", channel, message));
                }

                @Override
                public void message(String pattern, String channel, String message) {
                    received.add(List.of("pmessage", pattern, channel, message));
                }

                @Override
                public void unsubscribed(String channel, long count) {
                    received.add(List.of("unsubscribe", channel, count));
                }

                @Override
                public void punsubscribed(String pattern, long count) {
                    received.add(List.of("punsubscribe", pattern, count));
                }
            });
            subscriber.sync().subscribe(news);
            expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("subscribe", news, 1L));
            subscriber.sync().psubscribe(pattern);
            expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("psubscribe", pattern, 2L));
            expect(r.publish(news, "hello"), 1L);
            expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("message", news, "hello"));
            expect(r.publish(sport, "1:0"), 1L);
            expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("pmessage", pattern, sport, "1:0"));
            subscriber.sync().unsubscribe(news);
            expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("unsubscribe", news, 1L));
            expect(r.publish(news, "nobody hears this"), 0L);
            subscriber.sync().punsubscribe(pattern);
            expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("punsubscribe", pattern, 0L));
        }
    }

    private void blocking() throws Exception {
        r.del(key("jobs"), key("nothing"));
        try (StatefulRedisConnection<String, String> own = client.connect()) {
            RedisFuture<KeyValue<String, String>> waiter = own.async().blpop((double) LIMIT_SECS, key("jobs"));
            waitUntil("a client is blocked", () -> !r.info("clients").contains("blocked_clients:0\r"));
            expect(r.rpush(key("jobs"), "wash up"), 1L);
            expect(waiter.get(LIMIT_SECS, TimeUnit.SECONDS), KeyValue.just(key("jobs"), "wash up"));
        }
        long started = System.nanoTime();
        expect(r.blpop(0.1, key("nothing")), null);
        expect(System.nanoTime() - started >= TimeUnit.MILLISECONDS.toNanos(100), true);
    }

    private void scan() {
        Map<String, String> wanted = new HashMap<>();
        IntStream.range(0, 1000).forEach(number -> wanted.put(key("scanned:" + number), "1"));
        r.mset(wanted);
        Set<String> found = new HashSet<>();
        ScanIterator.scan(r, ScanArgs.Builder.matches(key("scanned:*")).limit(100)).forEachRemaining(found::add);
        expect(found.equals(wanted.keySet()), true);

        Map<String, String> fields = new HashMap<>();
        IntStream.range(0, 1000).forEach(number -> fields.put("field:" + number, String.valueOf(number)));
        r.hset(key("many"), fields);
        Map<String, String> scanned = new HashMap<>();
        ScanIterator.hscan(r, key("many"), ScanArgs.Builder.limit(100))
                .forEachRemaining(field -> scanned.put(field.getKey(), field.getValue()));
        expect(scanned.equals(fields), true);
    }

    private void errors() throws Exception {
        r.set(key("text"), "not a number");
        expectError("WRONGTYPE", () -> r.lpush(key("text"), "x"));
        expectError("ERR value is not an integer", () -> r.incr(key("text")));
        ProtocolKeyword unknown = () -> "NO-SUCH-COMMAND".getBytes(StandardCharsets.US_ASCII);
        expectError("ERR unknown command", () -> r.dispatch(unknown, new StatusOutput<>(StringCodec.UTF8)));
        RedisFuture<Long> refused = connection.async().lpush(key("text"), "x");
        RedisFuture<String> answered = connection.async().get(key("text"));
        expect(answered.get(LIMIT_SECS, TimeUnit.SECONDS), "not a number");
        try {
            throw new AssertionError("expected the error WRONGTYPE, got " + refused.get(LIMIT_SECS, TimeUnit.SECONDS));
        } catch (ExecutionException error) {
            expect(error.getCause().getMessage().startsWith("WRONGTYPE"), true);
        }
    }

    /** A cluster without a leader may take longer than the client does; an answer must be the right one. */
    private static void persistently(Callable<String> ask, String wanted) throws Exception {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(2 * LIMIT_SECS);
        while (true) {
            try {
                expect(ask.call(), wanted);
                return;
            } catch (RedisException trouble) {
                if (System.nanoTime() > until) {
                    throw trouble;
                }
                Thread.sleep(50);
            }
        }
    }

    /** Ends the node that leads most keys, at once. */
    private static int kill(List<Integer> leaders) {
        Map<Integer, Long> led = leaders.stream().collect(Collectors.groupingBy(Function.identity(), Collectors.counting()));
        expect(led.size() > 1, true);
        int victim = Collections.max(led.entrySet(), Map.Entry.comparingByValue()).getKey();
        for (String pair : System.getenv("PIDS").split(",")) {
            String[] parts = pair.split(":");
            if (Integer.parseInt(parts[0]) == victim) {
                expect(ProcessHandle.of(Long.parseLong(parts[1])).orElseThrow().destroyForcibly(), true);
            }
        }
        return victim;
    }

    /** The node that leads most keys is killed: every key that was written is there, and can be written again. */
    private void failover() throws Exception {
        ProtocolVersion protocol = version == 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2;
        RedisClusterClient cluster = RedisClusterClient.create(
                RedisURI.builder().withHost(HOST).withPort(CLUSTER_PORT).withTimeout(Duration.ofSeconds(1)).build());
        // Lettuce learns of another leader only if it is told to look.
        cluster.setOptions(ClusterClientOptions.builder()
                .protocolVersion(protocol)
                .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                        .enableAllAdaptiveRefreshTriggers()
                        .adaptiveRefreshTriggersTimeout(Duration.ofMillis(200))
                        .build())
                .build());
        try (StatefulRedisClusterConnection<String, String> connection = cluster.connect()) {
            RedisAdvancedClusterCommands<String, String> all = connection.sync();
            List<String> names = IntStream.range(0, 200).mapToObj(number -> key("failover:" + number)).toList();
            for (String name : names) {
                expect(all.set(name, "before"), "OK");
            }
            Function<String, Integer> portOf = name -> connection
                    .getPartitions()
                    .getPartitionBySlot(SlotHash.getSlot(name))
                    .getUri()
                    .getPort();
            int victim = kill(names.stream().map(portOf).toList());
            for (String name : names) {
                persistently(() -> all.get(name), "before");
            }
            for (String name : names) {
                persistently(() -> all.set(name, "after"), "OK");
            }
            for (String name : names) {
                persistently(() -> all.get(name), "after");
                expect(portOf.apply(name) != victim, true);
            }
        } finally {
            cluster.shutdown(Duration.ZERO, Duration.ofSeconds(1));
        }
    }

    private void cluster() throws Exception {
        ProtocolVersion protocol = version == 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2;
        RedisClusterClient cluster = RedisClusterClient.create(
                RedisURI.builder().withHost(HOST).withPort(CLUSTER_PORT).withTimeout(Duration.ofSeconds(2 * LIMIT_SECS)).build());
        cluster.setOptions(ClusterClientOptions.builder().protocolVersion(protocol).build());
        try (StatefulRedisClusterConnection<String, String> connection = cluster.connect()) {
            // Each connection says READONLY.
            connection.setReadFrom(ReadFrom.REPLICA_PREFERRED);
            RedisAdvancedClusterCommands<String, String> all = connection.sync();
            List<Integer> ports = new ArrayList<>();
            int slots = 0;
            for (RedisClusterNode node : connection.getPartitions()) {
                ports.add(node.getUri().getPort());
                slots += node.getSlots().size();
            }
            expect(slots, 16384);
            expect(ports.stream().sorted().toList(), CLUSTER_PORTS);
            Map<String, String> wanted = new HashMap<>();
            IntStream.range(0, 300).forEach(number -> wanted.put(key("spread:" + number), String.valueOf(number)));
            for (Map.Entry<String, String> one : wanted.entrySet()) {
                expect(all.set(one.getKey(), one.getValue()), "OK");
                expect(all.get(one.getKey()), one.getValue());
            }
            String[] names = wanted.keySet().toArray(String[]::new);
            List<String> values = Arrays.stream(names).map(wanted::get).toList();
            // What was written there is read at the front door.
            expect(r.mget(names).stream().map(KeyValue::getValue).toList(), values);
            // Lettuce splits what lies in several slots.
            expect(all.mget(names).stream().map(KeyValue::getValue).toList(), values);
            expect(all.mset(wanted), "OK");
            expect(all.dbsize() >= 300, true);
            expect(all.del(names), 300L);
        }
        BlockingQueue<List<Object>> received = new LinkedBlockingQueue<>();
        String channel = key("shard");
        try (StatefulRedisClusterPubSubConnection<String, String> subscriber = cluster.connectPubSub()) {
            subscriber.addListener(new RedisClusterPubSubAdapter<>() {
                @Override
                public void smessage(RedisClusterNode node, String channel, String message) {
                    received.add(List.of("smessage", channel, message));
                }
            });
            subscriber.sync().ssubscribe(channel);
            try (StatefulRedisClusterConnection<String, String> publisher = cluster.connect()) {
                expect(publisher.sync().spublish(channel, "hello"), 1L);
            }
            expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("smessage", channel, "hello"));
        } finally {
            cluster.shutdown(Duration.ZERO, Duration.ofSeconds(1));
        }
    }

    // --- running them ---------------------------------------------------------------------------------

    private interface Section {
        void run(Client client) throws Exception;
    }

    private record Named(String name, Section section) {}

    private static final List<Named> SECTIONS = List.of(
            new Named("protocol", Client::protocol),
            new Named("strings", Client::strings),
            new Named("hashes", Client::hashes),
            new Named("lists", Client::lists),
            new Named("sets", Client::sets),
            new Named("sorted sets", Client::sortedSets),
            new Named("pipeline", Client::pipeline),
            new Named("transaction", Client::transaction),
            new Named("pub/sub", Client::pubSub),
            new Named("blocking", Client::blocking),
            new Named("scan", Client::scan),
            new Named("errors", Client::errors));

    public static void main(String[] arguments) {
        List<Named> sections = new ArrayList<>(SECTIONS);
        if (System.getenv("PIDS") != null) {
            sections = List.of(new Named("failover", Client::failover));
        } else if (CLUSTER_PORT != 0) {
            sections.add(new Named("cluster", Client::cluster));
        }
        int failed = 0;
        for (int version : new int[] {2, 3}) {
            if (!variable("PROTOCOLS", "RESP2 RESP3").contains("RESP" + version)) {
                continue;
            }
            Client client = new Client(version);
            for (Named named : sections) {
                String trouble = "ok";
                try {
                    named.section.run(client);
                } catch (Exception | AssertionError error) {
                    failed++;
                    trouble = "FAILED: " + error;
                }
                System.out.printf("RESP%d  %-12s %s%n", version, named.name, trouble);
            }
            client.client.shutdown(Duration.ZERO, Duration.ofSeconds(1));
        }
        if (failed > 0) {
            System.err.printf("lettuce: %d of %d sections failed%n", failed, 2 * sections.size());
            System.exit(1);
        }
    }
}

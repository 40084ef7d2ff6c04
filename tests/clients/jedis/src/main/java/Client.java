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
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.JedisShardedPubSub;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.args.ListPosition;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.ZRangeParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.Tuple;
import redis.clients.jedis.util.JedisClusterCRC16;
import redis.clients.jedis.util.KeyValue;
import redis.clients.jedis.util.SafeEncoder;

/**
 * What a program does with Jedis, checked: against the server at HOST:PORT, over RESP2 and over RESP3.
 *
 * <p>With CLUSTER_PORT, the client also believes that it talks to a Redis Cluster there, of nodes at CLUSTER_PORTS.
 *
 * <p>Prints a line for each section and exits with 1 if one of them failed.
 */
public final class Client {
    private static final String HOST = variable("HOST", "127.0.0.1");
    private static final int PORT = Integer.parseInt(variable("PORT", "6379"));
    private static final int CLUSTER_PORT = Integer.parseInt(variable("CLUSTER_PORT", "0"));
    private static final String[] CLUSTER_PORTS = variable("CLUSTER_PORTS", String.valueOf(CLUSTER_PORT)).split(",");

    /** For whatever another connection has to do first. */
    private static final int LIMIT_SECS = 5;

    private final int version;

    /** A pool of connections: one that is blocked is in nobody's way. */
    private final RedisClient r;

    private Client(int version) {
        this.version = version;
        RedisProtocol protocol = version == 3 ? RedisProtocol.RESP3 : RedisProtocol.RESP2;
        this.r = RedisClient.builder()
                .hostAndPort(HOST, PORT)
                .clientConfig(DefaultJedisClientConfig.builder().protocol(protocol).build())
                .build();
    }

    private static String variable(String name, String otherwise) {
        return Objects.requireNonNullElse(System.getenv(name), otherwise);
    }

    private String key(String word) {
        return "jedis:" + version + ":" + word;
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
        } catch (JedisDataException error) {
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
        Object info = r.sendCommand(Protocol.Command.CLIENT, "INFO");
        String text = info instanceof byte[] bytes ? SafeEncoder.encode(bytes) : String.valueOf(info);
        expect(text.contains(" resp=" + version), true);
    }

    private void strings() {
        r.del(key("greeting"), key("visits"), key("missing"));
        expect(r.set(key("greeting"), "hello"), "OK");
        expect(r.append(key("greeting"), ", world"), 12L);
        expect(r.get(key("greeting")), "hello, world");
        expect(r.set(key("greeting"), "again", SetParams.setParams().nx()), null);
        expect(r.incrBy(key("visits"), 41), 41L);
        expect(r.incr(key("visits")), 42L);
        expect(r.incrByFloat(key("visits"), 0.5), 42.5);
        expect(r.mget(key("visits"), key("missing"), key("greeting")), Arrays.asList("42.5", null, "hello, world"));
        expect(r.expire(key("visits"), 100), 1L);
        long ttl = r.ttl(key("visits"));
        expect(ttl > 0 && ttl <= 100, true);
        byte[] everyByte = new byte[256];
        for (int i = 0; i < everyByte.length; i++) {
            everyByte[i] = (byte) i;
        }
        byte[] bytesKey = SafeEncoder.encode(key("bytes"));
        r.set(bytesKey, everyByte);
        expect(Arrays.equals(r.get(bytesKey), everyByte), true);
    }

    private void hashes() {
        r.del(key("ada"));
        expect(r.hset(key("ada"), Map.of("name", "Ada", "born", "1814", "height", "1.5")), 3L);
        expect(r.hincrBy(key("ada"), "born", 1), 1815L);
        expect(r.hincrByFloat(key("ada"), "height", 0.25), 1.75);
        expect(r.hgetAll(key("ada")), Map.of("name", "Ada", "born", "1815", "height", "1.75"));
        expect(r.hmget(key("ada"), "name", "died"), Arrays.asList("Ada", null));
        expect(r.hexists(key("ada"), "died"), false);
        expect(r.hdel(key("ada"), "height", "died"), 1L);
        expect(r.hkeys(key("ada")), Set.of("born", "name"));
        expect(r.hgetAll(key("nobody")), Map.of());
    }

    private void lists() {
        r.del(key("queue"), key("done"));
        expect(r.rpush(key("queue"), "b", "c", "d"), 3L);
        expect(r.lpush(key("queue"), "a"), 4L);
        expect(r.lrange(key("queue"), 0, -1), List.of("a", "b", "c", "d"));
        expect(r.linsert(key("queue"), ListPosition.BEFORE, "c", "b2"), 5L);
        expect(r.lindex(key("queue"), 2), "b2");
        expect(r.lmove(key("queue"), key("done"), ListDirection.LEFT, ListDirection.RIGHT), "a");
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
        Map<String, Double> people =
                Map.of("ada", 1.5, "grace", 2.0, "alan", -3.25, "edsger", Double.POSITIVE_INFINITY);
        expect(r.zadd(key("scores"), people), 4L);
        expect(r.zscore(key("scores"), "ada"), 1.5);
        expect(r.zscore(key("scores"), "nobody"), null);
        expect(r.zincrby(key("scores"), 1, "ada"), 2.5);
        expect(
                r.zrangeWithScores(key("scores"), 0, -1),
                List.of(
                        new Tuple("alan", -3.25),
                        new Tuple("grace", 2.0),
                        new Tuple("ada", 2.5),
                        new Tuple("edsger", Double.POSITIVE_INFINITY)));
        expect(r.zrange(key("scores"), ZRangeParams.zrangeByScoreParams(3, 2).rev()), List.of("ada", "grace"));
        expect(r.zrank(key("scores"), "ada"), 2L);
        expect(r.zmscore(key("scores"), "alan", "nobody"), Arrays.asList(-3.25, null));
        expect(r.zpopmin(key("scores")), new Tuple("alan", -3.25));
        expect(r.zcount(key("scores"), "2", "(2.5"), 1L);
    }

    private void pipeline() {
        List<Response<String>> replies = new ArrayList<>();
        try (AbstractPipeline batch = r.pipelined()) {
            for (int number = 0; number < 500; number++) {
                replies.add(batch.set(key("pipelined:" + number), String.valueOf(number)));
                replies.add(batch.get(key("pipelined:" + number)));
            }
            batch.sync();
        }
        for (int number = 0; number < 500; number++) {
            expect(replies.get(2 * number).get(), "OK");
            expect(replies.get(2 * number + 1).get(), String.valueOf(number));
        }
    }

    /** Four connections count to 100 together: who reads, then writes, must be told of the others' writes. */
    private void transaction() throws Exception {
        r.set(key("counter"), "0");
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try {
            Callable<Void> countTo25 = () -> {
                for (int times = 0; times < 25; times++) {
                    increment();
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

    private void increment() {
        while (true) {
            try (AbstractTransaction attempt = r.transaction(false)) {
                attempt.watch(key("counter"));
                // Nobody writes in between, or EXEC answers null.
                String next = String.valueOf(Long.parseLong(r.get(key("counter"))) + 1);
                attempt.multi();
                attempt.set(key("counter"), next);
                attempt.strlen(key("counter"));
                List<Object> replies = attempt.exec();
                if (replies != null) {
                    expect(replies, List.of("OK", (long) next.length()));
                    return;
                }
            }
        }
    }

    private void pubSub() throws Exception {
        String news = key("news");
        String sport = key("news.sport");
        String pattern = key("news.*");
        BlockingQueue<List<Object>> received = new LinkedBlockingQueue<>();
        JedisPubSub subscriber = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                received.add(List.of("subscribe", channel, count));
            }

            @Override
            public void onPSubscribe(String pattern, int count) {
                received.add(List.of("psubscribe", pattern, count));
            }

            @Override
            public void onMessage(String channel, String message) {
                received.add(List.of("message", channel, message));
            }

            @Override
            public void onPMessage(String pattern, String channel, String message) {
                received.add(List.of("pmessage", pattern, channel, message));
            }

            @Override
            public void onUnsubscribe(String channel, int count) {
                received.add(List.of("unsubscribe", channel, count));
            }

            @Override
            public void onPUnsubscribe(String pattern, int count) {
                received.add(List.of("punsubscribe", pattern, count));
            }
        };
        // The call returns when the last subscription is gone.
        Thread thread = new Thread(() -> r.subscribe(subscriber, news));
        thread.setDaemon(true);
        thread.start();
        expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("subscribe", news, 1));
        subscriber.psubscribe(pattern);
        expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("psubscribe", pattern, 2));
        expect(r.publish(news, "hello"), 1L);
        expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("message", news, "hello"));
        expect(r.publish(sport, "1:0"), 1L);
        expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("pmessage", pattern, sport, "1:0"));
        subscriber.unsubscribe(news);
        expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("unsubscribe", news, 1));
        expect(r.publish(news, "nobody hears this"), 0L);
        subscriber.punsubscribe(pattern);
        expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("punsubscribe", pattern, 0));
        thread.join(TimeUnit.SECONDS.toMillis(LIMIT_SECS));
        expect(thread.isAlive(), false);
    }

    private void blocking() throws Exception {
        r.del(key("jobs"), key("nothing"));
        ExecutorService thread = Executors.newSingleThreadExecutor();
        try {
            Future<KeyValue<String, String>> waiter = thread.submit(() -> r.blpop((double) LIMIT_SECS, key("jobs")));
            waitUntil("a client is blocked", () -> !r.info("clients").contains("blocked_clients:0\r"));
            expect(r.rpush(key("jobs"), "wash up"), 1L);
            expect(waiter.get(), new KeyValue<>(key("jobs"), "wash up"));
        } finally {
            thread.shutdownNow();
        }
        long started = System.nanoTime();
        expect(r.blpop(0.1, key("nothing")), null);
        expect(System.nanoTime() - started >= TimeUnit.MILLISECONDS.toNanos(100), true);
    }

    private void scan() {
        Set<String> wanted = new HashSet<>();
        List<String> pairs = new ArrayList<>();
        for (int number = 0; number < 1000; number++) {
            wanted.add(key("scanned:" + number));
            pairs.addAll(List.of(key("scanned:" + number), "1"));
        }
        r.mset(pairs.toArray(String[]::new));
        Set<String> found = new HashSet<>();
        ScanParams names = new ScanParams().match(key("scanned:*")).count(100);
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> page = r.scan(cursor, names);
            found.addAll(page.getResult());
            cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        expect(found.equals(wanted), true);

        Map<String, String> fields = new HashMap<>();
        IntStream.range(0, 1000).forEach(number -> fields.put("field:" + number, String.valueOf(number)));
        r.hset(key("many"), fields);
        Map<String, String> scanned = new HashMap<>();
        do {
            ScanResult<Map.Entry<String, String>> page = r.hscan(key("many"), cursor, new ScanParams().count(100));
            page.getResult().forEach(field -> scanned.put(field.getKey(), field.getValue()));
            cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        expect(scanned.equals(fields), true);
    }

    private void errors() throws Exception {
        r.set(key("text"), "not a number");
        expectError("WRONGTYPE", () -> r.lpush(key("text"), "x"));
        expectError("ERR value is not an integer", () -> r.incr(key("text")));
        expectError("ERR unknown command", () -> r.sendCommand(() -> SafeEncoder.encode("NO-SUCH-COMMAND")));
        try (AbstractPipeline batch = r.pipelined()) {
            Response<Long> refused = batch.lpush(key("text"), "x");
            Response<String> answered = batch.get(key("text"));
            batch.sync();
            expectError("WRONGTYPE", refused::get);
            expect(answered.get(), "not a number");
        }
    }

    /** A cluster without a leader may take longer than the client does; an answer must be the right one. */
    private static void persistently(Callable<String> ask, String wanted) throws Exception {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(2 * LIMIT_SECS);
        while (true) {
            try {
                expect(ask.call(), wanted);
                return;
            } catch (JedisException trouble) {
                if (System.nanoTime() > until) {
                    throw trouble;
                }
                Thread.sleep(50);
            }
        }
    }

    /** Ends the node that leads most keys, at once. */
    private static void kill(List<Integer> leaders) {
        Map<Integer, Long> led = leaders.stream().collect(Collectors.groupingBy(Function.identity(), Collectors.counting()));
        expect(led.size() > 1, true);
        int victim = Collections.max(led.entrySet(), Map.Entry.comparingByValue()).getKey();
        for (String pair : System.getenv("PIDS").split(",")) {
            String[] parts = pair.split(":");
            if (Integer.parseInt(parts[0]) == victim) {
                expect(ProcessHandle.of(Long.parseLong(parts[1])).orElseThrow().destroyForcibly(), true);
            }
        }
    }

    /** The node that leads most keys is killed: every key that was written is there, and can be written again. */
    private void failover() throws Exception {
        RedisProtocol protocol = version == 3 ? RedisProtocol.RESP3 : RedisProtocol.RESP2;
        try (RedisClusterClient all = RedisClusterClient.builder()
                .nodes(Set.of(new HostAndPort(HOST, CLUSTER_PORT)))
                .clientConfig(DefaultJedisClientConfig.builder().protocol(protocol).build())
                .build()) {
            List<String> names = IntStream.range(0, 200).mapToObj(number -> key("failover:" + number)).toList();
            for (String name : names) {
                expect(all.set(name, "before"), "OK");
            }
            // Jedis does not say where it goes with a key: the server does.
            Map<Integer, Integer> ports = new HashMap<>();
            try (Connection asked = all.getClusterNodes().values().iterator().next().getResource()) {
                asked.sendCommand(Protocol.Command.CLUSTER, "SLOTS");
                for (Object range : asked.getObjectMultiBulkReply()) {
                    List<?> parts = (List<?>) range;
                    int port = ((Long) ((List<?>) parts.get(2)).get(1)).intValue();
                    int last = ((Long) parts.get(1)).intValue();
                    for (int slot = ((Long) parts.get(0)).intValue(); slot <= last; slot++) {
                        ports.put(slot, port);
                    }
                }
            }
            kill(names.stream().map(name -> ports.get(JedisClusterCRC16.getSlot(name))).toList());
            for (String name : names) {
                persistently(() -> all.get(name), "before");
            }
            for (String name : names) {
                persistently(() -> all.set(name, "after"), "OK");
            }
            for (String name : names) {
                persistently(() -> all.get(name), "after");
            }
        }
    }

    private void cluster() throws Exception {
        RedisProtocol protocol = version == 3 ? RedisProtocol.RESP3 : RedisProtocol.RESP2;
        try (RedisClusterClient all = RedisClusterClient.builder()
                .nodes(Set.of(new HostAndPort(HOST, CLUSTER_PORT)))
                .clientConfig(DefaultJedisClientConfig.builder().protocol(protocol).build())
                .build()) {
            expect(all.getClusterNodes().keySet(),
                    Arrays.stream(CLUSTER_PORTS).map(port -> HOST + ":" + port).collect(Collectors.toSet()));
            List<String> names = IntStream.range(0, 300).mapToObj(number -> key("spread:" + number)).toList();
            List<String> values = IntStream.range(0, 300).mapToObj(String::valueOf).toList();
            for (int at = 0; at < names.size(); at++) {
                expect(all.set(names.get(at), values.get(at)), "OK");
                expect(all.get(names.get(at)), values.get(at));
            }
            // What was written there is read at the front door.
            expect(r.mget(names.toArray(String[]::new)), values);

            List<Response<Long>> replies = new ArrayList<>();
            try (AbstractPipeline batch = all.pipelined()) {
                names.forEach(name -> replies.add(batch.incr(name)));
                batch.sync();
            }
            for (int number = 0; number < 300; number++) {
                expect(replies.get(number).get(), number + 1L);
            }

            // Jedis has no transactions with a cluster.
            String[] tagged = {key("{tagged}:1"), key("{tagged}:2")};
            expect(all.mset(tagged[0], "one", tagged[1], "two"), "OK");
            expect(all.mget(tagged), List.of("one", "two"));
            expect(all.del(tagged), 2L);

            String channel = key("shard");
            BlockingQueue<List<Object>> received = new LinkedBlockingQueue<>();
            JedisShardedPubSub subscriber = new JedisShardedPubSub() {
                @Override
                public void onSSubscribe(String channel, int count) {
                    received.add(List.of("ssubscribe", channel, count));
                }

                @Override
                public void onSMessage(String channel, String message) {
                    received.add(List.of("smessage", channel, message));
                    sunsubscribe();
                }
            };
            // The call returns when the last subscription is gone.
            Thread thread = new Thread(() -> all.ssubscribe(subscriber, channel));
            thread.setDaemon(true);
            thread.start();
            expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("ssubscribe", channel, 1));
            expect(all.spublish(channel, "hello"), 1L);
            expect(received.poll(LIMIT_SECS, TimeUnit.SECONDS), List.of("smessage", channel, "hello"));
            thread.join(TimeUnit.SECONDS.toMillis(LIMIT_SECS));
            expect(thread.isAlive(), false);
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
            client.r.close();
        }
        if (failed > 0) {
            System.err.printf("jedis: %d of %d sections failed%n", failed, 2 * sections.size());
            System.exit(1);
        }
    }
}

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** Uses a server through Curator's recipes. Arguments: host:port. Exit status 0: all checks passed. */
public final class CuratorProgram {
    private static final int DEADLINE_SECONDS = 20;

    private final String server;
    private final CuratorFramework one;
    private final CuratorFramework two;
    private final ExecutorService pool = Executors.newCachedThreadPool();

    private CuratorProgram(String server) throws Exception {
        this.server = server;
        this.one = client(server);
        this.two = client(server);
    }

    public static void main(String[] args) throws Exception {
        CuratorProgram p = new CuratorProgram(args[0]);
        Checks.run("framework", p::framework);
        Checks.run("background", p::background);
        Checks.run("transactions", p::transactions);
        Checks.run("InterProcessMutex", p::mutex);
        Checks.run("InterProcessReadWriteLock", p::readWriteLock);
        Checks.run("InterProcessSemaphoreV2", p::semaphore);
        Checks.run("LeaderLatch", p::leaderLatch);
        Checks.run("LeaderSelector", p::leaderSelector);
        Checks.run("CuratorCache", p::curatorCache);
        Checks.run("PathChildrenCache", p::pathChildrenCache);
        Checks.run("TreeCache", p::treeCache);
        Checks.run("PersistentWatcher", p::persistentWatcher);
        Checks.run("DistributedQueue", p::queue);
        Checks.run("SimpleDistributedQueue", p::simpleQueue);
        Checks.run("barriers", p::barriers);
        Checks.run("DistributedAtomicLong", p::atomicLong);
        Checks.run("SharedCount", p::sharedCount);
        Checks.run("PersistentNode", p::persistentNode);
        Checks.run("GroupMember", p::groupMember);
        Checks.run("lock survives a cut connection", p::cutConnection);
        p.one.close();
        p.two.close();
        p.pool.shutdownNow();
        Checks.finish();
    }

    private static CuratorFramework client(String hosts) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.builder().connectString(hosts).sessionTimeoutMs(10000)
            .connectionTimeoutMs(10000).retryPolicy(new ExponentialBackoffRetry(100, 5)).build();
        c.start();
        Checks.that("connected", c.blockUntilConnected(DEADLINE_SECONDS, TimeUnit.SECONDS));
        return c;
    }

    private static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] b) {
        return new String(b, StandardCharsets.UTF_8);
    }

    private void framework() throws Exception {
        Checks.equal("parents", "/f/a/b", one.create().creatingParentsIfNeeded().forPath("/f/a/b", bytes("x")));
        Checks.equal("container parents", "/fc/a", one.create().creatingParentContainersIfNeeded().forPath("/fc/a", bytes("x")));
        Stat stat = new Stat();
        two.sync().forPath("/"); // here and below: it may be at a server that lags
        Checks.equal("get", "x", text(two.getData().storingStatIn(stat).forPath("/f/a/b")));
        Checks.equal("set", 1, two.setData().withVersion(0).forPath("/f/a/b", bytes("y")).getVersion());
        String protectedPath = one.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/f/p-", bytes("x"));
        Checks.that("protected name " + protectedPath, protectedPath.startsWith("/f/_c_") && protectedPath.endsWith("-p-0000000001"));
        Checks.equal("or set", "/f/a/b", one.create().orSetData().forPath("/f/a/b", bytes("z")));
        Checks.equal("ttl", "/f/ttl", one.create().withTtl(100000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/f/ttl", bytes("x")));
        Checks.fails(KeeperException.Code.NOTEMPTY, () -> one.delete().forPath("/f"));
        one.delete().deletingChildrenIfNeeded().forPath("/f");
        two.sync().forPath("/");
        Checks.equal("gone", null, two.checkExists().forPath("/f"));
        CuratorFramework ns = one.usingNamespace("space");
        ns.create().forPath("/in", bytes("x"));
        two.sync().forPath("/");
        Checks.that("namespace", two.checkExists().forPath("/space/in") != null);
        one.sync().forPath("/");
    }

    private void background() throws Exception {
        CompletableFuture<Integer> rc = new CompletableFuture<>();
        one.create().inBackground((c, e) -> rc.complete(e.getResultCode())).forPath("/bg", bytes("x"));
        Checks.equal("create", 0, rc.get(DEADLINE_SECONDS, TimeUnit.SECONDS));
        CompletableFuture<List<String>> kids = new CompletableFuture<>();
        one.getChildren().inBackground((c, e) -> kids.complete(e.getChildren())).forPath("/");
        Checks.that("children", kids.get(DEADLINE_SECONDS, TimeUnit.SECONDS).contains("bg"));
    }

    private void transactions() throws Exception {
        List<CuratorTransactionResult> results = one.transaction().forOperations(
            one.transactionOp().create().forPath("/tx", bytes("x")),
            one.transactionOp().create().withMode(CreateMode.EPHEMERAL).forPath("/tx/e", bytes("x")),
            one.transactionOp().setData().withVersion(0).forPath("/tx", bytes("y")),
            one.transactionOp().check().withVersion(1).forPath("/tx"),
            one.transactionOp().delete().forPath("/tx/e"));
        Checks.equal("results", 5, results.size());
        Checks.equal("set", 1, results.get(2).getResultStat().getVersion());
        Checks.fails(KeeperException.Code.NODEEXISTS, () -> one.transaction().forOperations(
            one.transactionOp().create().forPath("/tx/a", bytes("x")), one.transactionOp().create().forPath("/tx", bytes("x"))));
        Checks.equal("nothing left", null, one.checkExists().forPath("/tx/a"));
    }

    private void mutex() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        AtomicInteger entries = new AtomicInteger();
        List<Future<?>> workers = new ArrayList<>();
        for (CuratorFramework c : Arrays.asList(one, two, one, two)) {
            workers.add(pool.submit(() -> {
                InterProcessMutex m = new InterProcessMutex(c, "/mutex");
                for (int i = 0; i < 10; i++) {
                    m.acquire();
                    most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                    entries.incrementAndGet();
                    inside.decrementAndGet();
                    m.release();
                }
                return null;
            }));
        }
        for (Future<?> w : workers) {
            w.get(2 * DEADLINE_SECONDS, TimeUnit.SECONDS);
        }
        Checks.equal("entries", 40, entries.get());
        Checks.equal("at once", 1, most.get());
        InterProcessMutex held = new InterProcessMutex(one, "/mutex");
        held.acquire();
        Checks.that("refused while held", !new InterProcessMutex(two, "/mutex").acquire(100, TimeUnit.MILLISECONDS));
        held.release();
    }

    private void readWriteLock() throws Exception {
        InterProcessReadWriteLock a = new InterProcessReadWriteLock(one, "/rw");
        InterProcessReadWriteLock b = new InterProcessReadWriteLock(two, "/rw");
        a.readLock().acquire();
        Checks.that("two readers", b.readLock().acquire(DEADLINE_SECONDS, TimeUnit.SECONDS));
        Checks.that("no writer", !pool.submit(() -> new InterProcessReadWriteLock(two, "/rw").writeLock().acquire(100, TimeUnit.MILLISECONDS)).get());
        a.readLock().release();
        b.readLock().release();
        Checks.that("writer", b.writeLock().acquire(DEADLINE_SECONDS, TimeUnit.SECONDS));
        b.writeLock().release();
    }

    private void semaphore() throws Exception {
        InterProcessSemaphoreV2 s = new InterProcessSemaphoreV2(one, "/sem", 2);
        Lease first = s.acquire();
        Lease second = new InterProcessSemaphoreV2(two, "/sem", 2).acquire();
        Checks.equal("third", null, s.acquire(100, TimeUnit.MILLISECONDS));
        s.returnLease(first);
        Lease third = s.acquire(DEADLINE_SECONDS, TimeUnit.SECONDS);
        Checks.that("after return", third != null);
        s.returnLease(second);
        s.returnLease(third);
    }

    private void leaderLatch() throws Exception {
        LeaderLatch a = new LeaderLatch(one, "/latch", "a");
        LeaderLatch b = new LeaderLatch(two, "/latch", "b");
        a.start();
        Checks.that("a leads", a.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
        b.start();
        Checks.that("b does not", !b.hasLeadership());
        a.close();
        Checks.that("b follows", b.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
        Checks.equal("leader", "b", b.getLeader().getId());
        b.close();
    }

    private void leaderSelector() throws Exception {
        CountDownLatch turns = new CountDownLatch(4);
        List<LeaderSelector> selectors = new ArrayList<>();
        for (CuratorFramework c : Arrays.asList(one, two)) {
            LeaderSelector s = new LeaderSelector(c, "/selector", new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) {
                    turns.countDown();
                }
            });
            s.autoRequeue();
            s.start();
            selectors.add(s);
        }
        Checks.that("turns", turns.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
        selectors.forEach(LeaderSelector::close);
    }

    private static void expect(LinkedBlockingQueue<String> events, String... want) throws Exception {
        List<String> got = new ArrayList<>();
        while (got.size() < want.length) {
            String e = events.poll(DEADLINE_SECONDS, TimeUnit.SECONDS);
            if (e == null) {
                break;
            }
            got.add(e);
        }
        Checks.equal("events", Arrays.asList(want), got);
    }

    private void curatorCache() throws Exception {
        LinkedBlockingQueue<String> events = new LinkedBlockingQueue<>();
        one.create().forPath("/cache", bytes("0"));
        try (CuratorCache cache = CuratorCache.build(one, "/cache")) {
            cache.listenable().addListener(CuratorCacheListener.builder()
                .forCreates(n -> events.add("created " + n.getPath()))
                .forChanges((o, n) -> events.add("changed " + n.getPath() + " " + text(n.getData())))
                .forDeletes(n -> events.add("deleted " + n.getPath()))
                .forInitialized(() -> events.add("initialized")).build());
            cache.start();
            expect(events, "created /cache", "initialized");
            two.create().forPath("/cache/a", bytes("1"));
            expect(events, "created /cache/a");
            two.setData().forPath("/cache/a", bytes("2"));
            expect(events, "changed /cache/a 2");
            two.delete().forPath("/cache/a");
            expect(events, "deleted /cache/a");
        }
    }

    @SuppressWarnings("deprecation")
    private void pathChildrenCache() throws Exception {
        LinkedBlockingQueue<String> events = new LinkedBlockingQueue<>();
        one.create().forPath("/pcc", bytes("0"));
        try (org.apache.curator.framework.recipes.cache.PathChildrenCache cache =
                new org.apache.curator.framework.recipes.cache.PathChildrenCache(one, "/pcc", true)) {
            cache.getListenable().addListener((c, e) -> {
                if (e.getData() != null) {
                    events.add(e.getType() + " " + e.getData().getPath());
                }
            });
            cache.start(org.apache.curator.framework.recipes.cache.PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
            two.create().forPath("/pcc/a", bytes("1"));
            expect(events, "CHILD_ADDED /pcc/a");
            two.setData().forPath("/pcc/a", bytes("2"));
            expect(events, "CHILD_UPDATED /pcc/a");
            two.delete().forPath("/pcc/a");
            expect(events, "CHILD_REMOVED /pcc/a");
        }
    }

    @SuppressWarnings("deprecation")
    private void treeCache() throws Exception {
        LinkedBlockingQueue<String> events = new LinkedBlockingQueue<>();
        one.create().forPath("/tree", bytes("0"));
        try (org.apache.curator.framework.recipes.cache.TreeCache cache =
                org.apache.curator.framework.recipes.cache.TreeCache.newBuilder(one, "/tree").build()) {
            cache.getListenable().addListener((c, e) -> events.add(e.getType() + (e.getData() == null ? "" : " " + e.getData().getPath())));
            cache.start();
            expect(events, "NODE_ADDED /tree", "INITIALIZED");
            two.create().creatingParentsIfNeeded().forPath("/tree/a/b", bytes("1"));
            expect(events, "NODE_ADDED /tree/a", "NODE_ADDED /tree/a/b");
            two.delete().deletingChildrenIfNeeded().forPath("/tree/a");
            expect(events, "NODE_REMOVED /tree/a/b", "NODE_REMOVED /tree/a");
        }
    }

    private void persistentWatcher() throws Exception {
        LinkedBlockingQueue<String> events = new LinkedBlockingQueue<>();
        try (PersistentWatcher w = new PersistentWatcher(one, "/pwatch", true)) {
            CountDownLatch set = new CountDownLatch(1);
            w.getResetListenable().addListener(set::countDown);
            w.getListenable().addListener(e -> {
                if (e.getPath() != null) {
                    events.add(e.getType() + " " + e.getPath());
                }
            });
            w.start();
            Checks.that("watch is set", set.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
            two.create().creatingParentsIfNeeded().forPath("/pwatch/a", bytes("1"));
            expect(events, "NodeCreated /pwatch", "NodeCreated /pwatch/a");
        }
    }

    private static final QueueSerializer<String> STRINGS = new QueueSerializer<String>() {
        @Override
        public byte[] serialize(String s) {
            return bytes(s);
        }

        @Override
        public String deserialize(byte[] b) {
            return text(b);
        }
    };

    private void queue() throws Exception {
        LinkedBlockingQueue<String> got = new LinkedBlockingQueue<>();
        QueueConsumer<String> consumer = new QueueConsumer<String>() {
            @Override
            public void consumeMessage(String message) {
                got.add(message);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
        try (DistributedQueue<String> in = QueueBuilder.builder(one, null, STRINGS, "/queue").buildQueue();
                DistributedQueue<String> out = QueueBuilder.builder(two, consumer, STRINGS, "/queue").buildQueue()) {
            in.start();
            out.start();
            List<String> want = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                in.put("m" + i);
                want.add("m" + i);
            }
            List<String> have = new ArrayList<>();
            while (have.size() < want.size()) {
                String m = got.poll(DEADLINE_SECONDS, TimeUnit.SECONDS);
                if (m == null) {
                    break;
                }
                have.add(m);
            }
            Collections.sort(have);
            Collections.sort(want);
            Checks.equal("messages", want, have);
        }
    }

    private void simpleQueue() throws Exception {
        SimpleDistributedQueue in = new SimpleDistributedQueue(one, "/simple");
        SimpleDistributedQueue out = new SimpleDistributedQueue(two, "/simple");
        in.offer(bytes("a"));
        in.offer(bytes("b"));
        Checks.equal("peek", "a", text(out.peek()));
        Checks.equal("first", "a", text(out.take()));
        Checks.equal("second", "b", text(out.poll(DEADLINE_SECONDS, TimeUnit.SECONDS)));
        Checks.equal("empty", null, out.poll(50, TimeUnit.MILLISECONDS));
    }

    private void barriers() throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(one, "/barrier");
        barrier.setBarrier();
        Future<Boolean> waiter = pool.submit(() -> new DistributedBarrier(two, "/barrier").waitOnBarrier(DEADLINE_SECONDS, TimeUnit.SECONDS));
        barrier.removeBarrier();
        Checks.that("passed", waiter.get(DEADLINE_SECONDS, TimeUnit.SECONDS));
        List<Future<Boolean>> members = new ArrayList<>();
        for (CuratorFramework c : Arrays.asList(one, two)) {
            members.add(pool.submit(() -> {
                DistributedDoubleBarrier d = new DistributedDoubleBarrier(c, "/double", 2);
                return d.enter(DEADLINE_SECONDS, TimeUnit.SECONDS) && d.leave(DEADLINE_SECONDS, TimeUnit.SECONDS);
            }));
        }
        for (Future<Boolean> m : members) {
            Checks.that("double barrier", m.get(2 * DEADLINE_SECONDS, TimeUnit.SECONDS));
        }
    }

    private void atomicLong() throws Exception {
        List<Future<?>> workers = new ArrayList<>();
        AtomicInteger refused = new AtomicInteger();
        for (CuratorFramework c : Arrays.asList(one, two)) {
            workers.add(pool.submit(() -> {
                DistributedAtomicLong n = new DistributedAtomicLong(c, "/atomic", new RetryNTimes(1000, 1));
                for (int i = 0; i < 25; i++) {
                    AtomicValue<Long> v = n.increment();
                    if (!v.succeeded()) {
                        refused.incrementAndGet();
                    }
                }
                return null;
            }));
        }
        for (Future<?> w : workers) {
            w.get(2 * DEADLINE_SECONDS, TimeUnit.SECONDS);
        }
        Checks.equal("refused", 0, refused.get());
        one.sync().forPath("/");
        Checks.equal("sum", 50L, new DistributedAtomicLong(one, "/atomic", new RetryNTimes(10, 10)).get().postValue());
    }

    private void sharedCount() throws Exception {
        try (SharedCount a = new SharedCount(one, "/count", 5); SharedCount b = new SharedCount(two, "/count", 5)) {
            a.start();
            b.start();
            VersionedValue<Integer> stale = b.getVersionedValue();
            Checks.that("set", a.trySetCount(a.getVersionedValue(), 6));
            Checks.that("stale set", !b.trySetCount(stale, 7));
            Checks.equal("count", 6, a.getCount());
        }
    }

    private void persistentNode() throws Exception {
        try (PersistentNode node = new PersistentNode(one, CreateMode.EPHEMERAL, false, "/pnode", bytes("x"))) {
            node.start();
            Checks.that("created", node.waitForInitialCreate(DEADLINE_SECONDS, TimeUnit.SECONDS));
            CountDownLatch again = new CountDownLatch(1);
            node.getListenable().addListener(path -> again.countDown());
            two.delete().forPath("/pnode");
            Checks.that("created again", again.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
        }
        try (PersistentTtlNode node = new PersistentTtlNode(one, "/pttl", 10000, bytes("x"))) {
            node.start();
            Checks.that("ttl node", node.waitForInitialCreate(DEADLINE_SECONDS, TimeUnit.SECONDS));
        }
    }

    private void groupMember() throws Exception {
        try (GroupMember a = new GroupMember(one, "/group", "a"); GroupMember b = new GroupMember(two, "/group", "b")) {
            a.start();
            b.start();
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_SECONDS);
            while (a.getCurrentMembers().size() < 2 && System.nanoTime() < end) {
                Thread.onSpinWait();
            }
            Checks.equal("members", 2, a.getCurrentMembers().size());
        }
    }

    private void cutConnection() throws Exception {
        try (Relay relay = new Relay(server); CuratorFramework c = client(relay.address())) {
            LinkedBlockingQueue<String> states = new LinkedBlockingQueue<>();
            c.getConnectionStateListenable().addListener((f, s) -> {
                if (s != ConnectionState.CONNECTED) {
                    states.add(s.toString());
                }
            });
            InterProcessMutex m = new InterProcessMutex(c, "/cut");
            m.acquire();
            relay.block();
            expect(states, "SUSPENDED");
            relay.unblock();
            expect(states, "RECONNECTED");
            Checks.that("still held", !new InterProcessMutex(two, "/cut").acquire(100, TimeUnit.MILLISECONDS));
            m.release();
            Checks.that("free", new InterProcessMutex(two, "/cut").acquire(DEADLINE_SECONDS, TimeUnit.SECONDS));
        }
    }
}

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.RetryPolicy;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * Uses Curator's recipes while somebody else kills and restarts servers, never more than a minority of
 * them, or replaces all of them by others with the same data. Arguments: a connect string, and how many
 * seconds to go on; or "-", to go on until the standard input ends, and have elections as well. Exit
 * status 0: all invariants held.
 *
 * <p>A lost connection is no fault, and neither is a write whose outcome is unknown. What must hold: no
 * session ends, because the ensemble is never gone for as long as a session's time-out; so ephemeral nodes
 * stay, a lock has one holder, and under it no increment is lost or done twice; an element of a queue is
 * taken once, and none gets lost; a client never reads an older state than it has read before; a cache
 * ends up with what is in the tree.
 */
public final class FaultsProgram {
    static final int CLIENTS = 4;
    private static final int CACHED = 10;

    private final int sessionMs;
    private final long end;
    private volatile boolean stopped;
    private final List<CuratorFramework> clients = new ArrayList<>();
    // It tries each operation a single time: what is offered again after a lost reply may be taken twice.
    private final CuratorFramework once;
    private final ExecutorService pool = Executors.newCachedThreadPool();
    private final List<Future<?>> work = new ArrayList<>();
    private final Set<String> lost = Collections.synchronizedSet(new HashSet<>());
    private final Map<Integer, Long> sessions = new HashMap<>();

    private CuratorCache cache;
    private final AtomicInteger inside = new AtomicInteger();
    private final Counter counter = new Counter("/faults/counter");
    private final AtomicInteger added = new AtomicInteger();
    private final AtomicInteger reads = new AtomicInteger();
    private final Set<String> maybeOffered = Collections.synchronizedSet(new HashSet<>());
    private final Set<String> offered = Collections.synchronizedSet(new HashSet<>());
    private final List<String> taken = Collections.synchronizedList(new ArrayList<>());
    private final Set<String> maybeTaken = Collections.synchronizedSet(new HashSet<>());
    private final List<String> broken = Collections.synchronizedList(new ArrayList<>());

    private FaultsProgram(String servers, int sessionMs, int seconds) throws Exception {
        this.sessionMs = sessionMs;
        for (int i = 0; i < CLIENTS; i++) {
            clients.add(client(servers, new RetryNTimes(200, 100), "client " + i));
        }
        once = client(servers, new RetryNTimes(0, 0), "queue client");
        end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
    }

    public static void main(String[] args) throws Exception {
        if (!args[1].equals("-")) {
            FaultsProgram p = new FaultsProgram(args[0], 15000, Integer.parseInt(args[1]));
            p.start();
            p.finish();
            Checks.finish();
        }
        FaultsProgram p = new FaultsProgram(args[0], 60000, Integer.MAX_VALUE);
        Elections elections = new Elections();
        p.start();
        p.make("/faults/latch-terms", new byte[0]);
        p.make("/faults/selector-terms", new byte[0]);
        elections.start(p.clients, p.pool);
        while (System.in.read() >= 0) {
            // It goes on.
        }
        Checks.run("elections: one leader, each candidate at times", () -> elections.check(p.first(), CLIENTS));
        p.stopped = true;
        p.finish();
        System.out.printf("%s; under the lock the longest pause was %s%n", elections, p.counter.longestPause());
        Checks.finish();
    }

    /** Waits for the end of the work, and checks what must hold. */
    private void finish() throws Exception {
        for (Future<?> f : work) {
            f.get();
        }
        Checks.run("no session ended", this::sessionsLive);
        Checks.run("ephemeral nodes stayed", this::ephemeralsStayed);
        Checks.run("lock: one holder, each increment once", this::lockHeld);
        Checks.run("atomic long: no increment lost", this::atomicLongHeld);
        Checks.run("queue: each element once", this::queueHeld);
        Checks.run("reads never went back", this::readsHeld);
        Checks.run("cache equals the tree", this::cacheHeld);
        for (CuratorFramework c : clients) {
            c.close();
        }
        once.close();
        pool.shutdownNow();
        System.out.printf("%d increments under the lock, %d of the atomic long, %d elements taken, %d unknown, %d reads%n",
            counter.done(), added.get(), taken.size(), maybeTaken.size(), reads.get());
    }

    private CuratorFramework client(String servers, RetryPolicy retry, String name) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.builder().connectString(servers).sessionTimeoutMs(sessionMs)
            .connectionTimeoutMs(sessionMs).retryPolicy(retry).build();
        c.getConnectionStateListenable().addListener((client, state) -> {
            if (state == ConnectionState.LOST) {
                lost.add(name);
            }
        });
        c.start();
        Checks.that("connected", c.blockUntilConnected(sessionMs, TimeUnit.MILLISECONDS));
        return c;
    }

    private CuratorFramework first() {
        return clients.get(0);
    }

    private boolean going() {
        return !stopped && System.nanoTime() < end;
    }

    private static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] b) {
        return new String(b, StandardCharsets.UTF_8);
    }

    private interface Step {
        void run() throws Exception;
    }

    /** Does a step until the time is over. What a step throws other than a lost connection is a fault. */
    private void repeat(String name, Step step) {
        work.add(pool.submit(() -> {
            while (going()) {
                try {
                    step.run();
                } catch (KeeperException.ConnectionLossException e) {
                    Thread.sleep(50);
                } catch (Exception e) {
                    broken.add(name + ": " + e);
                    return null;
                }
            }
            return null;
        }));
    }

    /** Creates a node unless an attempt before has done so. */
    private void make(String path, byte[] data) throws Exception {
        try {
            first().create().creatingParentsIfNeeded().forPath(path, data);
        } catch (KeeperException.NodeExistsException e) {
            // An attempt whose reply was lost.
        }
    }

    private void start() throws Exception {
        make("/faults/counter", bytes("-"));
        make("/faults/queue", new byte[0]);
        for (int i = 0; i < CACHED; i++) {
            make("/faults/tree/" + i, bytes("0"));
        }
        cache = CuratorCache.build(clients.get(1), "/faults/tree");
        cache.start();
        for (int i = 0; i < CLIENTS; i++) {
            CuratorFramework c = clients.get(i);
            int id = i;
            sessions.put(id, c.getZookeeperClient().getZooKeeper().getSessionId());
            try {
                c.create().creatingParentsIfNeeded().withMode(CreateMode.EPHEMERAL).forPath("/faults/eph/" + id);
            } catch (KeeperException.NodeExistsException e) {
                // An attempt whose reply was lost.
            }
            InterProcessMutex mutex = new InterProcessMutex(c, "/faults/lock");
            AtomicInteger turn = new AtomicInteger();
            repeat("lock", () -> underLock(c, mutex, id + "." + turn.incrementAndGet()));
            AtomicInteger seen = new AtomicInteger(-1);
            repeat("read", () -> read(c, seen));
        }
        for (int i = 0; i < 2; i++) {
            int id = i;
            DistributedAtomicLong number = new DistributedAtomicLong(clients.get(i), "/faults/long", new RetryNTimes(100, 10));
            repeat("atomic long", () -> {
                if (number.increment().succeeded()) {
                    added.incrementAndGet();
                }
            });
            AtomicInteger next = new AtomicInteger();
            repeat("offer", () -> {
                String element = id + "." + next.incrementAndGet();
                maybeOffered.add(element);
                once.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/faults/queue/n-", bytes(element));
                offered.add(element);
                Thread.sleep(2);
            });
            repeat("take", this::take);
            AtomicInteger value = new AtomicInteger();
            repeat("tree", () -> {
                int v = value.incrementAndGet();
                clients.get(2 + id).setData().forPath("/faults/tree/" + v % CACHED, bytes(id + "." + v));
                Thread.sleep(5);
            });
        }
    }

    /** Counts, and makes sure that it was this worker and no other. */
    private void underLock(CuratorFramework c, InterProcessMutex mutex, String mark) throws Exception {
        mutex.acquire();
        try {
            if (inside.incrementAndGet() != 1) {
                broken.add("lock: two holders");
            }
            String other = counter.add(c, mark);
            if (other != null) {
                broken.add("lock: " + other);
            }
        } finally {
            inside.decrementAndGet();
            mutex.release();
        }
    }

    /** Versions that one client sees never decrease, whichever servers it was connected to. */
    private void read(CuratorFramework c, AtomicInteger seen) throws Exception {
        Stat stat = new Stat();
        c.getData().storingStatIn(stat).forPath("/faults/counter");
        reads.incrementAndGet();
        if (stat.getVersion() < seen.get()) {
            broken.add("read: version " + stat.getVersion() + " after " + seen.get());
        }
        seen.set(stat.getVersion());
        Thread.sleep(5);
    }

    private void take() throws Exception {
        List<String> names = once.getChildren().forPath("/faults/queue");
        names.sort((a, b) -> a.substring(a.length() - 10).compareTo(b.substring(b.length() - 10)));
        for (String name : names.subList(0, Math.min(20, names.size()))) {
            String path = "/faults/queue/" + name;
            String element = null;
            try {
                element = text(once.getData().forPath(path));
                once.delete().forPath(path);
                taken.add(element);
            } catch (KeeperException.NoNodeException e) {
                // The other consumer was faster.
            } catch (KeeperException.ConnectionLossException e) {
                if (element != null) {
                    maybeTaken.add(element);
                }
                throw e;
            }
        }
        Thread.sleep(5);
    }

    private void sessionsLive() throws Exception {
        Checks.equal("lost", Collections.emptySet(), lost);
        for (int i = 0; i < CLIENTS; i++) {
            Checks.equal("session", sessions.get(i), clients.get(i).getZookeeperClient().getZooKeeper().getSessionId());
        }
        Checks.equal("unexpected errors and broken rules", Collections.emptyList(), broken);
    }

    private void ephemeralsStayed() throws Exception {
        first().sync().forPath("/faults/eph");
        for (int i = 0; i < CLIENTS; i++) {
            Stat stat = first().checkExists().forPath("/faults/eph/" + i);
            Checks.that("ephemeral " + i + " is there", stat != null);
            Checks.equal("owner", sessions.get(i), stat == null ? null : (Object) stat.getEphemeralOwner());
        }
    }

    private void lockHeld() throws Exception {
        counter.check(first());
        Checks.that("some increments", counter.done() > 20);
    }

    private void atomicLongHeld() throws Exception {
        first().sync().forPath("/faults/long");
        long value = new DistributedAtomicLong(first(), "/faults/long", new RetryNTimes(100, 10)).get().postValue();
        Checks.that("value " + value + " has all " + added.get() + " increments", value >= added.get());
        Checks.that("some increments", added.get() > 20);
    }

    private void queueHeld() throws Exception {
        first().sync().forPath("/faults/queue");
        Set<String> left = new HashSet<>();
        for (String name : first().getChildren().forPath("/faults/queue")) {
            Checks.that("an element is in the queue twice", left.add(text(first().getData().forPath("/faults/queue/" + name))));
        }
        Set<String> got = new HashSet<>();
        for (String element : taken) {
            Checks.that("taken twice: " + element, got.add(element));
            Checks.that("taken and still there: " + element, !left.contains(element));
            Checks.that("never offered: " + element, maybeOffered.contains(element));
        }
        for (String element : offered) {
            Checks.that("lost: " + element, got.contains(element) || left.contains(element) || maybeTaken.contains(element));
        }
        Checks.that("some elements", taken.size() > 20);
    }

    private void readsHeld() {
        Checks.equal("reads that went back", 0L, broken.stream().filter(b -> b.startsWith("read: version")).count());
        Checks.that("some reads", reads.get() > 20);
    }

    /** A cache that was there all the time, not one that has just read the tree. */
    private void cacheHeld() throws Exception {
        Map<String, String> tree = new HashMap<>();
        first().sync().forPath("/faults/tree");
        for (int i = 0; i < CACHED; i++) {
            tree.put("/faults/tree/" + i, text(first().getData().forPath("/faults/tree/" + i)));
        }
        Map<String, String> cached = new HashMap<>();
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(sessionMs);
        while (!tree.equals(cached) && System.nanoTime() < deadline) {
            cached.clear();
            for (String path : tree.keySet()) {
                cached.put(path, cache.get(path).map(ChildData::getData).map(FaultsProgram::text).orElse("missing"));
            }
            Thread.sleep(20);
        }
        Checks.equal("cache", tree, cached);
        cache.close();
    }
}

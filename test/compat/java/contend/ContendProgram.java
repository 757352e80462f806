import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;
import org.apache.zookeeper.recipes.queue.DistributedQueue;

/**
 * Takes part, with Curator's and Apache's recipes, in what programs in other languages do at the same paths. Arguments:
 * host:port, the number of rounds, and the names of the scenes to take part in, in order. What a scene is, the test that
 * starts this says.
 */
public final class ContendProgram {
    private static final String NAME = "java";
    private static final int DEADLINE_SECONDS = 60;

    private final CuratorFramework one;
    private final int rounds;
    private String scene;

    private ContendProgram(String server, int rounds) throws Exception {
        this.rounds = rounds;
        this.one = CuratorFrameworkFactory.builder().connectString(server).sessionTimeoutMs(10000)
            .connectionTimeoutMs(10000).retryPolicy(new ExponentialBackoffRetry(100, 5)).build();
        one.start();
        Checks.that("connected", one.blockUntilConnected(DEADLINE_SECONDS, TimeUnit.SECONDS));
    }

    public static void main(String[] args) throws Exception {
        ContendProgram p = new ContendProgram(args[0], Integer.parseInt(args[1]));
        for (String scene : Arrays.asList(args).subList(2, args.length)) {
            p.scene = scene;
            Checks.run(scene, p::play);
        }
        p.one.close();
        Checks.finish();
    }

    private String at(String name) {
        return "/contend/" + scene + "/" + name;
    }

    /** Meets the others at the beginning of the scene, and plays it. */
    private void play() throws Exception {
        one.create().forPath(at("here/" + NAME));
        int all = Integer.parseInt(text(one.getData().forPath(at("here"))));
        await("here", all);
        switch (scene) {
            case "curator-lock": locked(new InterProcessMutex(one, at("it"))); break;
            case "curator-write": locked(new InterProcessReadWriteLock(one, at("it")).writeLock()); break;
            case "curator-read-write": readAndWrite(); break;
            case "curator-semaphore": semaphore(); break;
            case "curator-latch": latch(); break;
            case "curator-selector": selector(); break;
            case "apache-lock": writeLock(); break;
            case "barrier": Checks.that("released", new DistributedBarrier(one, at("it")).waitOnBarrier(DEADLINE_SECONDS, TimeUnit.SECONDS)); break;
            case "double-barrier": doubleBarrier(all); break;
            case "curator-queue": simpleQueue(); break;
            case "apache-queue": apacheQueue(); break;
            case "curator-counter": counter(); break;
            case "curator-count": count(); break;
            default: Checks.that("a known scene", false);
        }
    }

    /** What must not be done by two at a time: it can't be done while another does, and loses what another does. */
    private void alone() throws Exception {
        one.create().forPath(at("inside"));
        int n = Integer.parseInt(text(one.getData().forPath(at("count"))));
        one.setData().forPath(at("count"), bytes(Integer.toString(n + 1)));
        one.delete().forPath(at("inside"));
    }

    private void locked(InterProcessLock lock) throws Exception {
        for (int i = 0; i < rounds; i++) {
            Checks.that("acquired", lock.acquire(DEADLINE_SECONDS, TimeUnit.SECONDS));
            alone();
            lock.release();
        }
    }

    /** Waits until a node has n children. */
    private void await(String name, int n) throws Exception {
        while (one.getChildren().forPath(at(name)).size() < n) {
            Thread.sleep(5);
        }
    }

    /** Readers read the same twice, as no writer is there between. */
    private void readAndWrite() throws Exception {
        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(one, at("it"));
        for (int i = 0; i < rounds; i++) {
            Checks.that("write acquired", lock.writeLock().acquire(DEADLINE_SECONDS, TimeUnit.SECONDS));
            alone();
            lock.writeLock().release();
            Checks.that("read acquired", lock.readLock().acquire(DEADLINE_SECONDS, TimeUnit.SECONDS));
            String before = text(one.getData().forPath(at("count")));
            Checks.equal("nobody writes", null, one.checkExists().forPath(at("inside")));
            Checks.equal("count", before, text(one.getData().forPath(at("count"))));
            lock.readLock().release();
        }
    }

    private void semaphore() throws Exception {
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(one, at("it"), 2);
        for (int i = 0; i < rounds; i++) {
            Lease lease = semaphore.acquire(DEADLINE_SECONDS, TimeUnit.SECONDS);
            Checks.that("acquired", lease != null);
            String path = one.create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(at("holders/h-"));
            Checks.that("at most two hold", one.getChildren().forPath(at("holders")).size() <= 2);
            one.delete().forPath(path);
            semaphore.returnLease(lease);
        }
    }

    private void latch() throws Exception {
        for (int i = 0; i < rounds; i++) {
            try (LeaderLatch latch = new LeaderLatch(one, at("it"), NAME)) {
                latch.start();
                Checks.that("leads", latch.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
                alone();
            }
        }
    }

    private void selector() throws Exception {
        CountDownLatch led = new CountDownLatch(rounds);
        LeaderSelector selector = new LeaderSelector(one, at("it"), new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) throws Exception {
                if (led.getCount() > 0) {
                    alone();
                }
                led.countDown();
                if (led.getCount() == 0) {
                    Thread.sleep(DEADLINE_SECONDS * 1000); // until close interrupts it
                }
            }
        });
        selector.autoRequeue();
        selector.start();
        Checks.that("led", led.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
        selector.close();
    }

    private void writeLock() throws Exception {
        ZooKeeper zk = one.getZookeeperClient().getZooKeeper();
        for (int i = 0; i < rounds; i++) {
            CountDownLatch acquired = new CountDownLatch(1);
            WriteLock lock = new WriteLock(zk, at("it"), ZooDefs.Ids.OPEN_ACL_UNSAFE, new LockListener() {
                @Override
                public void lockAcquired() {
                    acquired.countDown();
                }

                @Override
                public void lockReleased() {}
            });
            lock.lock();
            // When the node before goes between list and exists, WriteLock watches a node that will never be there
            // again and waits for ever. Asked again it looks again.
            while (!acquired.await(100, TimeUnit.MILLISECONDS)) {
                lock.lock();
            }
            alone();
            lock.unlock();
        }
    }

    private void doubleBarrier(int all) throws Exception {
        for (int i = 0; i < rounds; i++) {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(one, at("it-" + i), all);
            one.create().forPath(at("entering-" + i + "/" + NAME));
            Checks.that("entered", barrier.enter(DEADLINE_SECONDS, TimeUnit.SECONDS));
            Checks.equal("all were there", all, one.getChildren().forPath(at("entering-" + i)).size());
            one.create().forPath(at("entered-" + i + "/" + NAME));
            await("entered-" + i, all);
            one.create().forPath(at("leaving-" + i + "/" + NAME));
            Checks.that("left", barrier.leave(DEADLINE_SECONDS, TimeUnit.SECONDS));
            Checks.equal("all are leaving", all, one.getChildren().forPath(at("leaving-" + i)).size());
        }
    }

    /** Puts items into a queue and takes as many; what was taken is written down below "taken". */
    private void simpleQueue() throws Exception {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(one, at("it"));
        for (int i = 0; i < rounds; i++) {
            Checks.that("offered", queue.offer(bytes(NAME + "-" + i)));
        }
        for (int i = 0; i < rounds; i++) {
            taken(queue.poll(DEADLINE_SECONDS, TimeUnit.SECONDS));
        }
    }

    private void apacheQueue() throws Exception {
        DistributedQueue queue = new DistributedQueue(one.getZookeeperClient().getZooKeeper(), at("it"), ZooDefs.Ids.OPEN_ACL_UNSAFE);
        for (int i = 0; i < rounds; i++) {
            Checks.that("offered", queue.offer(bytes(NAME + "-" + i)));
        }
        for (int i = 0; i < rounds; i++) {
            taken(queue.take());
        }
    }

    private void taken(byte[] item) throws Exception {
        Checks.that("took an item", item != null);
        try {
            one.create().forPath(at("taken/" + text(item)));
        } catch (KeeperException.NodeExistsException e) {
            Checks.that(text(item) + " was taken once", false);
        }
    }

    private void counter() throws Exception {
        DistributedAtomicLong counter = new DistributedAtomicLong(one, at("it"), new ExponentialBackoffRetry(1, 29));
        List<Long> seen = new ArrayList<>();
        while (seen.size() < rounds) {
            var result = counter.increment();
            if (result.succeeded()) {
                seen.add(result.postValue());
            }
        }
        for (int i = 1; i < seen.size(); i++) {
            Checks.that("the count grows", seen.get(i - 1) < seen.get(i));
        }
    }

    private void count() throws Exception {
        try (SharedCount count = new SharedCount(one, at("it"), 0)) {
            count.start();
            for (int done = 0; done < rounds;) {
                VersionedValue<Integer> now = count.getVersionedValue();
                if (count.trySetCount(now, now.getValue() + 1)) {
                    done++;
                }
            }
        }
    }

    private static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] b) {
        return new String(b, StandardCharsets.UTF_8);
    }
}

import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** A znode whose version counts what is done by one worker at a time. Each increment says whose it is. */
final class Counter {
    private final String path;
    private final AtomicInteger tried = new AtomicInteger();
    private final AtomicInteger done = new AtomicInteger();
    private long last = System.nanoTime();
    private long longest;

    Counter(String path) {
        this.path = path;
    }

    /**
     * Adds one, and returns null; or says what another worker has done meanwhile. After an exception nobody
     * knows whether it was added.
     */
    String add(CuratorFramework c, String mark) throws Exception {
        tried.incrementAndGet();
        Stat before = new Stat();
        c.sync().forPath(path);
        c.getData().storingStatIn(before).forPath(path);
        String other = set(c, before.getVersion(), mark);
        if (other == null) {
            count();
        }
        return other;
    }

    private String set(CuratorFramework c, int version, String mark) throws Exception {
        while (true) {
            try {
                c.setData().withVersion(version).forPath(path, mark.getBytes(StandardCharsets.UTF_8));
                return null;
            } catch (KeeperException.BadVersionException | KeeperException.ConnectionLossException e) {
                // The attempt before this one may have been carried out without a reply.
                c.sync().forPath(path);
                Stat stat = new Stat();
                String now = new String(c.getData().storingStatIn(stat).forPath(path), StandardCharsets.UTF_8);
                if (now.equals(mark) && stat.getVersion() == version + 1) {
                    return null;
                }
                if (stat.getVersion() != version) {
                    return mark + " was alone with version " + version + ", but " + now + " made version " + stat.getVersion();
                }
            }
        }
    }

    private synchronized void count() {
        done.incrementAndGet();
        long now = System.nanoTime();
        longest = Math.max(longest, now - last);
        last = now;
    }

    int done() {
        return done.get();
    }

    /** The longest time between two increments. */
    synchronized String longestPause() {
        return TimeUnit.NANOSECONDS.toMillis(longest) + " ms";
    }

    /** Checks that the znode has each increment that is known, and none that nobody has tried. */
    void check(CuratorFramework c) throws Exception {
        int least = done.get();
        c.sync().forPath(path);
        int version = c.checkExists().forPath(path).getVersion();
        int most = tried.get();
        Checks.that("version " + version + " of " + path + ", after " + least + " increments of " + most + " tries",
            least <= version && version <= most);
    }
}

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/**
 * Writes at each of the servers that are its arguments, with a client of the Java library and one of Curator for each,
 * and says when a client loses its connection and when it writes again. What it prints, the test that starts this says.
 */
public final class OutliveProgram {
    private static final int SESSION_MS = 60_000;
    private static final Set<String> lost = new HashSet<>();
    private static volatile boolean stopped;

    public static void main(String[] servers) throws Exception {
        List<Thread> writers = new ArrayList<>();
        for (int i = 0; i < servers.length; i++) {
            String java = "java " + i;
            ZooKeeper zk = new ZooKeeper(servers[i], SESSION_MS, event -> {
                if (event.getState() == Watcher.Event.KeeperState.Disconnected || event.getState() == Watcher.Event.KeeperState.Expired) {
                    change(java, false);
                }
            });
            writers.add(start(java, () -> zk.setData("/outlive/" + java.replace(' ', '-'), new byte[0], -1)));
            String curator = "curator " + i;
            CuratorFramework client = CuratorFrameworkFactory.newClient(servers[i], SESSION_MS, SESSION_MS / 4, new RetryNTimes(0, 0));
            client.getConnectionStateListenable().addListener((c, state) -> {
                if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) {
                    change(curator, false);
                }
            });
            client.start();
            client.blockUntilConnected();
            writers.add(start(curator, () -> client.setData().forPath("/outlive/" + curator.replace(' ', '-'), new byte[0])));
        }
        while (System.in.read() >= 0) {
            // until the test closes it
        }
        stopped = true;
        for (Thread writer : writers) {
            writer.join();
        }
        System.exit(0);
    }

    private static Thread start(String name, Callable<?> write) {
        Thread thread = new Thread(() -> run(name, write));
        thread.start();
        return thread;
    }

    private static void run(String name, Callable<?> write) {
        int done = 0;
        int unknown = 0;
        try {
            for (; !stopped; Thread.sleep(5)) {
                try {
                    write.call();
                    done++;
                    change(name, true);
                } catch (KeeperException.ConnectionLossException e) {
                    unknown++;
                    change(name, false);
                    Thread.sleep(100);
                }
            }
            print("total " + name + " " + done + " " + unknown);
        } catch (Exception e) {
            print("failed " + name + " " + e);
        }
    }

    private static synchronized void change(String name, boolean connected) {
        if (connected ? lost.remove(name) : lost.add(name)) {
            print((connected ? "back " : "lost ") + name);
        }
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}

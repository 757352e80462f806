import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class FaultsTest {
    @RegisterExtension
    final ZkdServer server = new ZkdServer();

    @Test
    void anEphemeralEndsWithTheSession() throws Exception {
        CountDownLatch connected = new CountDownLatch(1), expired = new CountDownLatch(1);
        try (ZooKeeper zk = new ZooKeeper(server.connectString(), 10_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            } else if (event.getState() == KeeperState.Expired) {
                expired.countDown();
            }
        })) {
            connected.await();
            zk.create("/worker", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            server.order("/sessions/0x" + Long.toHexString(zk.getSessionId()) + "/expire");
            expired.await();
        }
        CountDownLatch again = new CountDownLatch(1);
        try (ZooKeeper zk = new ZooKeeper(server.connectString(), 10_000, event -> again.countDown())) {
            again.await();
            assertNull(zk.exists("/worker", false));
        }
    }
}

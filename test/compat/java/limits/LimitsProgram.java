import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * Exceeds limits. Arguments: the address of a server with the rules of TestLimitsJava, the code with which it refuses
 * counts, and the one with which it refuses rates. Fails unless the client gets these codes, and its session survives
 * them.
 */
public final class LimitsProgram {
    private LimitsProgram() {}

    public static void main(String[] args) {
        Checks.run("limits", () -> exceed(args));
        Checks.finish();
    }

    private static void exceed(String[] args) throws Exception {
        Code count = Code.valueOf(args[1]);
        Code rate = Code.valueOf(args[2]);
        ZooKeeper zk = new ZooKeeper(args[0], 20_000, event -> { });
        zk.addAuthInfo("digest", "bob:pw".getBytes(StandardCharsets.UTF_8));
        zk.create("/node", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        long session = zk.getSessionId();

        CountDownLatch fired = new CountDownLatch(1);
        zk.getData("/node", event -> fired.countDown(), null);
        zk.exists("/absent", event -> { });
        Checks.fails(count, () -> zk.getChildren("/", event -> { }));
        Checks.fails(count, () -> zk.exists("/another", event -> { }));
        zk.setData("/node", new byte[1], -1);
        Checks.that("the watch fires", fired.await(20, TimeUnit.SECONDS));
        zk.getChildren("/", event -> { });

        zk.create("/ephemeral", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Checks.fails(count, () -> zk.create("/another", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL));
        Checks.fails(count, () -> zk.multi(List.of(
            Op.check("/node", -1), Op.create("/another", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL))));
        zk.delete("/ephemeral", -1);
        zk.multi(List.of(Op.create("/another", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL)));

        zk.create("/slow", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Checks.fails(rate, () -> zk.getData("/slow", false, null));
        Checks.fails(rate, () -> zk.multi(List.of(Op.setData("/slow", new byte[1], -1))));
        zk.getData("/node", false, null);
        Checks.that("the session is the same", zk.getSessionId() == session && zk.getState().isConnected());
        zk.close();
    }
}

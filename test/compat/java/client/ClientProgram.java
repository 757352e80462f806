import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/** Uses a server through Apache's Java client. Arguments: host:port. Exit status 0: all checks passed. */
public final class ClientProgram {
    private static final int DEADLINE_SECONDS = 20;

    private final String server;
    private final ZooKeeper zk;
    private final ZooKeeper other;

    private ClientProgram(String server) throws Exception {
        this.server = server;
        this.zk = connect(server, 10000, false);
        this.other = connect(server, 10000, false);
    }

    public static void main(String[] args) throws Exception {
        ClientProgram p = new ClientProgram(args[0]);
        try {
            Checks.run("nodes", p::nodes);
            Checks.run("errors", p::errors);
            Checks.run("async", p::async);
            Checks.run("multi", p::multi);
            Checks.run("multi async", p::multiAsync);
            Checks.run("watches", p::watches);
            Checks.run("persistent watches", p::persistentWatches);
            Checks.run("remove watches", p::removeWatches);
            Checks.run("acl", p::acl);
            Checks.run("containers and ttl", p::containersAndTtl);
            Checks.run("large data", p::largeData);
            Checks.run("many children", p::manyChildren);
            Checks.run("ephemerals", p::ephemerals);
            Checks.run("session moves", p::sessionMoves);
            Checks.run("reconnect sets watches again", p::reconnect);
            Checks.run("read-only client", p::readOnly);
            Checks.run("chroot", p::chroot);
        } finally {
            p.zk.close();
            p.other.close();
        }
        Checks.finish();
    }

    private static ZooKeeper connect(String hosts, int timeout, boolean readOnly) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(hosts, timeout, e -> {
            if (e.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, readOnly);
        if (!connected.await(DEADLINE_SECONDS, TimeUnit.SECONDS)) {
            throw new AssertionError("not connected to " + hosts);
        }
        return zk;
    }

    /** Waits until a client's server has what was written through other servers. */
    private static void sync(ZooKeeper zk) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        zk.sync("/", (rc, path, ctx) -> done.countDown(), null);
        Checks.that("sync", done.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
    }

    private static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    private String create(String path) throws Exception {
        return zk.create(path, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    private void nodes() throws Exception {
        Stat stat = new Stat();
        zk.create("/j", bytes("x"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, stat);
        Checks.equal("version", 0, stat.getVersion());
        Checks.equal("data length", 1, stat.getDataLength());
        Checks.equal("czxid and mzxid", stat.getCzxid(), stat.getMzxid());
        for (int i = 0; i < 3; i++) {
            Checks.equal("sequential", String.format("/j/s-%010d", i),
                zk.create("/j/s-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL));
        }
        Checks.equal("null data", null, zk.getData("/j/s-0000000000", false, null));
        Checks.equal("set", 1, zk.setData("/j", bytes("yy"), 0).getVersion());
        Checks.equal("get", "yy", new String(zk.getData("/j", false, stat), StandardCharsets.UTF_8));
        zk.delete("/j/s-0000000001", -1);
        List<String> kids = zk.getChildren("/j", false, stat);
        Collections.sort(kids);
        Checks.equal("children", Arrays.asList("s-0000000000", "s-0000000002"), kids);
        Checks.equal("cversion", 4, stat.getCversion());
        Checks.equal("all children", 2, zk.getAllChildrenNumber("/j"));
        Checks.equal("absent", null, zk.exists("/j/none", false));
        List<ClientInfo> me = zk.whoAmI();
        Checks.equal("who am I", "ip", me.get(0).getAuthScheme());
    }

    private void errors() throws Exception {
        create("/err");
        Checks.fails(Code.NODEEXISTS, () -> create("/err"));
        Checks.fails(Code.NONODE, () -> create("/none/x"));
        Checks.fails(Code.NONODE, () -> zk.getData("/none", false, null));
        Checks.fails(Code.NONODE, () -> zk.delete("/none", -1));
        Checks.fails(Code.BADVERSION, () -> zk.setData("/err", null, 7));
        Checks.fails(Code.BADVERSION, () -> zk.delete("/err", 7));
        create("/err/x");
        Checks.fails(Code.NOTEMPTY, () -> zk.delete("/err", -1));
        zk.create("/err/e", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Checks.fails(Code.NOCHILDRENFOREPHEMERALS, () -> create("/err/e/x"));
        Checks.fails(Code.INVALIDACL, () -> zk.create("/err/a", null,
            Collections.singletonList(new ACL(31, new Id("nobody", "x"))), CreateMode.PERSISTENT));
        Checks.fails(Code.NOWATCHER, () -> zk.removeAllWatches("/err/unwatched", Watcher.WatcherType.Any, false));
    }

    private void async() throws Exception {
        final int count = 500;
        create("/async");
        CountDownLatch done = new CountDownLatch(count * 3);
        AtomicInteger failed = new AtomicInteger();
        for (int i = 0; i < count; i++) {
            String path = "/async/" + i;
            zk.create(path, bytes("" + i), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, (rc, p, ctx, name, stat) -> count(rc == 0 && name.equals(path), failed, done), null);
            zk.setData(path, bytes("n"), 0, (rc, p, ctx, stat) -> count(rc == 0 && stat.getVersion() == 1, failed, done), null);
            zk.getData(path, false, (rc, p, ctx, data, stat) -> count(rc == 0 && data[0] == 'n', failed, done), null);
        }
        Checks.that("all answered", done.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
        Checks.equal("failed", 0, failed.get());
        CompletableFuture<Integer> sync = new CompletableFuture<>();
        zk.sync("/async", (rc, p, ctx) -> sync.complete(rc), null);
        Checks.equal("sync", 0, sync.get(DEADLINE_SECONDS, TimeUnit.SECONDS));
        CompletableFuture<Integer> none = new CompletableFuture<>();
        zk.delete("/async/none", -1, (rc, p, ctx) -> none.complete(rc), null);
        Checks.equal("async error", Code.NONODE.intValue(), none.get(DEADLINE_SECONDS, TimeUnit.SECONDS));
    }

    private static void count(boolean good, AtomicInteger failed, CountDownLatch done) {
        if (!good) {
            failed.incrementAndGet();
        }
        done.countDown();
    }

    private void multi() throws Exception {
        List<OpResult> results = zk.multi(Arrays.asList(
            Op.create("/m", bytes("1"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
            Op.create("/m/s-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL),
            Op.setData("/m", bytes("2"), 0),
            Op.check("/m", 1),
            Op.create("/m/box", null, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER),
            Op.create("/m/ttl", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, 100000),
            Op.delete("/m/s-0000000000", -1)));
        Checks.equal("results", 7, results.size());
        Checks.equal("set in multi", 1, ((OpResult.SetDataResult) results.get(2)).getStat().getVersion());
        List<OpResult> partial = null;
        try {
            zk.multi(Arrays.asList(Op.create("/m/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT), Op.check("/m", 99), Op.delete("/m", -1)));
            Checks.that("a failing multi throws", false);
        } catch (KeeperException e) {
            Checks.equal("code", Code.BADVERSION, e.code());
            partial = e.getResults();
        }
        Checks.equal("first", 0, ((OpResult.ErrorResult) partial.get(0)).getErr());
        Checks.equal("failing", Code.BADVERSION.intValue(), ((OpResult.ErrorResult) partial.get(1)).getErr());
        Checks.equal("after", Code.RUNTIMEINCONSISTENCY.intValue(), ((OpResult.ErrorResult) partial.get(2)).getErr());
        Checks.equal("nothing left", null, zk.exists("/m/a", false));
        List<OpResult> read = zk.multi(Arrays.asList(Op.getData("/m"), Op.getChildren("/m"), Op.getData("/m/none")));
        Checks.equal("read", "2", new String(((OpResult.GetDataResult) read.get(0)).getData(), StandardCharsets.UTF_8));
        Checks.equal("read children", 2, ((OpResult.GetChildrenResult) read.get(1)).getChildren().size());
        Checks.equal("read error", Code.NONODE.intValue(), ((OpResult.ErrorResult) read.get(2)).getErr());
    }

    private void multiAsync() throws Exception {
        CompletableFuture<List<OpResult>> done = new CompletableFuture<>();
        zk.transaction().create("/ma", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT).setData("/ma", bytes("x"), 0).check("/ma", 1)
            .commit((rc, path, ctx, results) -> done.complete(rc == 0 ? results : null), null);
        Checks.equal("results", 3, done.get(DEADLINE_SECONDS, TimeUnit.SECONDS).size());
    }

    /** Events collects what a watcher hears. */
    private static final class Events implements Watcher {
        private final LinkedBlockingQueue<WatchedEvent> queue = new LinkedBlockingQueue<>();

        @Override
        public void process(WatchedEvent event) {
            if (event.getType() != EventType.None) {
                queue.add(event);
            }
        }

        void expect(EventType type, String path) throws Exception {
            WatchedEvent e = queue.poll(DEADLINE_SECONDS, TimeUnit.SECONDS);
            Checks.equal("event", type + " " + path, e == null ? "none" : e.getType() + " " + e.getPath());
        }

        /** Nothing may come before the event that a marker change causes. */
        void expectNothingBefore(ZooKeeper zk, ZooKeeper actor, String marker) throws Exception {
            zk.exists(marker, this);
            actor.create(marker, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            expect(EventType.NodeCreated, marker);
        }
    }

    private void watches() throws Exception {
        Events events = new Events();
        Checks.equal("absent", null, zk.exists("/w", events));
        other.create("/w", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        events.expect(EventType.NodeCreated, "/w");
        zk.getData("/w", events, null);
        other.setData("/w", bytes("x"), -1);
        events.expect(EventType.NodeDataChanged, "/w");
        other.setData("/w", bytes("y"), -1);
        zk.getChildren("/w", events);
        other.create("/w/x", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        events.expect(EventType.NodeChildrenChanged, "/w");
        zk.exists("/w/x", events);
        other.delete("/w/x", -1);
        events.expect(EventType.NodeDeleted, "/w/x");
        events.expectNothingBefore(zk, other, "/w-marker");
    }

    private void persistentWatches() throws Exception {
        Events flat = new Events();
        Events deep = new Events();
        zk.addWatch("/pw", flat, AddWatchMode.PERSISTENT);
        zk.addWatch("/pr", deep, AddWatchMode.PERSISTENT_RECURSIVE);
        for (String root : Arrays.asList("/pw", "/pr")) {
            for (int i = 0; i < 2; i++) {
                other.create(root, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                other.create(root + "/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                other.setData(root, bytes("x"), -1);
                other.delete(root + "/a", -1);
                other.delete(root, -1);
            }
        }
        for (int i = 0; i < 2; i++) {
            flat.expect(EventType.NodeCreated, "/pw");
            flat.expect(EventType.NodeChildrenChanged, "/pw");
            flat.expect(EventType.NodeDataChanged, "/pw");
            flat.expect(EventType.NodeChildrenChanged, "/pw");
            flat.expect(EventType.NodeDeleted, "/pw");
            deep.expect(EventType.NodeCreated, "/pr");
            deep.expect(EventType.NodeCreated, "/pr/a");
            deep.expect(EventType.NodeDataChanged, "/pr");
            deep.expect(EventType.NodeDeleted, "/pr/a");
            deep.expect(EventType.NodeDeleted, "/pr");
        }
    }

    private void removeWatches() throws Exception {
        Events events = new Events();
        create("/rw");
        zk.getData("/rw", events, null);
        zk.removeWatches("/rw", events, Watcher.WatcherType.Data, false);
        events.expect(EventType.DataWatchRemoved, "/rw");
        other.setData("/rw", bytes("x"), -1);
        events.expectNothingBefore(zk, other, "/rw-marker");
        zk.addWatch("/rw", events, AddWatchMode.PERSISTENT);
        zk.removeAllWatches("/rw", Watcher.WatcherType.Any, false);
        events.expect(EventType.PersistentWatchRemoved, "/rw");
        other.setData("/rw", bytes("y"), -1);
        events.expectNothingBefore(zk, other, "/rw-marker2");
    }

    private void acl() throws Exception {
        ZooKeeper owner = connect(server, 10000, false);
        try {
            owner.addAuthInfo("digest", bytes("bob:pw"));
            owner.create("/acl", bytes("x"), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            sync(zk);
            Checks.fails(Code.NOAUTH, () -> zk.getData("/acl", false, null));
            Checks.fails(Code.NOAUTH, () -> zk.setData("/acl", null, -1));
            Checks.fails(Code.NOAUTH, () -> zk.getACL("/acl", new Stat()));
            Stat stat = new Stat();
            List<ACL> list = owner.getACL("/acl", stat);
            Checks.equal("acl", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=", list.get(0).getId().getId());
            Checks.equal("aversion", 1, owner.setACL("/acl", Collections.singletonList(new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE)), 0).getAversion());
            sync(zk);
            Checks.equal("readable", 1, zk.getData("/acl", false, null).length);
            Checks.fails(Code.NOAUTH, () -> owner.setACL("/acl", Ids.OPEN_ACL_UNSAFE, -1));
            Checks.fails(Code.BADVERSION, () -> zk.setACL("/", Ids.OPEN_ACL_UNSAFE, 99));
        } finally {
            owner.close();
        }
        ZooKeeper bad = connect(server, 10000, false);
        CountDownLatch refused = new CountDownLatch(1);
        bad.register(e -> {
            if (e.getState() == KeeperState.AuthFailed) {
                refused.countDown();
            }
        });
        bad.addAuthInfo("nobody", bytes("x"));
        Checks.that("AuthFailed", refused.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
        bad.close();
    }

    private void containersAndTtl() throws Exception {
        Stat stat = new Stat();
        zk.create("/box", null, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER, stat);
        Checks.equal("container's owner", 0L, stat.getEphemeralOwner());
        zk.create("/ttl", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, stat, 100000);
        Checks.equal("ttl's owner", 0L, stat.getEphemeralOwner());
        Checks.equal("sequential ttl", "/box/t-0000000000",
            zk.create("/box/t-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, stat, 100000));
    }

    private void largeData() throws Exception {
        byte[] data = new byte[1000 * 1000];
        Arrays.fill(data, (byte) 7);
        zk.create("/large", data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Checks.that("1 MB comes back", Arrays.equals(data, zk.getData("/large", false, null)));
        sync(other);
        Checks.that("1 MB for another", Arrays.equals(data, other.getData("/large", false, null)));
        zk.delete("/large", -1);
    }

    private void manyChildren() throws Exception {
        final int count = 20000;
        create("/many");
        List<Op> batch = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            batch.add(Op.create("/many/child-" + i, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
            if (batch.size() == 1000) {
                zk.multi(batch);
                batch.clear();
            }
        }
        Checks.equal("children", count, zk.getChildren("/many", false).size());
        Checks.equal("counted", count, zk.getAllChildrenNumber("/many"));
    }

    private void ephemerals() throws Exception {
        ZooKeeper mortal = connect(server, 10000, false);
        create("/eph");
        mortal.create("/eph/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        mortal.create("/eph/b-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
        sync(zk);
        List<String> mine = mortal.getEphemerals("/eph");
        Collections.sort(mine);
        Checks.equal("ephemerals", Arrays.asList("/eph/a", "/eph/b-0000000001"), mine);
        Checks.equal("owner", mortal.getSessionId(), zk.exists("/eph/a", false).getEphemeralOwner());
        mortal.close();
        sync(zk);
        Checks.equal("gone with the session", 0, zk.getChildren("/eph", false).size());
    }

    /** The session goes on in another client object while the first one is cut off. */
    private void sessionMoves() throws Exception {
        try (Relay relay = new Relay(server)) {
            ZooKeeper first = connect(relay.address(), 10000, false);
            first.create("/moves", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            CountDownLatch expired = new CountDownLatch(1);
            first.register(e -> {
                if (e.getState() == KeeperState.Expired) {
                    expired.countDown();
                }
            });
            relay.block();
            CountDownLatch connected = new CountDownLatch(1);
            ZooKeeper second = new ZooKeeper(server, 10000, e -> {
                if (e.getState() == KeeperState.SyncConnected) {
                    connected.countDown();
                }
            }, first.getSessionId(), first.getSessionPasswd());
            Checks.that("resumed", connected.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
            sync(second);
            Checks.equal("session", first.getSessionId(), second.getSessionId());
            Checks.equal("ephemerals", Arrays.asList("/moves"), second.getEphemerals());
            second.close();
            Checks.that("the session is over", waitGone("/moves"));
            relay.unblock();
            Checks.that("the first hears of it", expired.await(DEADLINE_SECONDS, TimeUnit.SECONDS));
            first.close();
        }
    }

    private boolean waitGone(String path) throws Exception {
        Events events = new Events();
        if (other.exists(path, events) == null) {
            return true;
        }
        WatchedEvent e = events.queue.poll(DEADLINE_SECONDS, TimeUnit.SECONDS);
        return e != null && e.getType() == EventType.NodeDeleted;
    }

    /** A relay between client and server is cut; watches must be set again and missed changes told. */
    private void reconnect() throws Exception {
        try (Relay relay = new Relay(server)) {
            ZooKeeper client = connect(relay.address(), 10000, false);
            Events data = new Events();
            Events exist = new Events();
            Events child = new Events();
            Events deep = new Events();
            Events quiet = new Events();
            create("/rc");
            create("/rc/quiet");
            sync(client);
            client.getData("/rc", data, null);
            client.exists("/rc/new", exist);
            client.getChildren("/rc", child);
            client.getData("/rc/quiet", quiet, null);
            client.addWatch("/rcdeep", deep, AddWatchMode.PERSISTENT_RECURSIVE);
            long session = client.getSessionId();
            relay.block();
            other.setData("/rc", bytes("missed"), -1);
            other.create("/rc/new", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            relay.unblock();
            data.expect(EventType.NodeDataChanged, "/rc");
            exist.expect(EventType.NodeCreated, "/rc/new");
            child.expect(EventType.NodeChildrenChanged, "/rc");
            Checks.equal("same session", session, client.getSessionId());
            other.setData("/rc/quiet", bytes("x"), -1);
            quiet.expect(EventType.NodeDataChanged, "/rc/quiet");
            other.create("/rcdeep", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            deep.expect(EventType.NodeCreated, "/rcdeep");
            client.close();
        }
    }

    private void readOnly() throws Exception {
        ZooKeeper client = connect(server, 10000, true);
        Checks.equal("state", ZooKeeper.States.CONNECTED, client.getState());
        client.create("/ro", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        client.close();
    }

    private void chroot() throws Exception {
        create("/ch");
        ZooKeeper client = connect(server + "/ch", 10000, false);
        Events events = new Events();
        client.exists("/x", events);
        Checks.equal("path", "/x", client.create("/x", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        events.expect(EventType.NodeCreated, "/x");
        sync(zk); // it may be at another server, which may be behind
        Checks.that("below the root", zk.exists("/ch/x", false) != null);
        client.close();
    }
}

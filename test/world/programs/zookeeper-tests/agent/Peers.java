package zkd.suite;

import java.io.File;
import java.io.FileReader;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.zookeeper.server.quorum.Follower;
import org.apache.zookeeper.server.quorum.Leader;
import org.apache.zookeeper.server.quorum.Observer;
import org.apache.zookeeper.server.quorum.QuorumPeer;
import org.apache.zookeeper.server.quorum.QuorumPeer.LearnerType;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;
import org.apache.zookeeper.server.quorum.QuorumPeerMain;
import org.apache.zookeeper.server.quorum.QuorumStats;

/** The processes of the tests' QuorumPeers. */
public final class Peers {
    private static final Map<QuorumPeer, Zkd> processes = Collections.synchronizedMap(new IdentityHashMap<>());

    private Peers() {}

    /** Starts a process with what the peer was made with. */
    public static void start(QuorumPeer peer) throws IOException {
        Path dir = peer.getTxnFactory().getSnapDir().getParentFile().toPath();
        Path data = Files.createDirectories(dir.resolve("zkd"));
        StringBuilder text = new StringBuilder();
        line(text, "dataDir", data);
        line(text, "tickTime", peer.getTickTime());
        line(text, "initLimit", peer.getInitLimit());
        line(text, "syncLimit", peer.getSyncLimit());
        for (QuorumServer s : peer.getView().values()) {
            line(text, "server." + s.id, s.addr.getOne().getHostString() + ":" + s.addr.getOne().getPort() + ":" + s.electionAddr.getOne().getPort()
                    + ":" + (s.type == LearnerType.OBSERVER ? "observer" : "participant") + ";127.0.0.1:" + s.clientAddr.getPort());
        }
        if (peer.getLearnerType() == LearnerType.OBSERVER) {
            line(text, "peerType", "observer");
        }
        line(text, "localSessionsEnabled", peer.areLocalSessionsEnabled());
        line(text, "localSessionsUpgradingEnabled", peer.isLocalSessionsUpgradingEnabled());
        Files.writeString(data.resolve("myid"), Long.toString(peer.getMyId()));
        Path file = Files.writeString(dir.resolve("zkd.cfg"), text);
        processes.put(peer, new Zkd(file, peer.getClientPort()));
    }

    static void line(StringBuilder text, String key, Object value) {
        text.append(key).append('=').append(value).append('\n');
    }

    public static void stop(QuorumPeer peer) {
        Zkd process = processes.remove(peer);
        if (process != null) {
            process.stop();
        }
    }

    /** Runs a process on a file until it ends, as initializeAndRun does. */
    public static void run(QuorumPeerMain main, String file) throws Exception {
        Method make = QuorumPeerMain.class.getDeclaredMethod("getQuorumPeer");
        make.setAccessible(true);
        QuorumPeer peer = (QuorumPeer) make.invoke(main);
        Zkd process = new Zkd(Path.of(file), clientPort(new File(file)));
        processes.put(peer, process);
        if (isDistributed(new File(file))) {
            Field field = QuorumPeerMain.class.getDeclaredField("quorumPeer");
            field.setAccessible(true);
            field.set(main, peer);
        }
        process.await();
    }

    /** Whether Apache's server would be one of several, as its QuorumPeerConfig decides. */
    private static boolean isDistributed(File file) throws IOException {
        Properties lines = withMembers(file);
        long members = lines.stringPropertyNames().stream().filter(key -> key.startsWith("server.")).count();
        return members > 1 || members == 1 && !QuorumPeerConfig.isStandaloneEnabled() && !"true".equals(lines.getProperty("standaloneEnabled"))
                || members == 1 && "false".equals(lines.getProperty("standaloneEnabled"));
    }

    /** The port for clients: of the file, or of this server's line there or in the file of the members. */
    private static int clientPort(File file) throws IOException {
        Properties lines = withMembers(file);
        String port = lines.getProperty("clientPort");
        Path myid = Path.of(lines.getProperty("dataDir", ""), "myid");
        if (port == null && Files.exists(myid)) {
            String server = lines.getProperty("server." + Files.readString(myid).trim(), "");
            port = server.substring(Math.max(server.lastIndexOf(':'), server.lastIndexOf(';')) + 1);
        }
        return port == null || port.isEmpty() ? 0 : Integer.parseInt(port.trim());
    }

    private static Properties withMembers(File file) throws IOException {
        Properties lines = read(file);
        if (lines.containsKey("dynamicConfigFile")) {
            lines.putAll(read(new File(lines.getProperty("dynamicConfigFile"))));
        }
        return lines;
    }

    private static Properties read(File file) throws IOException {
        Properties lines = new Properties();
        try (FileReader reader = new FileReader(file)) {
            lines.load(reader);
        }
        return lines;
    }

    private static String mode(QuorumPeer peer) {
        Zkd process = processes.get(peer);
        return process == null ? "" : process.mode();
    }

    public static boolean runs(QuorumPeer peer) {
        Zkd process = processes.get(peer);
        return process != null && process.runs();
    }

    public static QuorumPeer.ServerState state(QuorumPeer peer) {
        switch (mode(peer)) {
            case "leader": return QuorumPeer.ServerState.LEADING;
            case "follower": return QuorumPeer.ServerState.FOLLOWING;
            case "observer": return QuorumPeer.ServerState.OBSERVING;
            default: return QuorumPeer.ServerState.LOOKING;
        }
    }

    public static String stateName(QuorumPeer peer) {
        switch (mode(peer)) {
            case "leader": return QuorumStats.Provider.LEADING_STATE;
            case "follower": return QuorumStats.Provider.FOLLOWING_STATE;
            case "observer": return QuorumStats.Provider.OBSERVING_STATE;
            default: return runs(peer) ? QuorumStats.Provider.LOOKING_STATE : QuorumStats.Provider.UNKNOWN_STATE;
        }
    }

    public static Leader leader(QuorumPeer peer) {
        return in(peer, "leader", Leader.class);
    }

    public static Follower follower(QuorumPeer peer) {
        return in(peer, "follower", Follower.class);
    }

    public static Observer observer(QuorumPeer peer) {
        return in(peer, "observer", Observer.class);
    }

    /** Something that is not null if the peer's process has the role. It has no content. */
    private static <T> T in(QuorumPeer peer, String role, Class<T> type) {
        if (!mode(peer).equals(role)) {
            return null;
        }
        try {
            Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return type.cast(((sun.misc.Unsafe) field.get(null)).allocateInstance(type));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}

package zkd.suite;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.zookeeper.server.ServerCnxn;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/** Where a test makes the ports of a server: starting a single server is starting a process. */
public final class Factory extends ServerCnxnFactory {
    private final int port;
    private int max;
    private Zkd process;

    public Factory(int port, int max) {
        this.port = port;
        this.max = max;
    }

    @Override
    public void startup(ZooKeeperServer server, boolean start) throws IOException {
        if (!start) {
            return;
        }
        Path snapshots = server.getTxnLogFactory().getSnapDir().getParentFile().toPath();
        Path logs = server.getTxnLogFactory().getDataLogDir().getParentFile().toPath();
        StringBuilder text = new StringBuilder();
        Peers.line(text, "dataDir", Files.createDirectories(snapshots.resolve("zkd")));
        if (!logs.equals(snapshots)) {
            Peers.line(text, "dataLogDir", Files.createDirectories(logs.resolve("zkd")));
        }
        Peers.line(text, "clientPort", port);
        Peers.line(text, "tickTime", server.getTickTime());
        Peers.line(text, "minSessionTimeout", server.getMinSessionTimeout());
        Peers.line(text, "maxSessionTimeout", server.getMaxSessionTimeout());
        Peers.line(text, "maxClientCnxns", Math.max(0, max));
        process = new Zkd(Files.writeString(snapshots.resolve("zkd.cfg"), text), port);
    }

    @Override
    public void shutdown() {
        if (process != null) {
            process.stop();
        }
        process = null;
    }

    @Override
    public int getLocalPort() {
        return port;
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return new InetSocketAddress("127.0.0.1", port);
    }

    @Override
    public int getMaxClientCnxnsPerHost() {
        return max;
    }

    @Override
    public void setMaxClientCnxnsPerHost(int most) {
        max = most;
    }

    @Override
    public int getSocketListenBacklog() {
        return -1;
    }

    // Of the connections of another process nothing is known here.

    @Override
    public Iterable<ServerCnxn> getConnections() {
        return List.of();
    }

    @Override
    public Iterable<Map<String, Object>> getAllConnectionInfo(boolean brief) {
        return List.of();
    }

    @Override
    public int getNumAliveConnections() {
        return 0;
    }

    @Override
    public boolean closeSession(long session, ServerCnxn.DisconnectReason reason) {
        return false;
    }

    @Override
    public void closeAll(ServerCnxn.DisconnectReason reason) {}

    @Override
    public void resetAllConnectionStats() {}

    @Override
    public void configure(InetSocketAddress address, int most, int backlog, boolean secure) {}

    @Override
    public void reconfigure(InetSocketAddress address) {}

    @Override
    public void start() {}

    @Override
    public void join() {}
}

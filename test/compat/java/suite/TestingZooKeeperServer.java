package org.apache.curator.test;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;

/**
 * Has Curator's tests run on processes of zkd. It comes before the class of this name in
 * curator-test.jar, which runs Apache's server inside the JVM; the rest of that jar stays as it is.
 *
 * The system property zkd names the program, and zkd.logs a directory for what it prints, a file a port.
 */
public class TestingZooKeeperServer implements Closeable {
    private static final long START_SECONDS = 60;
    private static final long STOP_SECONDS = 30;

    /** What Apache's server takes from the JVM, and zkd from zoo.cfg. */
    private static final Map<String, String> SETTINGS = Map.of(
            "readonlymode.enabled", "readonlymode.enabled",
            "zookeeper.extendedTypesEnabled", "extendedTypesEnabled",
            "znode.container.checkIntervalMs", "znode.container.checkIntervalMs",
            "zookeeper.DigestAuthenticationProvider.superDigest", "DigestAuthenticationProvider.superDigest");

    private final QuorumConfigBuilder config;
    private final int index;
    private final Thread atExit = new Thread(this::kill);

    private boolean started; // and not made ready for a restart
    private boolean closed;
    private int port; // 0 before the first start if the test has left it open
    private Process process;

    public TestingZooKeeperServer(QuorumConfigBuilder config) {
        this(config, 0);
    }

    public TestingZooKeeperServer(QuorumConfigBuilder config, int index) {
        this.config = config;
        this.index = index;
        this.port = getInstanceSpec().getPort();
        Runtime.getRuntime().addShutdownHook(atExit);
    }

    public InstanceSpec getInstanceSpec() {
        return config.getInstanceSpec(index);
    }

    public Collection<InstanceSpec> getInstanceSpecs() {
        return config.getInstanceSpecs();
    }

    public synchronized int getLocalPort() {
        if (port == 0) {
            throw new IllegalStateException("the server has no port before it is started");
        }
        return port;
    }

    /** Starts the process, unless it was started before; one that stands alone serves then. */
    public synchronized void start() throws Exception {
        if (started) {
            return;
        }
        started = true;
        if (port == 0) {
            port = InstanceSpec.getRandomPort();
        }
        File log = new File(System.getProperty("zkd.logs"), port + ".log");
        process = new ProcessBuilder(System.getProperty("zkd"), zooCfg().toString())
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(log))
                .start();
        if (config.size() == 1) {
            awaitService();
        }
    }

    /** Stops the process as an operator does. */
    public synchronized void stop() throws IOException {
        if (process != null) {
            process.destroy();
            awaitExit();
        }
    }

    public synchronized void kill() {
        if (process != null) {
            process.destroyForcibly();
            awaitExit();
        }
    }

    public synchronized void restart() throws Exception {
        if (closed) {
            throw new IllegalStateException("restart of a closed server");
        }
        stop();
        started = false;
        start();
    }

    @Override
    public synchronized void close() throws IOException {
        stop();
        if (!closed && started) {
            closed = true;
            config.close();
            if (getInstanceSpec().deleteDataDirectoryOnClose()) {
                DirectoryUtils.deleteRecursively(getInstanceSpec().getDataDirectory());
            }
        }
    }

    private Path zooCfg() throws Exception {
        Properties lines = config.buildConfigProperties(index);
        lines.setProperty("clientPort", Integer.toString(port));
        lines.setProperty("admin.enableServer", "false");
        SETTINGS.forEach((property, key) -> {
            String value = System.getProperty(property);
            if (value != null) {
                lines.setProperty(key, value);
            }
        });
        if (QuorumPeerConfig.isReconfigEnabled()) {
            lines.setProperty("reconfigEnabled", "true");
        }
        StringBuilder text = new StringBuilder();
        lines.forEach((key, value) -> text.append(key).append('=').append(value).append('\n'));
        // A test may use the directory of a server that it has closed.
        Path dir = Files.createDirectories(getInstanceSpec().getDataDirectory().toPath());
        return Files.writeString(dir.resolve("zoo.cfg"), text);
    }

    /** Asks srvr until there is an answer that has a mode. */
    private void awaitService() throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_SECONDS);
        while (!serves()) {
            if (!process.isAlive()) {
                throw new FailedServerStartException("zkd ended with " + process.exitValue());
            }
            if (System.nanoTime() > deadline) {
                throw new FailedServerStartException("zkd does not serve after " + START_SECONDS + " s");
            }
            Thread.sleep(20);
        }
    }

    private boolean serves() {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(getInstanceSpec().getHostname(), port), 2000);
            socket.setSoTimeout(2000);
            socket.getOutputStream().write("srvr".getBytes(StandardCharsets.US_ASCII));
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.US_ASCII).contains("Mode: ");
        } catch (IOException e) {
            return false;
        }
    }

    private void awaitExit() {
        try {
            if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        process = null;
    }
}

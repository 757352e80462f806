package zkd.suite;

import java.io.FileReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;

/** What a server in this process would take from the JVM, as keys of zoo.cfg. */
final class Settings {
    private static final String PREFIX = "zookeeper.";
    private static final String JAAS = "java.security.auth.login.config";

    /** Properties without the prefix. */
    private static final Set<String> PLAIN = Set.of("readonlymode.enabled", "znode.container.checkIntervalMs", "znode.container.maxPerMinute",
            "znode.container.maxNeverUsedIntervalMs", "jute.maxbuffer", JAAS);

    /** Those of clients, and of how Apache's server is built. */
    private static final List<String> NOT_OURS = List.of("junit.threadid", "preAllocSize", "kinit", "clientCnxnSocket", "serverCnxnFactory", "sasl.client", "admin.",
            "client.", "disableAutoWatchReset", "request.timeout", "server.");

    private Settings() {}

    private static boolean isServers(String key) {
        return key.equals("client.portUnification") || NOT_OURS.stream().noneMatch(key::startsWith);
    }

    /** The settings beside a file: what it says itself counts. */
    static Map<String, String> of(Path file) throws IOException {
        Map<String, String> settings = new TreeMap<>();
        for (String name : System.getProperties().stringPropertyNames()) {
            String value = System.getProperty(name);
            if (PLAIN.contains(name)) {
                settings.put(name, value);
            } else if (value.startsWith("org.apache.zookeeper.test.")) {
                continue; // a class of the tests: only a server in this process can load it
            } else if (name.startsWith(PREFIX) && isServers(name.substring(PREFIX.length()))) {
                settings.put(name.substring(PREFIX.length()), value);
            }
        }
        if (!settings.containsKey(JAAS) && settings.containsKey("authProvider.1")) {
            writeJaas(settings);
        }
        settings.put("admin.enableServer", "false");
        settings.put("forceSync", "no");
        settings.put("reconfigEnabled", Boolean.toString(QuorumPeerConfig.isReconfigEnabled()));
        settings.put("standaloneEnabled", Boolean.toString(QuorumPeerConfig.isStandaloneEnabled()));
        Properties own = new Properties();
        try (FileReader reader = new FileReader(file.toFile())) {
            own.load(reader);
        }
        settings.keySet().removeAll(own.stringPropertyNames());
        return settings;
    }

    /** Some tests set the sections of JAAS in memory. */
    private static void writeJaas(Map<String, String> settings) throws IOException {
        StringBuilder text = new StringBuilder();
        String section = System.getProperty("zookeeper.sasl.serverconfig", "Server");
        AppConfigurationEntry[] entries;
        try {
            entries = Configuration.getConfiguration().getAppConfigurationEntry(section);
        } catch (SecurityException e) {
            return; // there are none
        }
        if (entries == null) {
            return;
        }
        text.append(section).append(" {\n");
        for (AppConfigurationEntry entry : entries) {
            text.append(entry.getLoginModuleName()).append(" required");
            entry.getOptions().forEach((key, value) -> text.append("\n  ").append(key).append("=\"").append(value).append('"'));
            text.append(";\n");
        }
        Path file = Files.createTempFile("jaas", ".conf");
        settings.put(JAAS, Files.writeString(file, text.append("};\n")).toString());
    }
}

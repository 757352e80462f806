import java.nio.file.Files;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;

/**
 * Pulsar: two brokers and three bookies that keep their metadata on the servers. Messages are sent while topics are created; at
 * the end each acknowledged message is read, and each topic is there. A part that ends by itself, as a bookie does whose session has
 * expired, is started again.
 */
final class Pulsar extends World {
	private static final String CLUSTER = "world", MESSAGES = "persistent://public/default/messages";
	private final Process[] bookies = new Process[3], brokers = new Process[2];
	private final int[] bookiePorts = new int[bookies.length], ports = new int[brokers.length], webPorts = new int[brokers.length];
	private final BitSet acknowledged = new BitSet();
	private final List<String> topics = new ArrayList<>();
	private final AtomicLong repeated = new AtomicLong(), longest = new AtomicLong(), restarts = new AtomicLong();
	private final String metadata = "zk:" + SERVERS;
	private volatile boolean working = true;
	private PulsarAdmin admin;
	private PulsarClient client;
	private Thread sending, creating;

	public static void main(String[] args) {
		new Pulsar().run();
	}

	@Override
	void start() throws Exception {
		for (int i = 0; i < brokers.length; i++) {
			ports[i] = port();
			webPorts[i] = port();
		}
		var web = "127.0.0.1:" + webPorts[0] + ",127.0.0.1:" + webPorts[1];
		var service = "pulsar://127.0.0.1:" + ports[0] + ",127.0.0.1:" + ports[1];
		var setup = part("setup", "org.apache.pulsar.PulsarClusterMetadataSetup", "--cluster", CLUSTER, "--metadata-store", metadata,
				"--configuration-metadata-store", metadata, "--web-service-url", "http://" + web, "--broker-service-url", service);
		await("the metadata of the cluster", () -> !setup.isAlive());
		for (int i = 0; i < bookies.length; i++) {
			bookiePorts[i] = port();
			startBookie(i);
		}
		for (int i = 0; i < brokers.length; i++) {
			startBroker(i);
		}
		admin = PulsarAdmin.builder().serviceHttpUrl("http://" + web).readTimeout(30, TimeUnit.SECONDS).requestTimeout(30, TimeUnit.SECONDS).build();
		client = PulsarClient.builder().serviceUrl(service).ioThreads(1).listenerThreads(1).build();
		await("both brokers", this::bothBrokers);
		sending = thread("send", this::send);
		creating = thread("create", this::create);
		await("first messages", () -> count() > 100);
	}

	private Process part(String name, String main, String... args) throws Exception {
		var all = new ArrayList<>(List.of("-Xmx384m", "-XX:MaxDirectMemorySize=256m", "-Dio.netty.tryReflectionSetAccessible=true",
				"-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
				"-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver"));
		for (var p : List.of("java.base/java.nio", "java.base/jdk.internal.misc", "java.base/jdk.internal.platform", "java.base/sun.net", "java.management/sun.management",
				"jdk.management/com.sun.management.internal")) {
			all.add("--add-opens=" + p + "=ALL-UNNAMED");
		}
		all.add(main);
		all.addAll(List.of(args));
		return java(name, all.toArray(String[]::new));
	}

	private void startBookie(int i) throws Exception {
		bookies[i] = bookie(i);
		supervise(bookies[i], () -> {
			restarts.incrementAndGet();
			startBookie(i);
		});
	}

	private void startBroker(int i) throws Exception {
		brokers[i] = broker(i);
		supervise(brokers[i], () -> {
			restarts.incrementAndGet();
			startBroker(i);
		});
	}

	private Process bookie(int i) throws Exception {
		var home = Files.createDirectories(dir.resolve("bookie" + i));
		var file = write("bookie" + i + ".conf", """
				bookiePort=%d
				metadataServiceUri=metadata-store:%s
				journalDirectories=%s/journal
				ledgerDirectories=%3$s/data
				indexDirectories=%3$s/data
				allowLoopback=true
				advertisedAddress=127.0.0.1
				zkTimeout=18000
				httpServerEnabled=false
				autoRecoveryDaemonEnabled=true
				diskUsageThreshold=0.99
				diskUsageWarnThreshold=0.98
				journalMaxSizeMB=16
				journalPreAllocSizeMB=1
				ledgerStorageClass=org.apache.bookkeeper.bookie.SortedLedgerStorage
				skipListSizeLimit=4194304
				""".formatted(bookiePorts[i], metadata, home));
		return part("bookie" + i, "org.apache.bookkeeper.server.Main", "--conf", file.toString());
	}

	private Process broker(int i) throws Exception {
		var file = write("broker" + i + ".conf", """
				clusterName=%s
				metadataStoreUrl=%s
				configurationMetadataStoreUrl=%2$s
				metadataStoreSessionTimeoutMillis=18000
				zookeeperSessionExpiredPolicy=reconnect
				bindAddress=127.0.0.1
				advertisedAddress=127.0.0.1
				brokerServicePort=%d
				webServicePort=%d
				numIOThreads=2
				numHttpServerThreads=8
				numOrderedExecutorThreads=2
				managedLedgerCacheSizeMB=16
				managedLedgerDefaultEnsembleSize=2
				managedLedgerDefaultWriteQuorum=2
				managedLedgerDefaultAckQuorum=2
				managedLedgerMaxEntriesPerLedger=200
				managedLedgerMinLedgerRolloverTimeMinutes=0
				defaultRetentionTimeInMinutes=-1
				defaultRetentionSizeInMB=-1
				brokerDeleteInactiveTopicsEnabled=false
				functionsWorkerEnabled=false
				""".formatted(CLUSTER, metadata, ports[i], webPorts[i]));
		return part("broker" + i, "org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", file.toString());
	}

	private boolean bothBrokers() throws Exception {
		return admin.brokers().getActiveBrokers(CLUSTER).size() == brokers.length;
	}

	private void send() throws Exception {
		Producer<String> producer = null;
		for (int n = 0; working; n++) {
			long begin = System.nanoTime();
			for (boolean done = false; !done && working;) {
				try {
					if (producer == null) {
						producer = client.newProducer(Schema.STRING).topic(MESSAGES).sendTimeout(30, TimeUnit.SECONDS).enableBatching(false).create();
					}
					producer.send("" + n);
					done = true;
				} catch (Exception e) {
					repeated.incrementAndGet();
					Thread.sleep(200);
				}
				if (done) {
					synchronized (acknowledged) {
						acknowledged.set(n);
					}
				}
			}
			longest.accumulateAndGet(System.nanoTime() - begin, Math::max);
			Thread.sleep(10);
		}
	}

	private void create() throws Exception {
		for (int n = 0; working; n++) {
			var topic = "persistent://public/default/t" + n;
			for (boolean done = false; !done && working;) {
				try {
					admin.topics().createNonPartitionedTopic(topic);
					done = true;
				} catch (PulsarAdminException.ConflictException e) {
					done = true; // its answer was lost
				} catch (Exception e) {
					Thread.sleep(500);
				}
				if (done) {
					topics.add(topic);
				}
			}
			Thread.sleep(2000);
		}
	}

	private int count() {
		synchronized (acknowledged) {
			return acknowledged.cardinality();
		}
	}

	/** Kills a bookie and a broker. */
	@Override
	void kill() throws Exception {
		bookies[0].destroyForcibly().waitFor();
		Thread.sleep(22_000); // longer than its session
		startBookie(0);
		brokers[0].destroyForcibly().waitFor();
		await("the other broker alone", () -> admin.brokers().getActiveBrokers(CLUSTER).size() == 1);
		int was = count();
		await("messages by the other broker", () -> count() > was + 50);
		startBroker(0);
	}

	@Override
	void settle() throws Exception {
		await("both brokers", this::bothBrokers);
		int was = count();
		await("new messages", () -> count() > was + 50);
	}

	@Override
	void end() throws Exception {
		working = false;
		sending.join();
		creating.join();
		var found = new BitSet();
		try (var reader = client.newReader(Schema.STRING).topic(MESSAGES).startMessageId(MessageId.earliest).create()) {
			while (reader.hasMessageAvailable()) {
				var m = reader.readNext(60, TimeUnit.SECONDS);
				check(m != null, "no message within 60 s after " + found.cardinality());
				found.set(Integer.parseInt(m.getValue()));
			}
		}
		var lost = (BitSet) acknowledged.clone();
		lost.andNot(found);
		var list = admin.topics().getList("public/default");
		for (var t : topics) {
			check(list.contains(t), "lost topic " + t);
		}
		count("acknowledged", count());
		count("lost", lost.cardinality());
		count("repeated", repeated.get());
		count("longest-ms", longest.get() / 1_000_000);
		count("topics", topics.size());
		count("restarts", restarts.get());
	}
}

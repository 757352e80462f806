import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;

/**
 * NiFi: a cluster of two nodes, which elect their coordinator and the primary node by the servers. A processor of its own runs on the
 * primary node and counts in the cluster's state, which is on the servers, too. At the end there is one coordinator and one primary
 * node, no number was acknowledged twice, and the state has at least the last one.
 */
final class NiFi extends World {
	private static final String HOST = "127.0.0.1";
	private static final Pattern NODE = Pattern.compile("\"apiPort\":(\\d+),\"status\":\"(\\w+)\".*?\"roles\":\\[(.*?)\\]");
	private static final String COUNTER = NiFiCounter.class.getName(), COORDINATOR = "Cluster Coordinator", PRIMARY = "Primary Node";
	private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(5)).build();
	private final Process[] nodes = new Process[2];
	private final int[] ports = new int[nodes.length];
	private String counter; // the id of the processor

	public static void main(String[] args) {
		new NiFi().run();
	}

	@Override
	void start() throws Exception {
		makeLibrary();
		for (int i = 0; i < nodes.length; i++) {
			ports[i] = port();
			configure(i);
		}
		for (int i = 0; i < nodes.length; i++) {
			nodes[i] = node(i);
		}
		await("two nodes", this::complete);
		counter = makeCounter();
		await("first numbers", () -> acknowledged().size() > 20);
	}

	/** Puts NiFi's archives and the processor's into one directory, and beside it what NiFi starts with. */
	private void makeLibrary() throws IOException {
		var library = Files.createDirectories(dir.resolve("library"));
		var bootstrap = Files.createDirectories(dir.resolve("lib/bootstrap"));
		try (Stream<Path> all = Files.list(Path.of(System.getenv("PROGRAM"), "lib"))) {
			for (var nar : all.filter(f -> f.toString().endsWith(".nar")).toList()) {
				Files.copy(nar, library.resolve(nar.getFileName()), StandardCopyOption.REPLACE_EXISTING);
				if (nar.getFileName().toString().startsWith("nifi-framework-nar")) {
					unpack(nar, bootstrap);
				}
			}
		}
		var jar = dir.resolve("counter.jar");
		pack(jar, COUNTER + ".class", Files.readAllBytes(dir.resolve("classes/" + COUNTER + ".class")),
				"META-INF/services/org.apache.nifi.processor.Processor", (COUNTER + "\n").getBytes());
		pack(library.resolve("world.nar"), "META-INF/", new byte[0],
				"META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nNar-Group: world\nNar-Id: world\nNar-Version: 1\n".getBytes(),
				"META-INF/bundled-dependencies/", new byte[0], "META-INF/bundled-dependencies/counter.jar", Files.readAllBytes(jar));
	}

	private static void pack(Path file, Object... namesAndBytes) throws IOException {
		try (var out = new ZipOutputStream(Files.newOutputStream(file))) {
			for (int i = 0; i < namesAndBytes.length; i += 2) {
				out.putNextEntry(new ZipEntry((String) namesAndBytes[i]));
				out.write((byte[]) namesAndBytes[i + 1]);
				out.closeEntry();
			}
		}
	}

	/** The classes that read the properties are in the archive of the framework; NiFi wants them in a directory. */
	private static void unpack(Path nar, Path to) throws IOException {
		try (var zip = new ZipFile(nar.toFile())) {
			zip.stream().filter(e -> e.getName().matches(".*/(nifi-propert|nifi-security-utils|nifi-utils|bcprov|commons-(codec|lang3)).*\\.jar")).forEach(e -> {
				try (var in = zip.getInputStream(e)) {
					Files.copy(in, to.resolve(Path.of(e.getName()).getFileName()), StandardCopyOption.REPLACE_EXISTING);
				} catch (IOException ex) {
					throw new UncheckedIOException(ex);
				}
			});
		}
	}

	private void configure(int i) throws IOException {
		var home = Files.createDirectories(dir.resolve("node" + i));
		write("node" + i + "/state.xml", """
				<stateManagement>
				  <local-provider>
				    <id>local</id>
				    <class>org.apache.nifi.controller.state.providers.local.WriteAheadLocalStateProvider</class>
				    <property name="Directory">%s/state</property>
				    <property name="Checkpoint Interval">2 mins</property>
				    <property name="Partitions">4</property>
				  </local-provider>
				  <cluster-provider>
				    <id>zk</id>
				    <class>org.apache.nifi.controller.state.providers.zookeeper.ZooKeeperStateProvider</class>
				    <property name="Connect String">%s</property>
				    <property name="Root Node">/nifi</property>
				    <property name="Session Timeout">10 seconds</property>
				    <property name="Access Control">Open</property>
				  </cluster-provider>
				</stateManagement>
				""".formatted(home, SERVERS));
		write("node" + i + "/nifi.properties", """
				nifi.flow.configuration.file=%1$s/flow.xml.gz
				nifi.flow.configuration.json.file=%1$s/flow.json.gz
				nifi.flow.configuration.archive.enabled=false
				nifi.flowcontroller.autoResumeState=true
				nifi.flowcontroller.graceful.shutdown.period=2 sec
				nifi.flowservice.writedelay.interval=500 ms
				nifi.administrative.yield.duration=1 sec
				nifi.bored.yield.duration=10 millis
				nifi.nar.library.directory=%2$s/library
				nifi.nar.working.directory=%1$s/nar
				nifi.documentation.working.directory=%1$s/docs
				nifi.state.management.configuration.file=%1$s/state.xml
				nifi.state.management.provider.local=local
				nifi.state.management.provider.cluster=zk
				nifi.state.management.embedded.zookeeper.start=false
				nifi.database.directory=%1$s/database
				nifi.flowfile.repository.implementation=org.apache.nifi.controller.repository.WriteAheadFlowFileRepository
				nifi.flowfile.repository.directory=%1$s/flowfiles
				nifi.swap.manager.implementation=org.apache.nifi.controller.FileSystemSwapManager
				nifi.content.repository.implementation=org.apache.nifi.controller.repository.FileSystemRepository
				nifi.content.repository.directory.default=%1$s/content
				nifi.provenance.repository.implementation=org.apache.nifi.provenance.VolatileProvenanceRepository
				nifi.components.status.repository.implementation=org.apache.nifi.controller.status.history.VolatileComponentStatusRepository
				nifi.web.http.host=%3$s
				nifi.web.http.port=%4$d
				nifi.web.jetty.working.directory=%1$s/jetty
				nifi.web.jetty.threads=20
				nifi.sensitive.props.key=no secrets are here
				nifi.sensitive.props.algorithm=NIFI_PBKDF2_AES_GCM_256
				nifi.cluster.is.node=true
				nifi.cluster.node.address=%3$s
				nifi.cluster.node.protocol.port=%5$d
				nifi.cluster.node.protocol.max.threads=8
				nifi.cluster.protocol.heartbeat.interval=1 sec
				nifi.cluster.protocol.is.secure=false
				nifi.cluster.node.connection.timeout=10 sec
				nifi.cluster.node.read.timeout=10 sec
				nifi.cluster.flow.election.max.wait.time=20 secs
				nifi.cluster.flow.election.max.candidates=2
				nifi.cluster.load.balance.host=%3$s
				nifi.cluster.load.balance.port=%6$d
				nifi.zookeeper.connect.string=%7$s
				nifi.zookeeper.connect.timeout=10 secs
				nifi.zookeeper.session.timeout=10 secs
				nifi.zookeeper.root.node=/nifi
				""".formatted(home, dir, HOST, ports[i], port(), port(), SERVERS));
	}

	private Process node(int i) throws IOException {
		return java("node" + i, "-Xmx384m", "-Dnifi.properties.file.path=" + dir.resolve("node" + i + "/nifi.properties"), "-Dacknowledged=" + dir.resolve("acknowledged"),
				"-Djava.io.tmpdir=" + Files.createDirectories(dir.resolve("node" + i + "/tmp")), "-Dorg.apache.nifi.bootstrap.config.log.dir=" + dir,
				"-cp", System.getenv("PROGRAM") + "/lib/*", "org.apache.nifi.NiFi");
	}

	private String ask(int i, String method, String path, String body) throws IOException, InterruptedException {
		var a = http.send(HttpRequest.newBuilder(URI.create("http://" + HOST + ":" + ports[i] + "/nifi-api" + path)).timeout(Duration.ofSeconds(20))
				.header("Content-Type", "application/json").method(method, body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body)).build(),
				HttpResponse.BodyHandlers.ofString());
		if (a.statusCode() / 100 != 2) {
			throw new IOException(path + ": " + a.statusCode() + " " + a.body());
		}
		return a.body();
	}

	/** The ports of the connected nodes that have the role, as a node says; of all of them if it is "". */
	private List<Integer> having(String role, int asked) throws Exception {
		return NODE.matcher(ask(asked, "GET", "/controller/cluster", null)).results().filter(m -> m.group(2).equals("CONNECTED") && m.group(3).contains(role))
				.map(m -> Integer.valueOf(m.group(1))).collect(Collectors.toList());
	}

	/** Whether each node says the same: both are connected, one is the coordinator, and one the primary node. */
	private boolean complete() throws Exception {
		for (int i = 0; i < nodes.length; i++) {
			if (having("", i).size() != nodes.length || having(COORDINATOR, i).size() != 1 || having(PRIMARY, i).size() != 1) {
				return false;
			}
		}
		return having(PRIMARY, 0).equals(having(PRIMARY, 1)) && having(COORDINATOR, 0).equals(having(COORDINATOR, 1));
	}

	/** Adds the processor to the flow, runs it on the primary node, and returns its id. */
	private String makeCounter() throws Exception {
		var answer = ask(0, "POST", "/process-groups/root/processors", """
				{"revision":{"version":0},"component":{"type":"NiFiCounter","bundle":{"group":"world","artifact":"world","version":"1"},
				"position":{"x":0,"y":0},"config":{"schedulingPeriod":"100 ms","executionNode":"PRIMARY"}}}""");
		var id = Pattern.compile("\"id\":\"([^\"]+)\"").matcher(answer).results().findFirst().orElseThrow().group(1);
		var version = Pattern.compile("\"version\":(\\d+)").matcher(answer).results().findFirst().orElseThrow().group(1);
		ask(0, "PUT", "/processors/" + id + "/run-status", "{\"revision\":{\"version\":" + version + "},\"state\":\"RUNNING\"}");
		return id;
	}

	/** The numbers that were acknowledged. */
	private List<Integer> acknowledged() throws IOException {
		var file = dir.resolve("acknowledged");
		return Files.exists(file) ? Files.readAllLines(file).stream().map(Integer::valueOf).toList() : List.of();
	}

	/** The number in the cluster's state. */
	private int state(int asked) throws Exception {
		return Pattern.compile("\"key\":\"number\",\"value\":\"(\\d+)\"").matcher(ask(asked, "GET", "/processors/" + counter + "/state", null)).results()
				.mapToInt(m -> Integer.parseInt(m.group(1))).max().orElseThrow();
	}

	/** Kills the primary node. */
	@Override
	void kill() throws Exception {
		int primary = having(PRIMARY, 0).get(0) == ports[0] ? 0 : 1, other = 1 - primary;
		nodes[primary].destroyForcibly().waitFor();
		await("another primary node", () -> having(PRIMARY, other).equals(List.of(ports[other])) && having(COORDINATOR, other).equals(List.of(ports[other])));
		int was = acknowledged().size();
		await("numbers by the other node", () -> acknowledged().size() > was + 20);
		nodes[primary] = node(primary);
	}

	@Override
	void settle() throws Exception {
		await("both nodes, a coordinator and a primary node", this::complete);
		int was = acknowledged().size();
		await("new numbers", () -> acknowledged().size() > was + 20);
	}

	@Override
	void end() throws Exception {
		await("both nodes, a coordinator and a primary node", this::complete);
		int coordinators = having(COORDINATOR, 0).size(), primaries = having(PRIMARY, 0).size();
		var numbers = acknowledged();
		int last = numbers.stream().max(Integer::compare).orElseThrow();
		var different = new BitSet();
		numbers.forEach(different::set);
		count("acknowledged", numbers.size());
		count("lost", Math.max(0, last - Math.min(state(0), state(1))));
		count("twice", numbers.size() - different.cardinality());
		count("in-doubt", last - different.cardinality());
		count("coordinators", coordinators);
		count("primaries", primaries);
	}
}

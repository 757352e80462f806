import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.derby.drda.NetworkServerControl;

/**
 * Druid: two coordinators, two overlords, a broker, a historical and a middle manager. Workers get their tasks, and data servers make
 * their segments known, by the servers. Native batch tasks add records, one task after the other; at the end each record
 * of each task that was said to have succeeded is there once. An overlord is not a coordinator, too (asOverlord): there a new leader was
 * seen that never read its metadata store, which is not on the servers, and so had no segment loaded.
 */
final class Druid extends World {
	private static final int RECORDS = 100; // of a task
	private static final int SPACE = 1_000_000_000; // for segments, in bytes
	private static final ObjectMapper JSON = new ObjectMapper();
	private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).followRedirects(HttpClient.Redirect.NORMAL).build();
	private final Pair coordinators = new Pair("coordinator", "/druid/coordinator/v1/isLeader"), overlords = new Pair("overlord", "/druid/indexer/v1/isLeader");
	private final Set<String> succeeded = new ConcurrentSkipListSet<>();
	private final AtomicLong failed = new AtomicLong(), longest = new AtomicLong();
	private final List<String> settings = new ArrayList<>();
	private volatile boolean working = true;
	private Process historical;
	private int broker, historicalPort;
	private Thread adding;

	public static void main(String[] args) {
		new Druid().run();
	}

	@Override
	void start() throws Exception {
		int metadata = port();
		System.setProperty("derby.system.home", dir.resolve("metadata").toString());
		new NetworkServerControl(InetAddress.getByName("127.0.0.1"), metadata).start(null); // the coordinators start one, too, and find its port taken
		configure(metadata);
		for (var p : List.of(coordinators, overlords)) { // the first one of each makes its tables, which two do not at once
			p.start(0);
			await("a leading " + p.kind, () -> p.leader() >= 0);
			p.start(1);
		}
		broker = port();
		historicalPort = port();
		service("broker", "broker", broker, "druid.server.http.numThreads=10");
		historical = historical();
		service("middle", "middleManager", port());
		adding = thread("add", this::add);
		await("records", () -> !succeeded.isEmpty() && complete());
	}

	/** What all of its processes are told, tasks included. */
	private void configure(int metadata) throws IOException {
		for (var p : List.of("java.base/java.nio", "java.base/java.lang", "java.base/java.io", "java.base/jdk.internal.misc", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
				"jdk.management/com.sun.management.internal")) {
			settings.add("--add-opens=" + p + "=ALL-UNNAMED");
		}
		settings.addAll(List.of("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-XX:MaxDirectMemorySize=128m", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8",
				"-Dorg.apache.logging.log4j.level=INFO"));
		Files.createDirectories(dir.resolve("extensions"));
		write("classes/common.runtime.properties", """
				druid.extensions.directory=%1$s/extensions
				druid.extensions.loadList=[]
				druid.host=127.0.0.1
				druid.zk.service.host=%2$s
				druid.zk.service.sessionTimeoutMs=10000
				druid.zk.service.connectionTimeoutMs=10000
				druid.serverview.type=batch
				druid.lookup.enableLookupSyncOnStartup=false
				druid.metadata.storage.type=derby
				druid.metadata.storage.connector.connectURI=jdbc:derby://127.0.0.1:%3$d/metadata;create=true
				druid.metadata.storage.connector.host=127.0.0.1
				druid.metadata.storage.connector.port=%3$d
				druid.storage.type=local
				druid.storage.storageDirectory=%1$s/segments
				druid.indexer.logs.type=file
				druid.indexer.logs.directory=%1$s/tasklogs
				druid.indexer.storage.type=metadata
				druid.indexer.runner.type=remote
				druid.indexer.runner.ports=[%4$s]
				druid.indexer.runner.javaOptsArray=%5$s
				druid.indexer.task.baseDir=%1$s/tasks
				druid.indexer.queue.startDelay=PT1S
				druid.worker.capacity=1
				druid.coordinator.startDelay=PT5S
				druid.coordinator.period=PT5S
				druid.manager.segments.pollDuration=PT2S
				druid.manager.rules.pollDuration=PT5S
				druid.segmentCache.locations=[{"path":"%1$s/cache","maxSize":%6$d}]
				druid.server.maxSize=%6$d
				druid.server.http.numThreads=8
				druid.processing.buffer.sizeBytes=10000000
				druid.processing.numThreads=1
				druid.processing.numMergeBuffers=2
				""".formatted(dir, SERVERS, metadata, port() + "," + port(),
				JSON.writeValueAsString(settings), SPACE));
	}

	private Process service(String name, String kind, int port, String... more) throws IOException {
		var all = new ArrayList<>(settings);
		all.addAll(List.of("-Djava.io.tmpdir=" + Files.createDirectories(dir.resolve("tmp-" + name)), "-Ddruid.service=druid/" + kind, "-Ddruid.plaintextPort=" + port));
		for (var m : more) {
			all.add("-D" + m);
		}
		all.addAll(List.of("org.apache.druid.cli.Main", "server", kind));
		return java(name, all.toArray(String[]::new));
	}

	private Process historical() throws IOException {
		return service("historical", "historical", historicalPort);
	}

	private JsonNode ask(int port, String path, Object body) throws IOException, InterruptedException {
		var r = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path)).timeout(Duration.ofSeconds(20)).header("Content-Type", "application/json");
		if (body != null) {
			r.POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body)));
		}
		var a = http.send(r.build(), HttpResponse.BodyHandlers.ofString());
		if (a.statusCode() != 200) {
			throw new IOException(path + ": " + a.statusCode() + " " + a.body());
		}
		return JSON.readTree(a.body());
	}

	/** Asks one overlord after the other. */
	private JsonNode askOverlord(String path, Object body) throws IOException, InterruptedException {
		IOException last = null;
		for (int port : overlords.ports) {
			try {
				return ask(port, path, body);
			} catch (IOException e) {
				last = e;
			}
		}
		throw last;
	}

	/** Two services of a kind, of which one leads. */
	private final class Pair {
		final String kind, isLeader;
		final Process[] processes = new Process[2];
		final int[] ports = new int[processes.length];

		Pair(String kind, String isLeader) {
			this.kind = kind;
			this.isLeader = isLeader;
		}

		void start(int i) throws IOException {
			if (ports[i] == 0) {
				ports[i] = port();
			}
			processes[i] = service(kind + i, kind, ports[i]);
		}

		/** The index of the one that says that it leads, or -1. */
		int leader() throws InterruptedException {
			int leader = -1;
			for (int i = 0; i < ports.length; i++) {
				if (processes[i] == null || !processes[i].isAlive()) {
					continue;
				}
				try {
					if (ask(ports[i], isLeader, null).path("leader").asBoolean()) {
						if (leader >= 0) {
							return -1; // it has just changed
						}
						leader = i;
					}
				} catch (IOException e) {
					// It answers 404 when it does not lead.
				}
			}
			return leader;
		}

		/** Kills the leader, and starts it again when the other one leads. */
		void killLeader() throws Exception {
			var was = new int[1];
			await("a leading " + kind, () -> (was[0] = leader()) >= 0);
			processes[was[0]].destroyForcibly().waitFor();
			await("another leading " + kind, () -> leader() >= 0);
			start(was[0]);
		}
	}

	private boolean bothLeaders() throws InterruptedException {
		return coordinators.leader() >= 0 && overlords.leader() >= 0;
	}

	/** The specification of a task that adds records to the table. */
	private static Map<String, Object> task(String id) {
		var lines = IntStream.range(0, RECORDS).mapToObj(n -> "{\"time\":\"2020-01-01T00:00:00Z\",\"task\":\"%s\",\"n\":\"%d\"}".formatted(id, n))
				.collect(Collectors.joining("\n"));
		return Map.of("type", "index_parallel", "id", id, "spec", Map.of(
				"dataSchema", Map.of("dataSource", "records", "timestampSpec", Map.of("column", "time", "format", "iso"),
						"dimensionsSpec", Map.of("dimensions", List.of("task", "n")),
						"granularitySpec", Map.of("segmentGranularity", "day", "rollup", false)),
				"ioConfig", Map.of("type", "index_parallel", "inputSource", Map.of("type", "inline", "data", lines), "inputFormat", Map.of("type", "json"), "appendToExisting", true),
				"tuningConfig", Map.of("type", "index_parallel", "maxNumConcurrentSubTasks", 1)));
	}

	/** Runs one task after the other. One that fails is counted, and nothing is said of its records. */
	private void add() throws Exception {
		for (int n = 0; working; n++) {
			var id = "task-" + n;
			long begin = System.nanoTime();
			await("the end of " + id, () -> hasEnded(id));
			longest.accumulateAndGet(System.nanoTime() - begin, Math::max);
		}
	}

	/** Submits the task if the overlord does not know it. */
	private boolean hasEnded(String id) throws Exception {
		String status = "";
		try {
			status = askOverlord("/druid/indexer/v1/task/" + id + "/status", null).path("status").path("statusCode").asText();
		} catch (IOException e) {
			if (!e.getMessage().contains(": 404 ")) {
				throw e;
			}
			askOverlord("/druid/indexer/v1/task", task(id));
		}
		if (status.equals("SUCCESS")) {
			succeeded.add(id);
		} else if (status.equals("FAILED")) {
			failed.incrementAndGet();
		}
		return status.equals("SUCCESS") || status.equals("FAILED");
	}

	/** How many records and how many different ones each task has. */
	private Map<String, int[]> found() throws Exception {
		var all = new HashMap<String, int[]>();
		var query = Map.of("queryType", "groupBy", "dataSource", "records", "granularity", "all", "dimensions", List.of("task", "n"),
				"intervals", List.of("2020-01-01/2020-01-02"), "aggregations", List.of(Map.of("type", "count", "name", "rows")),
				"context", Map.of("useCache", false));
		for (var row : ask(broker, "/druid/v2", query)) {
			var have = all.computeIfAbsent(row.path("event").path("task").asText(), t -> new int[2]);
			have[0] += row.path("event").path("rows").asInt();
			have[1]++;
		}
		return all;
	}

	private static long lost(Set<String> tasks, Map<String, int[]> found) {
		return tasks.stream().mapToLong(t -> RECORDS - found.getOrDefault(t, new int[2])[1]).sum();
	}

	/** Whether queries find each record of the tasks that have succeeded. */
	private boolean complete() throws Exception {
		return lost(Set.copyOf(succeeded), found()) == 0;
	}

	/** Kills the leading coordinator, the leading overlord and the historical, one after the other. */
	@Override
	void kill() throws Exception {
		coordinators.killLeader();
		overlords.killLeader();
		historical.destroyForcibly().waitFor();
		historical = historical();
	}

	@Override
	void settle() throws Exception {
		await("both leaders", this::bothLeaders);
		int was = succeeded.size();
		await("another task", () -> succeeded.size() > was);
		await("the records of all tasks", this::complete);
	}

	@Override
	void end() throws Exception {
		working = false;
		adding.join();
		try {
			await("the records of all tasks", this::complete);
		} catch (Exception e) {
			System.err.println(e); // the counts say how many are not there
		}
		var found = found();
		count("tasks", succeeded.size());
		count("acknowledged", succeeded.size() * RECORDS);
		count("lost", lost(succeeded, found));
		count("twice", found.values().stream().mapToLong(have -> have[0] - have[1]).sum());
		count("failed", failed.get());
		count("longest-ms", longest.get() / 1_000_000);
	}
}

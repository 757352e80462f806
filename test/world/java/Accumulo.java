import java.nio.file.Files;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.accumulo.core.client.AccumuloClient;
import org.apache.accumulo.core.client.BatchWriterConfig;
import org.apache.accumulo.core.client.TableExistsException;
import org.apache.accumulo.core.client.security.tokens.PasswordToken;
import org.apache.accumulo.core.data.Mutation;
import org.apache.accumulo.core.security.Authorizations;
import org.apache.accumulo.minicluster.MemoryUnit;
import org.apache.accumulo.minicluster.ServerType;
import org.apache.accumulo.miniclusterImpl.MiniAccumuloClusterImpl;
import org.apache.accumulo.miniclusterImpl.MiniAccumuloConfigImpl;
import org.apache.hadoop.conf.Configuration;

/**
 * Accumulo: a manager and two tablet servers on a local file system, by its MiniAccumuloCluster. Rows are written while
 * tables are created; at the end each acknowledged row is read.
 */
final class Accumulo extends World {
	private static final String PASSWORD = "secret1";
	private final BitSet acknowledged = new BitSet();
	private final List<String> tables = new ArrayList<>();
	private final AtomicLong repeated = new AtomicLong(), longest = new AtomicLong();
	private volatile boolean working = true;
	private MiniAccumuloClusterImpl cluster;
	private AccumuloClient client;
	private Thread writing, creating;

	public static void main(String[] args) {
		new Accumulo().run();
	}

	@Override
	void start() throws Exception {
		var config = new MiniAccumuloConfigImpl(Files.createDirectory(dir.resolve("accumulo")).toFile(), PASSWORD);
		config.setExistingZooKeepers(SERVERS);
		config.setNumTservers(2);
		config.setDefaultMemory(256, MemoryUnit.MEGABYTE);
		config.setSiteConfig(Map.of("instance.zookeeper.timeout", "9s", "tserver.memory.maps.native.enabled", "false", "tserver.memory.maps.max", "64M",
				"tserver.cache.data.size", "8M", "tserver.cache.index.size", "8M", "tserver.walog.max.size", "64M", "table.durability", "sync"));
		cluster = new MiniAccumuloClusterImpl(config);
		var core = new Configuration(false);
		core.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem"); // the other one keeps what is to be on the disk
		try (var out = Files.newOutputStream(config.getConfDir().toPath().resolve("core-site.xml"))) {
			core.writeXml(out);
		}
		cluster.start();
		client = cluster.createAccumuloClient("root", new PasswordToken(PASSWORD));
		create("rows");
		writing = thread("write", this::write);
		creating = thread("createTables", this::createTables);
		await("first rows", () -> count() > 100);
	}

	private void create(String name) throws Exception {
		try {
			client.tableOperations().create(name);
		} catch (TableExistsException e) {
			// Its answer was lost.
		}
	}

	private void write() throws Exception {
		var config = new BatchWriterConfig().setTimeout(20, TimeUnit.SECONDS);
		for (int n = 0; working; n++) {
			long begin = System.nanoTime();
			for (boolean done = false; !done && working;) {
				try (var writer = client.createBatchWriter("rows", config)) {
					var m = new Mutation("" + n);
					m.put("f", "q", "" + n);
					writer.addMutation(m);
					writer.flush();
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

	private void createTables() throws Exception {
		for (int n = 0; working; n++) {
			for (boolean done = false; !done && working;) {
				try {
					create("t" + n);
					tables.add("t" + n);
					done = true;
				} catch (Exception e) {
					Thread.sleep(500);
				}
			}
			Thread.sleep(3000);
		}
	}

	private int count() {
		synchronized (acknowledged) {
			return acknowledged.cardinality();
		}
	}

	/** Kills a tablet server and the manager. */
	@Override
	void kill() throws Exception {
		for (var part : List.of(ServerType.TABLET_SERVER, ServerType.MANAGER)) {
			var one = cluster.getProcesses().get(part).iterator().next();
			one.getProcess().destroyForcibly().waitFor();
			Thread.sleep(12_000); // longer than its session
			cluster.killProcess(part, one); // so that it knows
			cluster.getClusterControl().start(part);
			settle();
		}
	}

	@Override
	void settle() throws Exception {
		await("two tablet servers", () -> client.instanceOperations().getTabletServers().size() == 2);
		int was = count();
		await("new rows", () -> count() > was + 50);
	}

	@Override
	void end() throws Exception {
		working = false;
		writing.join();
		creating.join();
		var found = new BitSet();
		try (var scanner = client.createScanner("rows", Authorizations.EMPTY)) {
			for (var e : scanner) {
				check(e.getKey().getRow().toString().equals(e.getValue().toString()), "row " + e);
				found.set(Integer.parseInt(e.getValue().toString()));
			}
		}
		var lost = (BitSet) acknowledged.clone();
		lost.andNot(found);
		for (var t : tables) {
			check(client.tableOperations().exists(t), "lost table " + t);
		}
		count("acknowledged", count());
		count("lost", lost.cardinality());
		count("repeated", repeated.get());
		count("longest-ms", longest.get() / 1_000_000);
		count("tables", tables.size());
		cluster.stop();
	}
}

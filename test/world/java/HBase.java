import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableExistsException;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * HBase: two masters and two region servers on a local file system. Rows are put into a table of four regions while
 * tables are created; at the end each acknowledged row is read. With SUPERVISED a part that ends by
 * itself, as one does whose session has expired, is started again.
 */
final class HBase extends World {
	private static final byte[] FAMILY = Bytes.toBytes("f");
	private static final boolean SUPERVISED = Boolean.getBoolean("supervised");
	private final Process[] masters = new Process[2], regions = new Process[2];
	private final BitSet acknowledged = new BitSet();
	private final List<String> tables = new ArrayList<>();
	private final AtomicLong refused = new AtomicLong(), longest = new AtomicLong(), restarts = new AtomicLong();
	private volatile boolean working = true;
	private Configuration conf;
	private Connection connection;
	private Thread putting, creating;

	public static void main(String[] args) {
		new HBase().run();
	}

	@Override
	void start() throws Exception {
		conf = configuration("client", 0, 0);
		for (int i = 0; i < 2; i++) {
			masters[i] = part("master", i);
			regions[i] = part("region", i);
		}
		connection = ConnectionFactory.createConnection(conf);
		await("an active master and two region servers", () -> {
			try (var admin = connection.getAdmin()) {
				return admin.getClusterMetrics().getLiveServerMetrics().size() == 2;
			}
		});
		await("the table", () -> {
			create("rows", true);
			return true;
		});
		putting = thread("put", this::put);
		creating = thread("createTables", this::createTables);
		await("first rows", () -> count() > 100);
	}

	private Process part(String role, int i) throws Exception {
		var name = role + i;
		configuration(name, port(), port());
		var args = new ArrayList<String>(List.of("-Dhbase.log.dir=" + dir, "-Dhbase.root.logger=INFO,console", "-Xms64m"));
		for (var p : List.of("java.base/java.lang", "java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang.reflect", "java.base/jdk.internal.ref", "java.base/jdk.internal.misc", "java.base/java.util.concurrent")) {
			args.add("--add-opens=" + p + "=ALL-UNNAMED");
		}
		args.add("HBase$Part");
		args.add(role);
		args.add(dir.resolve(name + ".xml").toString());
		var p = java(name, args.toArray(String[]::new));
		if (SUPERVISED) {
			supervise(p, () -> {
				restarts.incrementAndGet();
				part(role, i);
			});
		}
		return p;
	}

	/** A master or a region server, in a process of its own. */
	static final class Part {
		public static void main(String[] args) throws Exception {
			var conf = HBaseConfiguration.create();
			conf.addResource(new org.apache.hadoop.fs.Path(args[1]));
			var t = args[0].equals("master") ? new org.apache.hadoop.hbase.master.HMaster(conf) : new org.apache.hadoop.hbase.regionserver.HRegionServer(conf);
			t.start();
			t.join();
			System.exit(3);
		}
	}

	private Configuration configuration(String name, int rpc, int info) throws Exception {
		var c = HBaseConfiguration.create();
		c.clear();
		c = new Configuration(false);
		c.set("hbase.rootdir", "file://" + dir.resolve("hbase"));
		c.set("hbase.tmp.dir", dir.resolve("tmp").toString());
		c.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem");
		c.set("hbase.wal.provider", "filesystem");
		c.set("hbase.unsafe.stream.capability.enforce", "false");
		c.set("hbase.cluster.distributed", "true");
		c.set("hbase.zookeeper.quorum", SERVERS);
		c.set("zookeeper.session.timeout", "9000");
		c.set("zookeeper.recovery.retry", "8"); // on a slow machine the first handshakes of TLS take longer than its client waits
		c.set("hbase.master.port", "" + rpc);
		c.set("hbase.regionserver.port", "" + rpc);
		c.set("hbase.master.info.port", "-1");
		c.set("hbase.regionserver.info.port", "-1");
		c.set("hbase.master.hostname", "localhost");
		c.set("hbase.regionserver.hostname", "localhost");
		c.set("hbase.regionserver.handler.count", "5");
		c.set("hbase.client.registry.impl", "org.apache.hadoop.hbase.client.ZKConnectionRegistry");
		c.set("hbase.client.retries.number", "8");
		c.set("hbase.rpc.timeout", "10000");
		c.set("hbase.client.operation.timeout", "30000");
		c.set("hbase.master.maxclockskew", "60000");
		c.set("hbase.procedure.store.region.wal.hsync.enforce", "false");
		try (var out = java.nio.file.Files.newOutputStream(dir.resolve(name + ".xml"))) {
			c.writeXml(out);
		}
		var full = HBaseConfiguration.create();
		c.forEach(e -> full.set(e.getKey(), e.getValue()));
		return full;
	}

	private void create(String name, boolean split) throws Exception {
		try (Admin admin = connection.getAdmin()) {
			var t = TableDescriptorBuilder.newBuilder(TableName.valueOf(name)).setColumnFamily(ColumnFamilyDescriptorBuilder.of(FAMILY)).build();
			try {
				if (split) {
					admin.createTable(t, new byte[][] {Bytes.toBytes("3"), Bytes.toBytes("5"), Bytes.toBytes("7")});
				} else {
					admin.createTable(t);
				}
			} catch (TableExistsException e) {
				// Its answer was lost.
			}
		}
	}

	private static byte[] row(int n) {
		return Bytes.toBytes(new StringBuilder().append(n).reverse().toString());
	}

	private void put() throws Exception {
		for (int n = 0; working; n++) {
			long begin = System.nanoTime();
			for (boolean done = false; !done && working;) {
				try (var table = connection.getTable(TableName.valueOf("rows"))) {
					table.put(new Put(row(n)).addColumn(FAMILY, FAMILY, Bytes.toBytes(n)));
					synchronized (acknowledged) {
						acknowledged.set(n);
					}
					done = true;
				} catch (Exception e) {
					refused.incrementAndGet();
					Thread.sleep(200);
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
					create("t" + n, false);
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

	/** Kills a region server and the active master. */
	@Override
	void kill() throws Exception {
		regions[0].destroyForcibly().waitFor();
		Thread.sleep(12_000); // longer than its session
		regions[0] = part("region", 0);
		settle();
		masters[0].destroyForcibly().waitFor();
		Thread.sleep(12_000);
		masters[0] = part("master", 0);
	}

	@Override
	void settle() throws Exception {
		await("a master, a backup and two region servers", () -> {
			try (var admin = connection.getAdmin()) {
				var m = admin.getClusterMetrics();
				return m.getLiveServerMetrics().size() == 2 && m.getBackupMasterNames().size() == 1 && m.getRegionStatesInTransition().isEmpty();
			}
		});
		int was = count();
		await("new rows", () -> count() > was + 50);
	}

	@Override
	void end() throws Exception {
		working = false;
		putting.join();
		creating.join();
		var found = new BitSet();
		try (var table = connection.getTable(TableName.valueOf("rows")); var scan = table.getScanner(new Scan())) {
			for (Result r : scan) {
				found.set(Bytes.toInt(r.getValue(FAMILY, FAMILY)));
			}
		}
		var lost = (BitSet) acknowledged.clone();
		lost.andNot(found);
		check(lost.isEmpty(), "lost rows: " + lost);
		try (var admin = connection.getAdmin()) {
			for (var t : tables) {
				check(admin.isTableAvailable(TableName.valueOf(t)), "lost table " + t);
			}
		}
		count("acknowledged", count());
		count("lost", lost.cardinality());
		count("repeated", refused.get());
		count("longest-ms", longest.get() / 1_000_000);
		count("tables", tables.size());
		if (SUPERVISED) {
			count("restarts", restarts.get());
		}
	}
}

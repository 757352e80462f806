import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.ha.HAServiceProtocol.HAServiceState;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.hdfs.tools.DFSHAAdmin;
import org.apache.hadoop.hdfs.tools.DFSZKFailoverController;
import org.apache.hadoop.hdfs.tools.NNHAServiceTarget;

/**
 * HDFS with automatic failover: two name nodes with a shared edit log, each with its ZKFC, all in processes of their
 * own. Directories are made all the time; at the end each acknowledged one is there.
 */
final class Hdfs extends World {
	private final Process[] names = new Process[2], controllers = new Process[2];
	private final int[] rpc = new int[2], http = new int[2], zkfc = new int[2];
	private final Set<String> acknowledged = new ConcurrentSkipListSet<>();
	private final AtomicLong refused = new AtomicLong(), longest = new AtomicLong();
	private volatile boolean working = true;
	private Configuration conf;
	private FileSystem fs;
	private Thread making;
	private int failovers, active;

	public static void main(String[] args) {
		new Hdfs().run();
	}

	/** Runs a program of Hadoop with a configuration from a file. */
	static final class Part {
		public static void main(String[] args) throws Exception {
			Configuration.addDefaultResource("hdfs-site.xml");
			var conf = new HdfsConfiguration();
			conf.addResource(new Path(args[1]));
			switch (args[0]) {
				case "format" -> {
					NameNode.createNameNode(new String[] {"-format", "-force", "-nonInteractive"}, conf);
				}
				case "standby" -> NameNode.createNameNode(new String[] {"-bootstrapStandby", "-force", "-nonInteractive"}, conf);
				case "name" -> NameNode.createNameNode(new String[0], conf).join();
				case "formatZK" -> System.exit(DFSZKFailoverController.create(conf).run(new String[] {"-formatZK", "-force", "-nonInteractive"}));
				case "zkfc" -> System.exit(DFSZKFailoverController.create(conf).run(new String[0]));
				default -> throw new IllegalArgumentException(args[0]);
			}
		}
	}

	private Configuration configuration(int node) throws Exception {
		var c = new Configuration(false);
		c.set("fs.defaultFS", "hdfs://world");
		c.set("dfs.nameservices", "world");
		c.set("dfs.ha.namenodes.world", "nn0,nn1");
		for (int i = 0; i < 2; i++) {
			c.set("dfs.namenode.rpc-address.world.nn" + i, "127.0.0.1:" + rpc[i]);
			c.set("dfs.namenode.http-address.world.nn" + i, "127.0.0.1:" + http[i]);
			c.set("dfs.ha.zkfc.port.world.nn" + i, "" + zkfc[i]);
		}
		c.set("dfs.ha.namenode.id", "nn" + node);
		c.set("dfs.namenode.name.dir", "file://" + dir.resolve("name" + node));
		c.set("dfs.namenode.shared.edits.dir", "file://" + dir.resolve("edits"));
		c.set("dfs.ha.automatic-failover.enabled", "true");
		c.set("ha.zookeeper.quorum", SERVERS);
		c.set("ha.zookeeper.session-timeout.ms", "10000");
		c.set("dfs.ha.fencing.methods", "shell(/bin/true)");
		c.set("dfs.ha.tail-edits.period", "2s");
		c.set("dfs.client.failover.proxy.provider.world", "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider");
		c.set("dfs.client.failover.max.attempts", "30");
		c.set("dfs.permissions.enabled", "false");
		c.set("dfs.namenode.safemode.threshold-pct", "0");
		c.set("dfs.namenode.safemode.extension", "0");
		c.set("hadoop.tmp.dir", dir.resolve("tmp").toString());
		c.set("ha.health-monitor.rpc-timeout.ms", "60000");
		try (var out = Files.newOutputStream(dir.resolve("site" + node + ".xml"))) {
			c.writeXml(out);
		}
		var full = new HdfsConfiguration();
		c.forEach(e -> full.set(e.getKey(), e.getValue()));
		return full;
	}

	private Process part(String name, String what, int node) throws Exception {
		return java(name, "-Xms48m", "-Dhadoop.root.logger=INFO,console", "--add-opens=java.base/java.lang=ALL-UNNAMED", "Hdfs$Part", what, dir.resolve("site" + node + ".xml").toString());
	}

	@Override
	void start() throws Exception {
		Files.createDirectories(dir.resolve("edits"));
		Files.createDirectories(dir.resolve("classes/webapps/hdfs")); // its pages, which its jars do not have
		for (int i = 0; i < 2; i++) {
			rpc[i] = port();
			http[i] = port();
			zkfc[i] = port();
		}
		conf = configuration(0);
		configuration(1);
		part("format", "format", 0).waitFor();
		var format = part("formatZK", "formatZK", 0);
		check(format.waitFor() == 0, "formatZK: " + format.exitValue());
		names[0] = part("name0", "name", 0);
		controllers[0] = part("zkfc0", "zkfc", 0);
		await("an active name node", () -> state(0) == HAServiceState.ACTIVE);
		part("standby", "standby", 1).waitFor();
		names[1] = part("name1", "name", 1);
		controllers[1] = part("zkfc1", "zkfc", 1);
		await("a standby", () -> state(1) == HAServiceState.STANDBY);
		fs = FileSystem.get(conf);
		making = thread("make", this::make);
		await("first directories", () -> acknowledged.size() > 100);
	}

	private HAServiceState state(int i) throws Exception {
		return new NNHAServiceTarget(conf, "world", "nn" + i).getProxy(conf, 5000).getServiceStatus().getState();
	}

	private void make() throws Exception {
		for (int n = 0; working; n++) {
			long begin = System.nanoTime();
			var path = "/d" + n % 50 + "/d" + n;
			for (boolean done = false; !done && working;) {
				try {
					done = fs.mkdirs(new Path(path));
					acknowledged.add(path);
				} catch (Exception e) {
					refused.incrementAndGet();
					Thread.sleep(200);
				}
			}
			longest.accumulateAndGet(System.nanoTime() - begin, Math::max);
			Thread.sleep(10);
		}
	}

	/** Kills the active name node, and then the controller of the active one. */
	@Override
	void kill() throws Exception {
		int i = active();
		names[i].destroyForcibly().waitFor();
		await("a failover", () -> state(1 - i) == HAServiceState.ACTIVE);
		names[i] = part("name" + i, "name", i);
		settle();
		int k = active();
		controllers[k].destroyForcibly().waitFor();
		await("a failover", () -> state(1 - k) == HAServiceState.ACTIVE);
		controllers[k] = part("zkfc" + k, "zkfc", k);
	}

	private int active() throws Exception {
		int i = state(0) == HAServiceState.ACTIVE ? 0 : 1;
		check(state(1 - i) != HAServiceState.ACTIVE, "two active name nodes");
		return i;
	}

	@Override
	void settle() throws Exception {
		await("an active and a standby name node", () -> Set.of(state(0), state(1)).equals(Set.of(HAServiceState.ACTIVE, HAServiceState.STANDBY)));
		int now = active();
		failovers += now == active ? 0 : 1;
		active = now;
		int was = acknowledged.size();
		await("new directories", () -> acknowledged.size() > was + 50);
	}

	@Override
	void end() throws Exception {
		working = false;
		making.join();
		Set<String> found = new java.util.HashSet<>();
		for (var d : fs.listStatus(new Path("/"))) {
			for (var e : fs.listStatus(d.getPath())) {
				found.add(e.getPath().toUri().getPath());
			}
		}
		List<String> lost = new ArrayList<>(acknowledged);
		lost.removeAll(found);
		check(lost.isEmpty(), "lost directories: " + lost);
		count("acknowledged", acknowledged.size());
		count("lost", lost.size());
		count("repeated", refused.get());
		count("longest-ms", longest.get() / 1_000_000);
		count("failovers", failovers);
	}
}

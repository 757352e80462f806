import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.lite.api.bootstrap.impl.ScheduleJobBootstrap;
import org.apache.shardingsphere.elasticjob.reg.zookeeper.ZookeeperConfiguration;
import org.apache.shardingsphere.elasticjob.reg.zookeeper.ZookeeperRegistryCenter;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;

/**
 * ElasticJob: a job of six shards that runs each second on three instances in processes of their own. Whenever all is
 * well each shard runs, and each instance has some; no run of a shard overlaps another one.
 */
final class ElasticJob extends World {
	private static final int SHARDS = 6, INSTANCES = 3, RUN = 300; // ms
	private final Process[] instances = new Process[INSTANCES];
	private int settled;

	public static void main(String[] args) {
		new ElasticJob().run();
	}

	/** An instance, in a process of its own. It writes when it began and ended a shard. */
	static final class Instance {
		public static void main(String[] args) throws Exception {
			var c = new ZookeeperConfiguration(SERVERS, "world");
			c.setSessionTimeoutMilliseconds(10_000);
			c.setConnectionTimeoutMilliseconds(30_000);
			var center = new ZookeeperRegistryCenter(c);
			center.init();
			var file = Path.of("runs" + args[0]);
			var job = JobConfiguration.newBuilder("job", SHARDS).cron("0/1 * * * * ?").overwrite(true).jobShardingStrategyType("AVG_ALLOCATION")
					.build();
			new ScheduleJobBootstrap(center, (SimpleJob) s -> run(file, args[0], s), job).schedule();
			Thread.currentThread().join();
		}

		private static void run(Path file, String name, ShardingContext s) {
			try {
				long begin = System.currentTimeMillis();
				Thread.sleep(RUN);
				synchronized (Instance.class) {
					Files.writeString(file, s.getShardingItem() + " " + begin + " " + System.currentTimeMillis() + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
				}
			} catch (Exception e) {
				throw new IllegalStateException(e);
			}
		}
	}

	private Process instance(int i) throws Exception {
		// An instance is named by its address and process.
		return java("instance" + i, "ElasticJob$Instance", "" + i);
	}

	@Override
	void start() throws Exception {
		for (int i = 0; i < INSTANCES; i++) {
			instances[i] = instance(i);
			// One that starts while the shards are given to others gets none until there is another change.
			int n = i + 1;
			await("each instance has shards", () -> used(System.currentTimeMillis()) == n);
		}
		settle();
	}

	/** A run of a shard. */
	private record Run(int instance, int shard, long begin, long end) {}

	private Set<Run> runs(long since) throws Exception {
		var all = new HashSet<Run>();
		for (int i = 0; i < INSTANCES; i++) {
			var file = dir.resolve("runs" + i);
			if (!Files.exists(file)) {
				continue;
			}
			for (var line : Files.readAllLines(file)) {
				var w = line.split(" ");
				if (w.length == 3 && Long.parseLong(w[1]) >= since) {
					all.add(new Run(i, Integer.parseInt(w[0]), Long.parseLong(w[1]), Long.parseLong(w[2])));
				}
			}
		}
		return all;
	}

	@Override
	void kill() throws Exception {
		instances[0].destroyForcibly().waitFor();
		Thread.sleep(15_000); // longer than its session
		long now = System.currentTimeMillis();
		await("the others have all shards", () -> shards(now).size() == SHARDS);
		instances[0] = instance(0);
	}

	/** Each shard that ran since then, and the instances that it ran on. */
	private Map<Integer, Set<Integer>> shards(long since) throws Exception {
		var shards = new HashMap<Integer, Set<Integer>>();
		for (var r : runs(since)) {
			shards.computeIfAbsent(r.shard, k -> new HashSet<>()).add(r.instance);
		}
		return shards;
	}

	/** How many instances have shards, if each shard has run soon after then. */
	private int used(long then) throws Exception {
		Thread.sleep(5000);
		var shards = shards(then);
		var used = new HashSet<Integer>();
		shards.values().forEach(used::addAll);
		return shards.size() == SHARDS ? used.size() : 0;
	}

	@Override
	void settle() throws Exception {
		await("each shard runs, and each instance has some", () -> used(System.currentTimeMillis()) == INSTANCES);
		settled++;
	}

	@Override
	void end() throws Exception {
		settle();
		var all = runs(0);
		int overlaps = 0;
		for (var a : all) {
			for (var b : all) {
				if (a.shard == b.shard && a.instance < b.instance && a.begin < b.end && b.begin < a.end) {
					overlaps++;
				}
			}
		}
		count("runs", all.size());
		count("overlaps", overlaps);
		count("settled", settled);
	}
}

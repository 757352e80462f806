import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.generated.AlreadyAliveException;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.Utils;

/**
 * Storm: two nimbuses that elect the leader and keep topologies on the servers, and their code on both. Topologies are submitted all
 * the time; at the end the leader knows each acknowledged one. There are no supervisors, so none of them runs.
 * A nimbus ends by itself after an error, such as one of two of its threads that delete the same znode, and is started again.
 */
final class Storm extends World {
	private final Process[] nimbuses = new Process[2];
	private final int[] ports = new int[nimbuses.length];
	private final Set<String> acknowledged = new ConcurrentSkipListSet<>();
	private final AtomicLong repeated = new AtomicLong(), longest = new AtomicLong(), restarts = new AtomicLong();
	private volatile boolean working = true;
	private Thread submitting;

	public static void main(String[] args) {
		new Storm().run();
	}

	/** Storm knows nimbuses by their hosts. */
	private static String host(int i) {
		return "127.0.0." + (i + 1);
	}

	private void startNimbus(int i) throws Exception {
		nimbuses[i] = nimbus(i);
		supervise(nimbuses[i], () -> {
			restarts.incrementAndGet();
			startNimbus(i);
		});
	}

	private Process nimbus(int i) throws Exception {
		var home = Files.createDirectories(dir.resolve("nimbus" + i));
		// Storm joins the servers' names with commas and puts one port after each: so this is one name.
		var last = SERVERS.lastIndexOf(':');
		var file = write("nimbus" + i + ".yaml", """
				storm.zookeeper.servers: ["%s"]
				storm.zookeeper.port: %s
				storm.zookeeper.session.timeout: 10000
				storm.local.dir: "%s"
				storm.local.hostname: "%s"
				nimbus.seeds: ["127.0.0.1"]
				nimbus.thrift.port: %d
				nimbus.thrift.threads: 8
				nimbus.code.sync.freq.secs: 5
				topology.min.replication.count: 2
				topology.max.replication.wait.time.sec: 10
				""".formatted(SERVERS.substring(0, last), SERVERS.substring(last + 1), home, host(i), ports[i]));
		return java("nimbus" + i, "-Dstorm.home=" + home, "-Dstorm.log.dir=" + home, "-Dstorm.conf.file=" + file, "org.apache.storm.daemon.nimbus.Nimbus");
	}

	@Override
	void start() throws Exception {
		for (int i = 0; i < nimbuses.length; i++) {
			ports[i] = port();
			startNimbus(i);
		}
		await("two nimbuses", this::bothNimbuses);
		submitting = thread("submit", this::submit);
		await("first topologies", () -> acknowledged.size() > 5);
	}

	/** A question for a nimbus. */
	private interface Question<T> {
		T ask(Nimbus.Iface nimbus) throws Exception;
	}

	/** Asks the leader, which each nimbus can name. */
	private <T> T ask(Question<T> q) throws Exception {
		Exception last = null;
		for (int i = 0; i < nimbuses.length; i++) {
			var conf = Utils.readDefaultConfig();
			try (var any = NimbusClient.Builder.withConf(conf).withTimeout(30_000).buildWithNimbusHostPort(host(i), ports[i])) {
				var leader = any.getClient().getLeader();
				try (var client = NimbusClient.Builder.withConf(conf).withTimeout(30_000).buildWithNimbusHostPort(leader.get_host(), leader.get_port())) {
					return q.ask(client.getClient());
				}
			} catch (AlreadyAliveException e) {
				throw e;
			} catch (Exception e) {
				last = e;
			}
		}
		throw last;
	}

	private boolean bothNimbuses() throws Exception {
		var all = ask(Nimbus.Iface::getClusterInfo).get_nimbuses();
		return all.size() == nimbuses.length && all.stream().filter(n -> n.is_isLeader()).count() == 1;
	}

	private static StormTopology topology() {
		var b = new TopologyBuilder();
		b.setSpout("words", new TestWordSpout());
		return b.createTopology();
	}

	private void submit() throws Exception {
		for (int n = 0; working; n++) {
			var name = "t" + n;
			long begin = System.nanoTime();
			for (boolean done = false; !done && working;) {
				try {
					ask(nimbus -> {
						var jar = nimbus.beginFileUpload();
						nimbus.uploadChunk(jar, ByteBuffer.wrap(name.getBytes()));
						nimbus.finishFileUpload(jar);
						nimbus.submitTopology(name, jar, "{}", topology());
						return null;
					});
					done = true;
				} catch (AlreadyAliveException e) {
					done = true; // its answer was lost
				} catch (Exception e) {
					repeated.incrementAndGet();
					Thread.sleep(500);
				}
				if (done) {
					acknowledged.add(name);
				}
			}
			longest.accumulateAndGet(System.nanoTime() - begin, Math::max);
			Thread.sleep(300);
		}
	}

	/** Kills the leader. */
	@Override
	void kill() throws Exception {
		int leader = ask(Nimbus.Iface::getLeader).get_port() == ports[0] ? 0 : 1;
		nimbuses[leader].destroyForcibly().waitFor();
		await("the other one leads", () -> ask(Nimbus.Iface::getLeader).get_port() == ports[1 - leader]);
		int was = acknowledged.size();
		await("topologies by the other one", () -> acknowledged.size() > was + 1);
		startNimbus(leader);
	}

	@Override
	void settle() throws Exception {
		await("two nimbuses, one of them the leader", this::bothNimbuses);
		int was = acknowledged.size();
		await("new topologies", () -> acknowledged.size() > was + 3);
	}

	@Override
	void end() throws Exception {
		working = false;
		submitting.join();
		var known = new TreeSet<String>();
		ask(Nimbus.Iface::getTopologySummaries).forEach(t -> known.add(t.get_name()));
		var lost = new TreeSet<>(acknowledged);
		lost.removeAll(known);
		check(lost.isEmpty(), "lost topologies: " + lost);
		count("acknowledged", acknowledged.size());
		count("lost", lost.size());
		count("repeated", repeated.get());
		count("longest-ms", longest.get() / 1_000_000);
		count("restarts", restarts.get());
	}
}

import java.io.IOException;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import javax.net.ssl.SSLContext;
import org.apache.nifi.attribute.expression.language.StandardPropertyValue;
import org.apache.nifi.components.PropertyDescriptor;
import org.apache.nifi.components.PropertyValue;
import org.apache.nifi.components.state.StateProviderInitializationContext;
import org.apache.nifi.controller.leader.election.CuratorLeaderElectionManager;
import org.apache.nifi.controller.leader.election.LeaderElectionStateChangeListener;
import org.apache.nifi.controller.state.providers.zookeeper.ZooKeeperStateProvider;
import org.apache.nifi.logging.ComponentLog;
import org.apache.nifi.parameter.ParameterLookup;
import org.apache.nifi.util.NiFiProperties;

/**
 * NiFi: three nodes that elect the cluster coordinator and the primary node, and the provider of cluster-wide state. States are set
 * all the time, each of a component of its own; at the end each acknowledged one is there. No flows run.
 */
final class NiFi extends World {
	private static final List<String> ROLES = List.of("Cluster Coordinator", "Primary Node");
	private static final String ROOT = "/nifi", TIMEOUT = "10 secs";
	private final Process[] nodes = new Process[3];
	private final BitSet acknowledged = new BitSet();
	private final AtomicLong repeated = new AtomicLong(), longest = new AtomicLong();
	private volatile boolean working = true;
	private CuratorLeaderElectionManager elections;
	private ZooKeeperStateProvider states;
	private Thread setting;

	public static void main(String[] args) {
		new NiFi().run();
	}

	private static NiFiProperties properties() {
		return NiFiProperties.createBasicNiFiProperties(null, Map.of(NiFiProperties.ZOOKEEPER_CONNECT_STRING, SERVERS, NiFiProperties.ZOOKEEPER_ROOT_NODE, ROOT,
				NiFiProperties.ZOOKEEPER_SESSION_TIMEOUT, TIMEOUT));
	}

	/** A node of the cluster: it takes part in the elections until it is killed. */
	static final class Node {
		public static void main(String[] args) throws Exception {
			var elections = new CuratorLeaderElectionManager(2, properties());
			elections.start();
			for (var role : ROLES) {
				elections.register(role, new LeaderElectionStateChangeListener() {
					@Override
					public void onLeaderElection() {
						System.err.println(role + ": elected");
					}

					@Override
					public void onLeaderRelinquish() {
						System.err.println(role + ": relinquished");
					}
				}, args[0]);
			}
			Thread.sleep(Long.MAX_VALUE);
		}
	}

	/** What the provider of states is set up with. */
	private record Context(Map<PropertyDescriptor, PropertyValue> values) implements StateProviderInitializationContext {
		@Override
		public String getIdentifier() {
			return "states";
		}

		@Override
		public Map<PropertyDescriptor, PropertyValue> getProperties() {
			return values;
		}

		@Override
		public PropertyValue getProperty(PropertyDescriptor d) {
			return values.get(d);
		}

		@Override
		public Map<String, String> getAllProperties() {
			var all = new HashMap<String, String>();
			values.forEach((d, v) -> all.put(d.getName(), v.getValue()));
			return all;
		}

		@Override
		public SSLContext getSSLContext() {
			return null;
		}

		@Override
		public ComponentLog getLogger() {
			return null;
		}
	}

	private static ZooKeeperStateProvider provider() throws IOException {
		var p = new ZooKeeperStateProvider();
		var set = Map.of("Connect String", SERVERS, "Root Node", ROOT, "Session Timeout", TIMEOUT, "Access Control", "Open");
		var values = new HashMap<PropertyDescriptor, PropertyValue>();
		for (var d : p.getSupportedPropertyDescriptors()) {
			check(set.containsKey(d.getName()), "unknown property " + d.getName());
			values.put(d, new StandardPropertyValue(null, set.get(d.getName()), null, ParameterLookup.EMPTY));
		}
		p.setNiFiProperties(properties());
		p.initialize(new Context(values));
		p.enable();
		return p;
	}

	private Process node(int i) throws Exception {
		return java("node" + i, "-Xmx128m", "NiFi$Node", "node" + i);
	}

	@Override
	void start() throws Exception {
		for (int i = 0; i < nodes.length; i++) {
			nodes[i] = node(i);
		}
		elections = new CuratorLeaderElectionManager(2, properties());
		elections.start();
		states = provider();
		await("leaders", this::bothLeaders);
		setting = thread("set", this::set);
		await("first states", () -> count() > 20);
	}

	/** The number of the node in this role. */
	private int leader(String role) {
		var name = elections.getLeader(role);
		return name == null || name.isEmpty() ? -1 : Integer.parseInt(name.substring("node".length()));
	}

	private boolean bothLeaders() {
		return ROLES.stream().allMatch(role -> leader(role) >= 0 && nodes[leader(role)].isAlive());
	}

	private void set() throws Exception {
		for (int n = 0; working; n++) {
			long begin = System.nanoTime();
			for (boolean done = false; !done && working;) {
				try {
					states.setState(Map.of("number", "" + n), "c" + n);
					done = true;
				} catch (IOException e) {
					repeated.incrementAndGet();
					Thread.sleep(100);
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

	private int count() {
		synchronized (acknowledged) {
			return acknowledged.cardinality();
		}
	}

	/** Kills the primary node. */
	@Override
	void kill() throws Exception {
		int primary = leader(ROLES.get(1));
		nodes[primary].destroyForcibly().waitFor();
		await("another primary node", () -> leader(ROLES.get(1)) >= 0 && leader(ROLES.get(1)) != primary);
		nodes[primary] = node(primary);
	}

	@Override
	void settle() throws Exception {
		await("both leaders", this::bothLeaders);
		int was = count();
		await("new states", () -> count() > was + 20);
	}

	@Override
	void end() throws Exception {
		working = false;
		setting.join();
		var reading = provider();
		int lost = 0;
		for (int n = acknowledged.nextSetBit(0); n >= 0; n = acknowledged.nextSetBit(n + 1)) {
			lost += ("" + n).equals(reading.getState("c" + n).get("number")) ? 0 : 1;
		}
		count("acknowledged", count());
		count("lost", lost);
		count("repeated", repeated.get());
		count("longest-ms", longest.get() / 1_000_000);
	}
}

import com.fasterxml.jackson.databind.InjectableValues;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.druid.curator.CuratorConfig;
import org.apache.druid.curator.CuratorModule;
import org.apache.druid.curator.announcement.Announcer;
import org.apache.druid.curator.discovery.CuratorDruidLeaderSelector;
import org.apache.druid.curator.discovery.CuratorDruidNodeAnnouncer;
import org.apache.druid.curator.discovery.CuratorDruidNodeDiscoveryProvider;
import org.apache.druid.discovery.DiscoveryDruidNode;
import org.apache.druid.discovery.DruidLeaderSelector;
import org.apache.druid.discovery.NodeRole;
import org.apache.druid.jackson.DefaultObjectMapper;
import org.apache.druid.server.DruidNode;
import org.apache.druid.server.initialization.ZkPathsConfig;

/**
 * Druid: three nodes that elect the coordinator and the overlord, and announce themselves. Data servers are announced all the
 * time, and some of them withdrawn; at the end exactly those are found that are announced. No queries run.
 */
final class Druid extends World {
	private static final List<NodeRole> ROLES = List.of(NodeRole.COORDINATOR, NodeRole.OVERLORD);
	private static final int EACH = 5; // one of so many is withdrawn
	private static final ZkPathsConfig PATHS = new ZkPathsConfig();
	private final Process[] nodes = new Process[3];
	private final Set<Integer> announced = new TreeSet<>();
	private final AtomicLong all = new AtomicLong();
	private volatile boolean working = true;
	private List<DruidLeaderSelector> elections;
	private CuratorDruidNodeDiscoveryProvider discovery;
	private Thread announcing;

	public static void main(String[] args) {
		new Druid().run();
	}

	private static CuratorFramework curator() {
		var config = CuratorConfig.create(SERVERS);
		config.setZkSessionTimeoutMs(10_000);
		config.setZkConnectionTimeoutMs(10_000);
		var curator = CuratorModule.createCurator(config);
		curator.start();
		return curator;
	}

	private static ObjectMapper mapper() {
		var m = new DefaultObjectMapper();
		m.setInjectableValues(new InjectableValues.Std().addValue(ObjectMapper.class, m));
		return m;
	}

	/** The node of a number: its port. */
	private static DruidNode node(NodeRole role, int n) {
		return new DruidNode("druid/" + role.getJsonName(), "127.0.0.1", false, n, null, true, false);
	}

	private static CuratorDruidNodeAnnouncer announcer(CuratorFramework curator) {
		var a = new Announcer(curator, Executors.newSingleThreadExecutor());
		a.start();
		return new CuratorDruidNodeAnnouncer(a, PATHS, mapper());
	}

	private static DiscoveryDruidNode announcement(NodeRole role, int n) {
		return new DiscoveryDruidNode(node(role, n), role, Map.of());
	}

	/** The election for a role, below the path of Druid's own. */
	private static DruidLeaderSelector election(CuratorFramework curator, NodeRole role, int n) {
		var path = role == NodeRole.COORDINATOR ? PATHS.getCoordinatorPath() + "/_COORDINATOR" : PATHS.getOverlordPath() + "/_OVERLORD";
		return new CuratorDruidLeaderSelector(curator, node(role, n), path);
	}

	/** A node that takes part in both elections until it is killed. */
	static final class Node {
		public static void main(String[] args) throws Exception {
			int n = Integer.parseInt(args[0]);
			var curator = curator();
			var announcer = announcer(curator);
			for (var role : ROLES) {
				election(curator, role, n).registerListener(new DruidLeaderSelector.Listener() {
					@Override
					public void becomeLeader() {
						System.err.println(role + ": elected");
					}

					@Override
					public void stopBeingLeader() {
						System.err.println(role + ": relinquished");
					}
				});
				announcer.announce(announcement(role, n));
			}
			Thread.sleep(Long.MAX_VALUE);
		}
	}

	private Process start(int i) throws Exception {
		return java("node" + i, "-Xmx128m", "-Dorg.apache.logging.log4j.level=INFO", "Druid$Node", "" + (i + 1));
	}

	@Override
	void start() throws Exception {
		for (int i = 0; i < nodes.length; i++) {
			nodes[i] = start(i);
		}
		var curator = curator();
		elections = ROLES.stream().map(role -> election(curator, role, nodes.length + 1)).toList();
		discovery = new CuratorDruidNodeDiscoveryProvider(curator(), PATHS, mapper());
		discovery.start();
		await("leaders and nodes", this::complete);
		var announcer = announcer(curator);
		announcing = thread("announce", () -> announce(announcer));
		await("first data servers", () -> all.get() > 20);
	}

	/** The index of the node in a role, or -1. */
	private int leader(int role) {
		var address = elections.get(role).getCurrentLeader();
		return address == null ? -1 : Integer.parseInt(address.substring(address.lastIndexOf(':') + 1)) - 1;
	}

	private Set<Integer> found(NodeRole role) {
		return discovery.getForNodeRole(role).getAllNodes().stream().map(n -> n.getDruidNode().getPlaintextPort()).collect(Collectors.toCollection(TreeSet::new));
	}

	/** Whether both roles have a leader that lives, and each node is found. */
	private boolean complete() {
		for (int role = 0; role < ROLES.size(); role++) {
			int i = leader(role);
			if (i < 0 || !nodes[i].isAlive() || found(ROLES.get(role)).size() != nodes.length) {
				return false;
			}
		}
		return true;
	}

	/** An announcer works in the background: what is withdrawn must have been found, or its announcement may come after the withdrawal. */
	private void announce(CuratorDruidNodeAnnouncer announcer) throws Exception {
		for (int n = 1; working; n++) {
			announcer.announce(announcement(NodeRole.HISTORICAL, n));
			all.incrementAndGet();
			announced.add(n);
			if (n % EACH == 0) {
				int last = n - 1;
				await("data server " + last, () -> found(NodeRole.HISTORICAL).contains(last));
				announcer.unannounce(announcement(NodeRole.HISTORICAL, last));
				announced.remove(last);
			}
			Thread.sleep(100);
		}
	}

	/** Kills the coordinator. */
	@Override
	void kill() throws Exception {
		int was = leader(0);
		nodes[was].destroyForcibly().waitFor();
		await("another coordinator, and two nodes", () -> leader(0) >= 0 && leader(0) != was && found(NodeRole.COORDINATOR).size() == nodes.length - 1);
		nodes[was] = start(was);
	}

	@Override
	void settle() throws Exception {
		await("both leaders and all nodes", this::complete);
		long was = all.get();
		await("new data servers", () -> all.get() > was + 20);
	}

	@Override
	void end() throws Exception {
		working = false;
		announcing.join();
		try {
			await("the data servers that are announced", () -> found(NodeRole.HISTORICAL).equals(announced));
		} catch (Exception e) {
			System.err.println(e); // the counts say how many are not
		}
		var found = found(NodeRole.HISTORICAL);
		count("announced", all.get());
		count("lost", announced.stream().filter(n -> !found.contains(n)).count());
		count("left", found.stream().filter(n -> !announced.contains(n)).count());
	}
}

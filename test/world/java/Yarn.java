import java.nio.file.Files;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.ha.HAServiceProtocol.HAServiceState;
import org.apache.hadoop.yarn.api.ApplicationClientProtocol;
import org.apache.hadoop.yarn.api.protocolrecords.GetApplicationReportRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetApplicationsRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetNewApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.SubmitApplicationRequest;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.YarnApplicationState;
import org.apache.hadoop.yarn.client.ClientRMProxy;
import org.apache.hadoop.yarn.client.RMHAServiceTarget;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;
import org.apache.hadoop.yarn.util.Records;

/**
 * YARN: two resource managers that elect the active one and keep their applications on the servers. Applications are
 * submitted all the time; at the end each acknowledged one is known. CURATOR chooses the elector.
 */
final class Yarn extends World {
	private static final String CURATOR = System.getProperty("curator", "false");
	private final Process[] managers = new Process[2];
	private final int[][] ports = new int[2][6];
	private final Set<String> acknowledged = new ConcurrentSkipListSet<>();
	private final AtomicLong repeated = new AtomicLong(), longest = new AtomicLong();
	private volatile boolean working = true;
	private YarnConfiguration conf;
	private ApplicationClientProtocol client;
	private Thread submitting;
	private int failovers, active;

	public static void main(String[] args) {
		new Yarn().run();
	}

	/** One resource manager, in a process of its own. */
	static final class Manager {
		public static void main(String[] args) {
			var conf = new YarnConfiguration();
			conf.addResource(new Path(args[0]));
			var rm = new ResourceManager();
			rm.init(conf);
			rm.start();
		}
	}

	private YarnConfiguration configuration(int node) throws Exception {
		var c = new Configuration(false);
		c.set("yarn.resourcemanager.ha.enabled", "true");
		c.set("yarn.resourcemanager.cluster-id", "world");
		c.set("yarn.resourcemanager.ha.rm-ids", "rm0,rm1");
		// By name: a manager that has been active has the name of its address in the place of the address. With Curator's elector it
		// keeps its session, whose user has the address in it, and sets an ACL for another user that refuses itself.
		for (int i = 0; i < 2; i++) {
			var keys = new String[] {"address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address", "webapp.https.address"};
			for (int k = 0; k < keys.length; k++) {
				c.set("yarn.resourcemanager." + keys[k] + ".rm" + i, "localhost:" + ports[i][k]);
			}
		}
		c.set("hadoop.zk.address", SERVERS);
		c.set("yarn.resourcemanager.recovery.enabled", "true");
		c.set("yarn.resourcemanager.store.class", "org.apache.hadoop.yarn.server.resourcemanager.recovery.ZKRMStateStore");
		c.set("yarn.resourcemanager.ha.curator-leader-elector.enabled", CURATOR);
		c.set("yarn.resourcemanager.scheduler.class", "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler");
		c.set("yarn.resourcemanager.max-completed-applications", "100000");
		c.set("yarn.client.failover-proxy-provider", "org.apache.hadoop.yarn.client.ConfiguredRMFailoverProxyProvider");
		c.set("hadoop.tmp.dir", dir.resolve("tmp").toString());
		c.set("yarn.am.liveness-monitor.expiry-interval-ms", "3600000");
		var both = new YarnConfiguration();
		c.forEach(e -> both.set(e.getKey(), e.getValue()));
		c.set("yarn.resourcemanager.ha.id", "rm" + node);
		try (var out = Files.newOutputStream(dir.resolve("yarn" + node + ".xml"))) {
			c.writeXml(out);
		}
		return both;
	}

	private Process manager(int i) throws Exception {
		return java("manager" + i, "-Xms48m", "--add-opens=java.base/java.lang=ALL-UNNAMED", "Yarn$Manager", dir.resolve("yarn" + i + ".xml").toString());
	}

	@Override
	void start() throws Exception {
		Files.createDirectories(dir.resolve("classes/webapps/cluster")); // its pages, which its jars do not have
		for (var p : ports) {
			for (int k = 0; k < p.length; k++) {
				p[k] = port();
			}
		}
		conf = configuration(0);
		configuration(1);
		for (int i = 0; i < 2; i++) {
			managers[i] = manager(i);
		}
		await("an active and a standby manager", this::oneIsActive);
		active = active();
		client = ClientRMProxy.createRMProxy(conf, ApplicationClientProtocol.class);
		submitting = thread("submit", this::submit);
		await("first applications", () -> acknowledged.size() > 20);
	}

	private HAServiceState state(int i) throws Exception {
		var one = new YarnConfiguration(conf);
		one.set("yarn.resourcemanager.ha.id", "rm" + i);
		return new RMHAServiceTarget(one).getProxy(one, 5000).getServiceStatus().getState();
	}

	private boolean oneIsActive() throws Exception {
		return Set.of(state(0), state(1)).equals(Set.of(HAServiceState.ACTIVE, HAServiceState.STANDBY));
	}

	private int active() throws Exception {
		return state(0) == HAServiceState.ACTIVE ? 0 : 1;
	}

	private void submit() throws Exception {
		while (working) {
			long begin = System.nanoTime();
			try {
				var id = client.getNewApplication(Records.newRecord(GetNewApplicationRequest.class)).getApplicationId();
				var a = Records.newRecord(ApplicationSubmissionContext.class);
				a.setApplicationId(id);
				a.setApplicationName("world");
				a.setQueue("default");
				a.setAMContainerSpec(Records.newRecord(ContainerLaunchContext.class));
				a.setResource(Resource.newInstance(128, 1));
				a.setUnmanagedAM(true);
				var r = Records.newRecord(SubmitApplicationRequest.class);
				r.setApplicationSubmissionContext(a);
				client.submitApplication(r);
				while (!isStored(id)) {
					Thread.sleep(20);
				}
				acknowledged.add(id.toString());
			} catch (Exception e) {
				repeated.incrementAndGet();
				Thread.sleep(200);
			}
			longest.accumulateAndGet(System.nanoTime() - begin, Math::max);
			Thread.sleep(50);
		}
	}

	/** Reports whether an application is in the store, as YARN's own client does. A manager that takes over before does not know it. */
	private boolean isStored(ApplicationId id) throws Exception {
		var state = client.getApplicationReport(GetApplicationReportRequest.newInstance(id)).getApplicationReport().getYarnApplicationState();
		return state != YarnApplicationState.NEW && state != YarnApplicationState.NEW_SAVING;
	}

	@Override
	void kill() throws Exception {
		int i = active();
		managers[i].destroyForcibly().waitFor();
		await("the other becomes active", () -> state(1 - i) == HAServiceState.ACTIVE);
		managers[i] = manager(i);
	}

	@Override
	void settle() throws Exception {
		await("an active and a standby manager", this::oneIsActive);
		int now = active();
		failovers += now == active ? 0 : 1;
		active = now;
		int was = acknowledged.size();
		await("new applications", () -> acknowledged.size() > was + 10);
	}

	@Override
	void end() throws Exception {
		working = false;
		submitting.join();
		Set<String> found = new HashSet<>();
		client.getApplications(GetApplicationsRequest.newInstance()).getApplicationList().forEach(a -> found.add(a.getApplicationId().toString()));
		var lost = new HashSet<>(acknowledged);
		lost.removeAll(found);
		count("acknowledged", acknowledged.size());
		count("lost", lost.size());
		count("repeated", repeated.get());
		count("longest-ms", longest.get() / 1_000_000);
		count("failovers", failovers);
	}
}

import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.helix.HelixManager;
import org.apache.helix.HelixManagerFactory;
import org.apache.helix.InstanceType;
import org.apache.helix.NotificationContext;
import org.apache.helix.controller.HelixControllerMain;
import org.apache.helix.manager.zk.ZKHelixAdmin;
import org.apache.helix.model.IdealState.RebalanceMode;
import org.apache.helix.model.InstanceConfig;
import org.apache.helix.model.MasterSlaveSMD;
import org.apache.helix.model.Message;
import org.apache.helix.participant.statemachine.StateModel;
import org.apache.helix.participant.statemachine.StateModelFactory;
import org.apache.helix.participant.statemachine.StateModelInfo;
import org.apache.helix.participant.statemachine.Transition;

/**
 * Helix: two controllers, three participants, and resources that are added all the time. At the end each acknowledged
 * resource has one master and one slave for each of its partitions.
 */
final class Helix extends World {
	private static final String CLUSTER = "world";
	private static final int PARTICIPANTS = 3, PARTITIONS = 4, REPLICAS = 2, MOST = 60;
	private final Process[] participants = new Process[PARTICIPANTS], controllers = new Process[2];
	private final Set<String> acknowledged = new ConcurrentSkipListSet<>();
	private final AtomicLong repeated = new AtomicLong();
	private volatile boolean working = true;
	private ZKHelixAdmin admin;
	private Thread adding;

	public static void main(String[] args) {
		new Helix().run();
	}

	/** A participant, in a process of its own, whose replicas do nothing. */
	static final class Participant {
		public static void main(String[] args) throws Exception {
			HelixManager m = HelixManagerFactory.getZKHelixManager(CLUSTER, args[0], InstanceType.PARTICIPANT, SERVERS);
			m.getStateMachineEngine().registerStateModelFactory("MasterSlave", new StateModelFactory<>() {
				@Override
				public StateModel createNewStateModel(String resource, String partition) {
					return new Replica();
				}
			});
			m.connect();
			Thread.currentThread().join();
		}
	}

	@StateModelInfo(initialState = "OFFLINE", states = {"OFFLINE", "SLAVE", "MASTER", "DROPPED"})
	public static final class Replica extends StateModel {
		@Transition(from = "OFFLINE", to = "SLAVE")
		public void toSlave(Message m, NotificationContext c) {}

		@Transition(from = "SLAVE", to = "MASTER")
		public void toMaster(Message m, NotificationContext c) {}

		@Transition(from = "MASTER", to = "SLAVE")
		public void fromMaster(Message m, NotificationContext c) {}

		@Transition(from = "SLAVE", to = "OFFLINE")
		public void fromSlave(Message m, NotificationContext c) {}

		@Transition(from = "OFFLINE", to = "DROPPED")
		public void drop(Message m, NotificationContext c) {}
	}

	@Override
	void start() throws Exception {
		admin = new ZKHelixAdmin(SERVERS);
		check(admin.addCluster(CLUSTER), "no cluster was made");
		admin.setConfig(new org.apache.helix.model.builder.HelixConfigScopeBuilder(
				org.apache.helix.model.HelixConfigScope.ConfigScopeProperty.CLUSTER).forCluster(CLUSTER).build(), java.util.Map.of("allowParticipantAutoJoin", "true"));
		admin.addStateModelDef(CLUSTER, "MasterSlave", MasterSlaveSMD.build());
		for (int i = 0; i < PARTICIPANTS; i++) {
			admin.addInstance(CLUSTER, new InstanceConfig(name(i)));
			participants[i] = participant(i);
		}
		for (int i = 0; i < controllers.length; i++) {
			controllers[i] = controller(i);
		}
		adding = thread("add", this::add);
		await("first resources have their masters", () -> acknowledged.size() > 2 && incomplete() == 0);
	}

	private static String name(int i) {
		return "participant_" + i;
	}

	private Process participant(int i) throws Exception {
		return java("participant" + i, "Helix$Participant", name(i));
	}

	private Process controller(int i) throws Exception {
		return java("controller" + i, HelixControllerMain.class.getName(), "--zkSvr", SERVERS, "--cluster", CLUSTER, "--controllerName", "controller" + i);
	}

	private void add() throws Exception {
		for (int n = 0; working && n < MOST; n++) {
			var name = "resource" + n;
			for (boolean done = false; !done && working;) {
				try {
					if (admin.getResourceIdealState(CLUSTER, name) == null) {
						admin.addResource(CLUSTER, name, PARTITIONS, "MasterSlave", RebalanceMode.FULL_AUTO.name());
					}
					admin.rebalance(CLUSTER, name, REPLICAS);
					acknowledged.add(name);
					done = true;
				} catch (Exception e) {
					repeated.incrementAndGet();
					Thread.sleep(500);
				}
			}
			Thread.sleep(2000);
		}
	}

	/** How many partitions of acknowledged resources lack a master or a slave. */
	private int incomplete() {
		int n = 0;
		for (var r : acknowledged) {
			var view = admin.getResourceExternalView(CLUSTER, r);
			for (int p = 0; p < PARTITIONS; p++) {
				var states = view == null ? null : view.getStateMap(r + "_" + p);
				n += states != null && states.values().stream().sorted().toList().equals(java.util.List.of("MASTER", "SLAVE")) ? 0 : 1;
			}
		}
		return n;
	}

	/** Kills a participant, and then the controller that is likely the leader. */
	@Override
	void kill() throws Exception {
		participants[0].destroyForcibly().waitFor();
		controllers[0].destroyForcibly().waitFor();
		await("its partitions have moved", () -> incomplete() == 0 && acknowledged.stream().noneMatch(r -> {
			var view = admin.getResourceExternalView(CLUSTER, r);
			return view.getPartitionSet().stream().anyMatch(p -> view.getStateMap(p).containsKey(name(0)));
		}));
		participants[0] = participant(0);
		controllers[0] = controller(0);
	}

	@Override
	void settle() throws Exception {
		await("each partition has a master and a slave", () -> incomplete() == 0);
	}

	@Override
	void end() throws Exception {
		working = false;
		adding.join();
		settle();
		var lost = new ConcurrentSkipListSet<>(acknowledged);
		lost.removeAll(admin.getResourcesInCluster(CLUSTER));
		count("acknowledged", acknowledged.size());
		count("lost", lost.size());
		count("incomplete", incomplete());
		count("repeated", repeated.get());
	}
}

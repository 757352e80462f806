import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.shardingsphere.mode.repository.cluster.ClusterPersistRepositoryConfiguration;
import org.apache.shardingsphere.mode.repository.cluster.zookeeper.ZookeeperRepository;

/**
 * ShardingSphere's cluster mode: its repository of rules, locks and instances, without the data bases. Two instances take the same
 * lock and add rules under it, which one of them watches; a third, in a process of its own, is killed.
 */
final class ShardingSphere extends World {
	private static final String RULES = "/rules", NODES = "/nodes";
	private final Set<String> acknowledged = new ConcurrentSkipListSet<>(), watched = new ConcurrentSkipListSet<>();
	private final AtomicInteger inside = new AtomicInteger();
	private final AtomicLong both = new AtomicLong(), locks = new AtomicLong();
	private final ZookeeperRepository[] instances = new ZookeeperRepository[2];
	private final Thread[] writers = new Thread[instances.length];
	private volatile boolean working = true;
	private Process third;

	public static void main(String[] args) {
		new ShardingSphere().run();
	}

	private static ZookeeperRepository repository(String name) {
		var props = new Properties();
		props.setProperty("timeToLiveSeconds", "20");
		props.setProperty("operationTimeoutMilliseconds", "30000");
		var r = new ZookeeperRepository();
		r.init(new ClusterPersistRepositoryConfiguration("ZooKeeper", "world", SERVERS, props));
		r.persistEphemeral(NODES + "/" + name, name);
		return r;
	}

	/** An instance, in a process of its own. */
	static final class Instance {
		public static void main(String[] args) throws Exception {
			repository(args[0]);
			Thread.currentThread().join();
		}
	}

	private Process instance() throws Exception {
		return java("third", "ShardingSphere$Instance", "third");
	}

	private Set<String> nodes() {
		return new TreeSet<>(instances[0].getChildrenKeys(NODES));
	}

	@Override
	void start() throws Exception {
		for (int i = 0; i < instances.length; i++) {
			instances[i] = repository("instance" + i);
		}
		instances[0].watch(RULES, e -> watched.add(e.getKey()));
		third = instance();
		for (int i = 0; i < instances.length; i++) {
			var r = instances[i];
			var name = RULES + "/" + i + "-";
			writers[i] = thread("write", () -> write(r, name));
		}
		settle();
	}

	/** Adds rules under the lock. The repository tells no errors: what it can read was acknowledged. */
	private void write(ZookeeperRepository r, String name) throws Exception {
		var lock = r.getDistributedLockHolder().getDistributedLock("/lock");
		for (int n = 0; working; n++) {
			if (!lock.tryLock(5000)) {
				continue;
			}
			both.addAndGet(inside.incrementAndGet() == 1 ? 0 : 1);
			locks.incrementAndGet();
			boolean done = false;
			while (!done && working) {
				r.persist(name + n, "rule " + n);
				done = ("rule " + n).equals(r.getDirectly(name + n));
			}
			if (done) {
				acknowledged.add(name + n);
			}
			inside.decrementAndGet();
			lock.unlock();
			Thread.sleep(20);
		}
	}

	@Override
	void kill() throws Exception {
		third.destroyForcibly().waitFor();
		await("it is gone", () -> nodes().equals(Set.of("instance0", "instance1")));
		third = instance();
	}

	@Override
	void settle() throws Exception {
		await("all instances are there", () -> nodes().equals(Set.of("instance0", "instance1", "third")));
		int was = acknowledged.size();
		await("new rules", () -> acknowledged.size() > was + 20);
		var now = Set.copyOf(acknowledged);
		await("these are watched", () -> watched.containsAll(now));
	}

	@Override
	void end() throws Exception {
		settle();
		working = false;
		for (var w : writers) {
			w.join();
		}
		int lost = 0;
		for (var name : acknowledged) {
			lost += instances[1].isExisted(name) ? 0 : 1;
		}
		count("acknowledged", acknowledged.size());
		count("lost", lost);
		count("locks", locks.get());
		count("both-in-the-lock", both.get());
	}
}

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** The writer of Apache's Java client: see storm.py. */
final class Writer {
	private static final long GAP = 20; // milliseconds
	private final AtomicInteger sets = new AtomicInteger(), creates = new AtomicInteger(), events = new AtomicInteger();
	private final AtomicInteger disconnected = new AtomicInteger(), errors = new AtomicInteger();
	private volatile long longest, atOnce;
	private final CountDownLatch connected = new CountDownLatch(1);
	private final String own, other;
	private final ZooKeeper client;

	private Writer(String servers, String own, String other) throws Exception {
		this.own = own;
		this.other = other;
		client = new ZooKeeper(servers, 20_000, this::seen);
		connected.await();
	}

	public static void main(String[] args) throws Exception {
		new Writer(args[0], args[1], args[2]).run();
		System.exit(0);
	}

	private void run() throws Exception {
		var over = new CountDownLatch(1);
		thread(() -> {
			System.in.readAllBytes();
			over.countDown();
		});
		Thread follower = thread(this::follow);
		set("first");
		System.out.println("ready");
		while (!over.await(GAP, TimeUnit.MILLISECONDS)) {
			set("" + sets);
			done(creates, () -> client.create(own + "/n-", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL));
		}
		set("last");
		follower.join(60_000);
		System.out.printf("sets=%s creates=%s events=%s missed=%d disconnected=%s errors=%s longest-ms=%d at-once=%d%n",
				sets, creates, events, follower.isAlive() ? 1 : 0, disconnected, errors, longest, atOnce);
	}

	private void seen(WatchedEvent event) {
		if (event.getState() == KeeperState.SyncConnected) {
			connected.countDown();
		} else {
			disconnected.incrementAndGet();
			System.err.println("java: " + event);
		}
	}

	private void set(String value) throws Exception {
		done(sets, () -> client.setData(own, value.getBytes(StandardCharsets.UTF_8), -1));
	}

	private void done(AtomicInteger count, Task task) throws Exception {
		long began = System.nanoTime();
		try {
			task.run();
			count.incrementAndGet();
		} catch (KeeperException e) {
			errors.incrementAndGet();
			System.err.println("java: " + e);
		}
		longest = Math.max(longest, (System.nanoTime() - began) / 1_000_000);
	}

	private void follow() throws Exception {
		var told = new Semaphore(0);
		var stat = new Stat();
		int version = 0;
		while (!new String(client.getData(other, event -> tell(event, told), stat), StandardCharsets.UTF_8).equals("last")) {
			atOnce = events.get() == 0 ? 0 : Math.max(atOnce, stat.getVersion() - version);
			version = stat.getVersion();
			told.acquire();
			events.incrementAndGet();
		}
	}

	private static void tell(WatchedEvent event, Semaphore told) {
		if (event.getType() == EventType.NodeDataChanged) {
			told.release();
		}
	}

	/** What may fail. */
	private interface Task {
		void run() throws Exception;
	}

	private static Thread thread(Task task) {
		var thread = new Thread(() -> {
			try {
				task.run();
			} catch (Exception e) {
				e.printStackTrace();
				System.exit(1);
			}
		});
		thread.setDaemon(true);
		thread.start();
		return thread;
	}
}

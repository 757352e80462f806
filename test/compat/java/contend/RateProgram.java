import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Measures Curator's recipes. Arguments: host:port, what, a path, and how many. Prints "SECONDS name value" for each part
 * that is measured.
 */
public final class RateProgram {
    private final String server;
    private final String path;
    private final int n;

    private RateProgram(String server, String path, int n) {
        this.server = server;
        this.path = path;
        this.n = n;
    }

    interface Body {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        RateProgram p = new RateProgram(args[0], args[2], Integer.parseInt(args[3]));
        switch (args[1]) {
            case "herd": p.herd(); break;
            case "handover": p.handover(); break;
            case "queue": p.queue(); break;
            case "background-queue": p.backgroundQueue(); break;
            default: throw new IllegalArgumentException(args[1]);
        }
        System.exit(0);
    }

    private CuratorFramework client() throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.newClient(server, new ExponentialBackoffRetry(100, 5));
        c.start();
        c.blockUntilConnected(20, TimeUnit.SECONDS);
        return c;
    }

    private static void measured(String name, Body body) throws Exception {
        long began = System.nanoTime();
        body.run();
        System.out.println("SECONDS " + name + " " + (System.nanoTime() - began) / 1e9);
    }

    /** n contenders, who are all there before the first one unlocks, have the lock once each. */
    private void herd() throws Exception {
        CuratorFramework c = client();
        CountDownLatch done = new CountDownLatch(n);
        measured("herd", () -> {
            for (int i = 0; i < n; i++) {
                new Thread(() -> {
                    try {
                        InterProcessMutex lock = new InterProcessMutex(c, path);
                        lock.acquire();
                        if (done.getCount() == n) { // the first
                            while (lock.getParticipantNodes().size() < n) {
                                Thread.sleep(10);
                            }
                        }
                        done.countDown();
                        lock.release();
                    } catch (Exception e) {
                        e.printStackTrace();
                        System.exit(1);
                    }
                }).start();
            }
            done.await();
        });
        c.close();
    }

    /** Two contenders have the lock in turn, n times each. */
    private void handover() throws Exception {
        List<CuratorFramework> clients = new ArrayList<>(List.of(client(), client()));
        measured("handover", () -> {
            List<Thread> threads = new ArrayList<>();
            for (CuratorFramework c : clients) {
                Thread t = new Thread(() -> {
                    try {
                        InterProcessMutex lock = new InterProcessMutex(c, path);
                        for (int i = 0; i < n; i++) {
                            lock.acquire();
                            lock.release();
                        }
                    } catch (Exception e) {
                        e.printStackTrace();
                        System.exit(1);
                    }
                });
                threads.add(t);
                t.start();
            }
            for (Thread t : threads) {
                t.join();
            }
        });
    }

    private static final byte[] ITEM = "x".repeat(100).getBytes(StandardCharsets.US_ASCII);

    private void queue() throws Exception {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(client(), path);
        measured("offer", () -> {
            for (int i = 0; i < n; i++) {
                queue.offer(ITEM);
            }
        });
        measured("take", () -> {
            for (int i = 0; i < n; i++) {
                queue.take();
            }
        });
    }

    /** Curator's other queue: it offers and takes in the background. */
    private void backgroundQueue() throws Exception {
        CountDownLatch taken = new CountDownLatch(n);
        QueueSerializer<byte[]> plain = new QueueSerializer<>() {
            @Override
            public byte[] serialize(byte[] item) {
                return item;
            }

            @Override
            public byte[] deserialize(byte[] bytes) {
                return bytes;
            }
        };
        DistributedQueue<byte[]> producer = QueueBuilder.<byte[]>builder(client(), null, plain, path).buildQueue();
        producer.start();
        measured("offer", () -> {
            for (int i = 0; i < n; i++) {
                producer.put(ITEM);
            }
            producer.flushPuts(60, TimeUnit.SECONDS);
        });
        QueueConsumer<byte[]> consumer = new QueueConsumer<>() {
            @Override
            public void consumeMessage(byte[] message) {
                taken.countDown();
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState newState) {}
        };
        measured("take", () -> {
            QueueBuilder.<byte[]>builder(client(), consumer, plain, path).buildQueue().start();
            taken.await();
        });
    }
}

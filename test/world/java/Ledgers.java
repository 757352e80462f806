import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.bookie.BookieImpl;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;

/**
 * BookKeeper: three bookies in processes of their own, a writer that begins a ledger every few seconds. At the end each
 * acknowledged entry is read from its closed ledger.
 */
final class Ledgers extends World {
	private static final int BOOKIES = 3;
	private static final byte[] PASSWORD = "secret".getBytes(StandardCharsets.UTF_8);
	private final Process[] bookies = new Process[BOOKIES];
	private final int[] ports = new int[BOOKIES];
	private final Map<Long, Long> acknowledged = new ConcurrentSkipListMap<>(); // of each ledger, the last entry
	private final AtomicLong entries = new AtomicLong(), refused = new AtomicLong(), longest = new AtomicLong();
	private volatile boolean working = true;
	private String metadata;
	private BookKeeper client;
	private Thread writing;

	public static void main(String[] args) {
		new Ledgers().run();
	}

	@Override
	void start() throws Exception {
		metadata = "zk+hierarchical://" + SERVERS.replace(',', ';') + "/ledgers";
		var server = new ServerConfiguration();
		server.setMetadataServiceUri(metadata);
		await("the layout of the ledgers", () -> org.apache.bookkeeper.client.BookKeeperAdmin.format(server, false, true));
		for (int i = 0; i < BOOKIES; i++) {
			ports[i] = port();
			bookies[i] = bookie(i);
		}
		client = BookKeeper.newBuilder(new ClientConfiguration().setMetadataServiceUri(metadata).setZkTimeout(18_000)).build();
		writing = thread("write", this::write);
		await("first entries", () -> entries.get() > 100);
	}

	private Process bookie(int i) throws Exception {
		var home = Files.createDirectories(dir.resolve("bookie" + i));
		var file = write("bookie" + i + ".conf", """
				bookiePort=%d
				metadataServiceUri=%s
				journalDirectories=%s/journal
				ledgerDirectories=%3$s/data
				indexDirectories=%3$s/data
				allowLoopback=true
				advertisedAddress=127.0.0.1
				zkTimeout=18000
				httpServerEnabled=false
				autoRecoveryDaemonEnabled=true
				diskUsageThreshold=0.99
				diskUsageWarnThreshold=0.98
				journalMaxSizeMB=16
				journalPreAllocSizeMB=1
				dbStorage_writeCacheMaxSizeMb=8
				ledgerStorageClass=org.apache.bookkeeper.bookie.SortedLedgerStorage
				skipListSizeLimit=4194304
				""".formatted(ports[i], metadata, home));
		return java("bookie" + i, "-XX:MaxDirectMemorySize=128m", "org.apache.bookkeeper.server.Main", "--conf", file.toString());
	}

	private void write() throws Exception {
		for (int n = 0; working;) {
			try (WriteHandle w = client.newCreateLedgerOp().withEnsembleSize(2).withWriteQuorumSize(2).withAckQuorumSize(2)
					.withDigestType(DigestType.CRC32C).withPassword(PASSWORD).execute().get()) {
				for (int k = 0; k < 200 && working; k++) {
					long begin = System.nanoTime();
					long id = w.append(("entry " + w.getId() + " " + k).getBytes(StandardCharsets.UTF_8));
					acknowledged.put(w.getId(), id);
					entries.incrementAndGet();
					longest.accumulateAndGet(System.nanoTime() - begin, Math::max);
					Thread.sleep(10);
				}
			} catch (Exception e) {
				refused.incrementAndGet();
				Thread.sleep(500);
			}
		}
	}

	@Override
	void kill() throws Exception {
		bookies[0].destroyForcibly().waitFor();
		Thread.sleep(22_000); // longer than its session
		bookies[0] = bookie(0);
	}

	@Override
	void settle() throws Exception {
		var config = new ClientConfiguration().setMetadataServiceUri(metadata);
		await("three bookies", () -> {
			try (var admin = new org.apache.bookkeeper.client.BookKeeperAdmin(config)) {
				return admin.getAvailableBookies().size() == BOOKIES;
			}
		});
		long was = entries.get();
		await("new entries", () -> entries.get() > was + 50);
	}

	@Override
	void end() throws Exception {
		working = false;
		writing.join();
		long read = 0;
		for (var e : acknowledged.entrySet()) {
			try (var r = client.newOpenLedgerOp().withLedgerId(e.getKey()).withDigestType(DigestType.CRC32C).withPassword(PASSWORD)
					.withRecovery(true).execute().get()) {
				check(r.getLastAddConfirmed() >= e.getValue(), "ledger " + e.getKey() + " ends before entry " + e.getValue());
				try (var all = r.read(0, e.getValue())) {
					long k = 0;
					for (LedgerEntry entry : all) {
						check(new String(entry.getEntryBytes(), StandardCharsets.UTF_8).equals("entry " + e.getKey() + " " + k), "entry " + k + " of ledger " + e.getKey());
						k++;
						read++;
					}
				}
			}
		}
		check(read >= entries.get(), "lost entries: " + (entries.get() - read));
		count("acknowledged", entries.get());
		count("lost", 0);
		count("ledgers", acknowledged.size());
		count("repeated", refused.get());
		count("longest-ms", longest.get() / 1_000_000);
	}
}

import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;

/**
 * Dubbo: two providers in processes of their own and a consumer that finds them on the servers. Calls must reach both
 * whenever all is well; a provider that is killed goes from the list and comes back.
 */
final class Dubbo extends World {
	private static final int PROVIDERS = 2;
	private final Process[] providers = new Process[PROVIDERS];
	private final AtomicLong calls = new AtomicLong(), failed = new AtomicLong();
	private volatile boolean working = true;
	private Name service;
	private Thread calling;

	/** The service: who answers. */
	public interface Name {
		String name();
	}

	public static void main(String[] args) {
		new Dubbo().run();
	}

	private static RegistryConfig registry() {
		var servers = SERVERS.split(",", 2);
		var r = new RegistryConfig("zookeeper://" + servers[0] + (servers.length > 1 ? "?backup=" + servers[1] : ""));
		r.setTimeout(30_000);
		r.setUseAsMetadataCenter(false);
		r.setUseAsConfigCenter(false);
		return r;
	}

	private static ApplicationConfig application(String name) {
		var a = new ApplicationConfig(name);
		a.setQosEnable(false);
		a.setRegisterMode("interface");
		return a;
	}

	/** A provider, in a process of its own. */
	static final class Provider {
		public static void main(String[] args) throws Exception {
			var s = new ServiceConfig<Name>();
			s.setApplication(application("provider"));
			s.setRegistry(registry());
			var p = new ProtocolConfig("dubbo", Integer.parseInt(args[1]));
			p.setHost("127.0.0.1");
			s.setProtocol(p);
			s.setInterface(Name.class);
			s.setRef(() -> args[0]);
			s.export();
			Thread.currentThread().join();
		}
	}

	private Process provider(int i) throws Exception {
		return java("provider" + i, "Dubbo$Provider", "provider" + i, "" + port());
	}

	@Override
	void start() throws Exception {
		for (int i = 0; i < PROVIDERS; i++) {
			providers[i] = provider(i);
		}
		var r = new ReferenceConfig<Name>();
		r.setApplication(application("consumer"));
		r.setRegistry(registry());
		r.setInterface(Name.class);
		r.setCheck(false);
		r.setTimeout(5000);
		r.setRetries(0);
		service = r.get();
		await("both providers answer", () -> answers(20).size() == PROVIDERS);
		calling = thread("call", this::call);
	}

	private void call() throws Exception {
		while (working) {
			try {
				service.name();
				calls.incrementAndGet();
			} catch (Exception e) {
				failed.incrementAndGet();
			}
			Thread.sleep(20);
		}
	}

	private Set<String> answers(int n) {
		var names = new TreeSet<String>();
		for (int i = 0; i < n; i++) {
			names.add(service.name());
		}
		return names;
	}

	@Override
	void kill() throws Exception {
		providers[0].destroyForcibly().waitFor();
		Thread.sleep(40_000); // longer than its session
		await("the other answers alone", () -> answers(20).equals(Set.of("provider1")));
		providers[0] = provider(0);
	}

	@Override
	void settle() throws Exception {
		await("both providers answer", () -> answers(20).size() == PROVIDERS);
	}

	@Override
	void end() throws Exception {
		working = false;
		calling.join();
		settle();
		count("calls", calls.get());
		count("failed", failed.get());
		count("providers", answers(20).size());
	}
}

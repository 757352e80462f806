import java.util.Set;
import java.util.TreeSet;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.cloud.client.discovery.DiscoveryClient;
import org.springframework.cloud.zookeeper.serviceregistry.ServiceInstanceRegistration;
import org.springframework.cloud.zookeeper.serviceregistry.ZookeeperServiceRegistry;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;

/**
 * Spring Cloud: two instances of a service in processes of their own, and a client that looks them up all the time. Whenever
 * all is well it finds both; one that is killed goes from the list.
 */
final class SpringCloud extends World {
	private static final String SERVICE = "world";
	private final Process[] instances = new Process[2];
	private final int[] ports = new int[instances.length];
	private volatile boolean working = true;
	private volatile long lookups, failed, none;
	private DiscoveryClient client;
	private Thread looking;

	public static void main(String[] args) {
		new SpringCloud().run();
	}

	@Configuration
	@EnableAutoConfiguration
	static class Application {}

	private static ConfigurableApplicationContext application() {
		return new SpringApplicationBuilder(Application.class).web(WebApplicationType.NONE).properties("spring.cloud.zookeeper.connect-string=" + SERVERS,
				"spring.cloud.zookeeper.discovery.register=false", "spring.cloud.service-registry.auto-registration.enabled=false", "spring.application.name=" + SERVICE,
				"spring.cloud.zookeeper.session-timeout=10s", "spring.cloud.zookeeper.connection-timeout=15s").run();
	}

	/** An instance, in a process of its own. */
	static final class Instance {
		public static void main(String[] args) throws Exception {
			application().getBean(ZookeeperServiceRegistry.class).register(
					ServiceInstanceRegistration.builder().name(SERVICE).address("127.0.0.1").port(Integer.parseInt(args[0])).defaultUriSpec().build());
			Thread.currentThread().join();
		}
	}

	private Process instance(int i) throws Exception {
		return java("instance" + i, "SpringCloud$Instance", "" + ports[i]);
	}

	@Override
	void start() throws Exception {
		for (int i = 0; i < instances.length; i++) {
			ports[i] = port();
			instances[i] = instance(i);
		}
		client = application().getBean(DiscoveryClient.class);
		settle();
		looking = thread("look", this::look);
	}

	private void look() throws Exception {
		while (working) {
			try {
				lookups++;
				none += found().isEmpty() ? 1 : 0;
			} catch (Exception e) {
				failed++;
			}
			Thread.sleep(20);
		}
	}

	private Set<Integer> found() {
		var found = new TreeSet<Integer>();
		client.getInstances(SERVICE).forEach(i -> found.add(i.getPort()));
		return found;
	}

	@Override
	void kill() throws Exception {
		instances[0].destroyForcibly().waitFor();
		await("it is gone", () -> found().equals(Set.of(ports[1])));
		instances[0] = instance(0);
	}

	@Override
	void settle() throws Exception {
		await("both instances are found", () -> found().equals(Set.of(ports[0], ports[1])));
	}

	@Override
	void end() throws Exception {
		working = false;
		looking.join();
		settle();
		count("lookups", lookups);
		count("failed", failed);
		count("none", none);
		count("instances", found().size());
	}
}

import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;

/**
 * Three brokers in ZooKeeper mode, which log in to the servers over TLS. A producer (acks=all) and a consumer log in by SCRAM and are let in by ACLs, while
 * topics are created all the time. At the end each acknowledged record, topic, ACL and user is there.
 *
 * With -Dtopics=N there are N topics at the end, and each has a record, too.
 */
final class Kafka extends World {
	private static final int BROKERS = 3;
	private static final int BATCH = 10;
	private final int topics = Integer.getInteger("topics", 0);
	private final Process[] brokers = new Process[BROKERS];
	private final int[] open = new int[BROKERS], login = new int[BROKERS];
	private final BitSet acknowledged = new BitSet(), seen = new BitSet();
	private final Set<String> created = new ConcurrentSkipListSet<>(), users = new ConcurrentSkipListSet<>(), marked = ConcurrentHashMap.newKeySet();
	private final AtomicLong failed = new AtomicLong(), twice = new AtomicLong(), longest = new AtomicLong();
	private volatile boolean working = true, reading = true;
	private Admin admin;
	private Thread producing, creating;

	public static void main(String[] args) {
		new Kafka().run();
	}

	@Override
	void start() throws Exception {
		for (int i = 0; i < BROKERS; i++) {
			open[i] = port();
			login[i] = port();
			write("broker" + i + ".properties", properties(i));
			brokers[i] = broker(i);
		}
		admin = Admin.create(Map.of("bootstrap.servers", servers(open), "default.api.timeout.ms", "60000", "request.timeout.ms", "20000"));
		await("three brokers", () -> admin.describeCluster().nodes().get().size() == BROKERS);
		admin.createTopics(List.of(new NewTopic("records", 6, (short) 3))).all().get();
		user("alice");
		allow("alice");
		producing = thread("producer", this::produce);
		thread("consumer", this::consume);
		creating = thread("topics", topics > 0 ? this::createAll : this::createTopics);
		thread("marks", this::markAll);
		await("first records", () -> size(seen) > 100);
	}

	private Process broker(int i) throws Exception {
		return java("broker" + i, "-Djava.security.auth.login.config=" + KEYS + "/login", "kafka.Kafka", "broker" + i + ".properties");
	}

	private String properties(int i) {
		return """
				broker.id=%1$d
				listeners=PLAINTEXT://127.0.0.1:%2$d,SASL_PLAINTEXT://127.0.0.1:%3$d
				sasl.enabled.mechanisms=SCRAM-SHA-512
				listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
				authorizer.class.name=kafka.security.authorizer.AclAuthorizer
				super.users=User:ANONYMOUS
				log.dirs=%4$s
				zookeeper.connect=%5$s/kafka
				zookeeper.connection.timeout.ms=120000
				zookeeper.set.acl=true
				zookeeper.ssl.client.enable=true
				zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
				zookeeper.ssl.keystore.location=%6$s/client.p12
				zookeeper.ssl.keystore.password=secret1
				zookeeper.ssl.truststore.location=%6$s/trust.p12
				zookeeper.ssl.truststore.password=secret1
				default.replication.factor=3
				min.insync.replicas=2
				offsets.topic.replication.factor=3
				offsets.topic.num.partitions=5
				group.initial.rebalance.delay.ms=0
				log.cleaner.dedupe.buffer.size=4000000
				log.index.size.max.bytes=65536
				num.io.threads=4
				background.threads=2
				auto.create.topics.enable=false
				""".formatted(i, open[i], login[i], dir.resolve("data" + i), TLS_SERVERS, KEYS);
	}

	private static String servers(int[] ports) {
		var b = new StringBuilder();
		for (int p : ports) {
			b.append(b.isEmpty() ? "" : ",").append("127.0.0.1:").append(p);
		}
		return b.toString();
	}

	private void user(String name) throws Exception {
		admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(name,
				new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), name + "-secret"))).all().get();
		users.add(name);
	}

	private void allow(String name) throws Exception {
		var acls = new ArrayList<AclBinding>();
		for (var r : List.of(new ResourcePattern(ResourceType.TOPIC, "records", PatternType.LITERAL),
				new ResourcePattern(ResourceType.GROUP, "readers", PatternType.LITERAL))) {
			acls.add(new AclBinding(r, new AccessControlEntry("User:" + name, "*", AclOperation.ALL, AclPermissionType.ALLOW)));
		}
		admin.createAcls(acls).all().get();
	}

	private Map<String, Object> loginAs(String name) {
		return Map.of("bootstrap.servers", servers(login), "security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "SCRAM-SHA-512", "sasl.jaas.config",
				"org.apache.kafka.common.security.scram.ScramLoginModule required username=\"" + name + "\" password=\"" + name + "-secret\";");
	}

	private void produce() throws Exception {
		var config = new HashMap<>(loginAs("alice"));
		config.putAll(Map.of("acks", "all", "enable.idempotence", "true", "delivery.timeout.ms", "120000", "linger.ms", "5"));
		try (var p = new KafkaProducer<>(config, new LongSerializer(), new LongSerializer())) {
			for (long n = 0; working; n++) {
				int id = (int) n;
				long sent = System.nanoTime();
				p.send(new ProducerRecord<>("records", n, n), (meta, e) -> {
					if (e != null) {
						failed.incrementAndGet();
						return;
					}
					longest.accumulateAndGet(System.nanoTime() - sent, Math::max);
					synchronized (acknowledged) {
						acknowledged.set(id);
					}
				});
				Thread.sleep(5);
			}
		}
	}

	private void consume() {
		var config = new HashMap<>(loginAs("alice"));
		config.putAll(Map.of("group.id", "readers", "auto.offset.reset", "earliest"));
		try (var c = new KafkaConsumer<>(config, new LongDeserializer(), new LongDeserializer())) {
			c.subscribe(List.of("records"));
			while (reading) {
				for (var r : c.poll(Duration.ofMillis(200))) {
					synchronized (seen) {
						if (seen.get(r.value().intValue())) {
							twice.incrementAndGet();
						}
						seen.set(r.value().intValue());
					}
				}
			}
		}
	}

	/** Creates topics one after the other, each with a user of its own every tenth time. */
	private void createTopics() throws Exception {
		for (int n = 0; working && n < 200; n++) {
			var name = "topic-" + n;
			for (boolean done = false; !done && working;) {
				try {
					admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
					created.add(name);
					done = true;
				} catch (ExecutionException e) {
					if (e.getCause() instanceof TopicExistsException) { // its answer was lost
						created.add(name);
						done = true;
					}
					Thread.sleep(200);
				}
			}
			if (n % 20 == 0) {
				try {
					user("user-" + n);
					allow("user-" + n);
				} catch (ExecutionException e) {
					users.remove("user-" + n);
				}
			}
			Thread.sleep(150);
		}
	}

	/** Creates all topics, some at a time, each again until it is acknowledged. */
	private void createAll() throws Exception {
		for (int n = 0; n < topics; n += BATCH) {
			var wanted = IntStream.range(n, Math.min(n + BATCH, topics)).mapToObj(i -> "topic-" + i).collect(Collectors.toSet());
			while (!wanted.isEmpty()) {
				var results = admin.createTopics(wanted.stream().map(t -> new NewTopic(t, 1, (short) 1)).toList()).values();
				for (var result : results.entrySet()) {
					try {
						result.getValue().get();
					} catch (ExecutionException e) {
						if (!(e.getCause() instanceof TopicExistsException)) { // else the answer before was lost
							continue;
						}
					}
					wanted.remove(result.getKey());
					created.add(result.getKey());
				}
				Thread.sleep(150);
			}
		}
	}

	/** Writes a record into each topic, again until it is acknowledged. */
	private void markAll() throws Exception {
		var config = Map.<String, Object>of("bootstrap.servers", servers(open), "acks", "all", "delivery.timeout.ms", "20000", "request.timeout.ms", "10000",
				"max.block.ms", "5000", "retry.backoff.ms", "20", "batch.size", "1000", "enable.idempotence", "false");
		try (var p = new KafkaProducer<>(config, new LongSerializer(), new LongSerializer())) {
			while (marked.size() < topics) {
				for (var topic : created) {
					if (!marked.contains(topic)) {
						p.send(new ProducerRecord<>(topic, 0L), (meta, e) -> {
							if (e == null) {
								marked.add(topic);
							}
						});
					}
				}
				p.flush();
				Thread.sleep(150);
			}
		}
	}

	/** Returns the topics whose record can't be read. */
	private Set<String> unmarked() throws Exception {
		var missing = new HashSet<>(marked);
		var config = Map.<String, Object>of("bootstrap.servers", servers(open), "auto.offset.reset", "earliest", "fetch.max.bytes", "1000000");
		try (var c = new KafkaConsumer<>(config, new LongDeserializer(), new LongDeserializer())) {
			c.assign(missing.stream().map(t -> new TopicPartition(t, 0)).toList());
			for (int empty = 0; !missing.isEmpty() && empty < 60;) {
				int was = missing.size();
				c.poll(Duration.ofSeconds(1)).forEach(r -> missing.remove(r.topic()));
				empty = missing.size() < was ? 0 : empty + 1;
			}
		}
		return missing;
	}

	private static int size(BitSet s) {
		synchronized (s) {
			return s.cardinality();
		}
	}

	private BitSet missing() {
		BitSet m;
		synchronized (acknowledged) {
			m = (BitSet) acknowledged.clone();
		}
		synchronized (seen) {
			m.andNot(seen);
		}
		return m;
	}

	@Override
	void kill() throws Exception {
		var controller = admin.describeCluster().controller().get().id();
		brokers[controller].destroyForcibly().waitFor();
		Thread.sleep(22_000); // longer than its session
		brokers[controller] = broker(controller);
	}

	@Override
	void settle() throws Exception {
		await("three brokers", () -> admin.describeCluster().nodes().get().size() == BROKERS);
		await("all replicas in sync", () -> admin.describeTopics(List.of("records")).allTopicNames().get().get("records").partitions()
				.stream().allMatch(p -> p.isr().size() == BROKERS));
		int was = size(acknowledged);
		await("new records", () -> size(acknowledged) > was + 50);
		await("each acknowledged record is read", () -> missing().isEmpty());
	}

	private List<String> unlisted() throws Exception {
		var lost = new ArrayList<>(created);
		lost.removeAll(admin.listTopics().names().get());
		return lost;
	}

	@Override
	void end() throws Exception {
		int early = created.size();
		if (topics > 0) {
			creating.join();
		}
		working = false;
		producing.join();
		creating.join();
		await("each acknowledged record is read", () -> missing().isEmpty());
		reading = false;
		var lost = unlisted();
		int late = lost.size();
		if (!lost.isEmpty()) { // a controller gives up a topic if the answer to the creation of its state was lost
			kill();
			settle();
			lost = unlisted();
		}
		check(lost.isEmpty(), "lost topics: " + lost);
		await("a record in each topic", () -> marked.size() == topics);
		var scram = admin.describeUserScramCredentials().users().get();
		check(scram.containsAll(users), "lost users: " + users + ", " + scram);
		Collection<AclBinding> acls = admin.describeAcls(AclBindingFilter.ANY).values().get();
		for (var u : users) {
			check(acls.stream().filter(a -> a.entry().principal().equals("User:" + u)).count() == 2 || !u.equals("alice"), "lost ACLs of " + u);
		}
		count("acknowledged", size(acknowledged) + marked.size());
		count("lost", missing().cardinality() + unmarked().size());
		count("refused", failed.get());
		count("twice", twice.get());
		count("longest-ms", longest.get() / 1_000_000);
		count("topics", created.size());
		if (topics > 0) {
			count("under-faults", early);
		}
		count("late-topics", late);
		count("users", users.size());
		count("acls", acls.size());
	}
}

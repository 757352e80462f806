import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.TimeUnit;
import org.apache.solr.client.solrj.SolrQuery;
import org.apache.solr.client.solrj.impl.CloudSolrClient;
import org.apache.solr.client.solrj.impl.HttpSolrClient;
import org.apache.solr.client.solrj.request.CollectionAdminRequest;
import org.apache.solr.cloud.ZkConfigSetService;
import org.apache.solr.common.SolrInputDocument;
import org.apache.solr.common.cloud.Replica;
import org.apache.solr.common.cloud.SolrZkClient;
import org.apache.solr.embedded.JettyConfig;
import org.apache.solr.embedded.JettySolrRunner;

/**
 * SolrCloud: three nodes, a collection of two shards with two replicas each, into which documents are put while further
 * collections are created. At the end the leaders have each acknowledged document.
 */
final class Solr extends World {
	private static final int NODES = 3;
	private final Process[] nodes = new Process[NODES];
	private final int[] ports = new int[NODES];
	private final Set<String> acknowledged = new ConcurrentSkipListSet<>(), collections = new ConcurrentSkipListSet<>();
	private volatile boolean working = true;
	private volatile long repeated, longest;
	private CloudSolrClient client;
	private Thread putting, creating;

	public static void main(String[] args) {
		new Solr().run();
	}

	/** One node, in a process of its own. */
	static final class Node {
		public static void main(String[] args) throws Exception {
			var props = new Properties();
			props.setProperty("zkHost", args[2]);
			props.setProperty("solr.log.dir", args[0]);
			new JettySolrRunner(args[0], props, new JettyConfig.Builder().setContext("/solr").setPort(Integer.parseInt(args[1])).build()).start();
		}
	}

	@Override
	void start() throws Exception {
		var conf = Files.createDirectories(dir.resolve("conf"));
		Files.writeString(conf.resolve("solrconfig.xml"), """
				<config><luceneMatchVersion>9.10.0</luceneMatchVersion>
				<updateHandler class="solr.DirectUpdateHandler2"><updateLog/><autoCommit><maxTime>15000</maxTime><openSearcher>false</openSearcher></autoCommit></updateHandler>
				<requestHandler name="/select" class="solr.SearchHandler"/></config>
				""");
		Files.writeString(conf.resolve("schema.xml"), """
				<schema name="docs" version="1.6"><fieldType name="string" class="solr.StrField"/><fieldType name="long" class="solr.LongPointField" docValues="true"/>
				<field name="id" type="string" stored="true" indexed="true"/><field name="_version_" type="long"/><field name="n" type="long"/>
				<uniqueKey>id</uniqueKey></schema>
				""");
		try (var zk = new SolrZkClient.Builder().withUrl(SERVERS).withTimeout(20, TimeUnit.SECONDS).build()) {
			zk.makePath("/solr", true);
		}
		try (var zk = new SolrZkClient.Builder().withUrl(SERVERS + "/solr").withTimeout(20, TimeUnit.SECONDS).build()) {
			for (var file : List.of("solrconfig.xml", "schema.xml")) {
				new ZkConfigSetService(zk).uploadFileToConfig("docs", file, Files.readAllBytes(conf.resolve(file)), true);
			}
		}
		for (int i = 0; i < NODES; i++) {
			ports[i] = port();
			var home = Files.createDirectories(dir.resolve("node" + i));
			Files.writeString(home.resolve("solr.xml"), """
					<solr><solrcloud><str name="host">127.0.0.1</str><int name="hostPort">${hostPort:0}</int><str name="hostContext">solr</str>
					<str name="zkHost">${zkHost:}</str><int name="zkClientTimeout">9000</int><bool name="genericCoreNodeNames">true</bool></solrcloud></solr>
					""");
			nodes[i] = node(i);
		}
		client = new CloudSolrClient.Builder(List.of(SERVERS.split(",")), Optional.of("/solr")).withParallelUpdates(false).build();
		await("three nodes", () -> {
			client.connect();
			return client.getClusterStateProvider().getLiveNodes().size() == NODES;
		});
		CollectionAdminRequest.createCollection("docs", "docs", 2, 2).process(client);
		putting = thread("put", this::put);
		creating = thread("create", this::create);
		await("first documents", () -> acknowledged.size() > 100);
	}

	private Process node(int i) throws Exception {
		return java("node" + i, "-Dsolr.disableFingerprint=true", "-Dlog4j2.level=WARN", "-Djetty.testMode=true", "Solr$Node", dir.resolve("node" + i).toString(), "" + ports[i], SERVERS + "/solr");
	}

	private void put() throws Exception {
		for (int n = 0; working; n++) {
			var docs = new ArrayList<SolrInputDocument>();
			for (int k = 0; k < 5; k++) {
				var d = new SolrInputDocument();
				d.addField("id", "d" + n + "-" + k);
				d.addField("n", n);
				docs.add(d);
			}
			long begin = System.nanoTime();
			for (boolean done = false; !done && working;) {
				try {
					client.add("docs", docs);
					docs.forEach(d -> acknowledged.add((String) d.getFieldValue("id")));
					done = true;
				} catch (Exception e) {
					repeated++;
					Thread.sleep(200);
				}
			}
			longest = Math.max(longest, System.nanoTime() - begin);
			Thread.sleep(25);
		}
	}

	private void create() throws Exception {
		for (int n = 0; working; n++) {
			for (boolean done = false; !done && working;) {
				try {
					CollectionAdminRequest.createCollection("c" + n, "docs", 1, 1).process(client);
					collections.add("c" + n);
					done = true;
				} catch (Exception e) {
					done = String.valueOf(e.getMessage()).contains("already exists");
					Thread.sleep(500);
				}
			}
			Thread.sleep(3000);
		}
	}

	private List<Replica> replicas() throws Exception {
		return client.getClusterStateProvider().getCollection("docs").getReplicas();
	}

	@Override
	void kill() throws Exception {
		var leader = client.getClusterStateProvider().getCollection("docs").getLeader("shard1").getNodeName();
		int i = 0;
		while (!leader.contains(":" + ports[i] + "_")) {
			i++;
		}
		nodes[i].destroyForcibly().waitFor();
		Thread.sleep(12_000); // longer than its session
		nodes[i] = node(i);
	}

	@Override
	void settle() throws Exception {
		await("three nodes", () -> client.getClusterStateProvider().getLiveNodes().size() == NODES);
		await("all replicas active", () -> {
			var live = client.getClusterStateProvider().getLiveNodes();
			return replicas().size() == 4 && replicas().stream().allMatch(r -> r.isActive(live));
		});
		int was = acknowledged.size();
		await("new documents", () -> acknowledged.size() > was + 50);
	}

	@Override
	void end() throws Exception {
		working = false;
		putting.join();
		creating.join();
		client.commit("docs");
		var lost = new TreeSet<>(acknowledged); // what no leader has
		var incomplete = new TreeSet<String>(); // what a leader has, and another replica lacks
		for (var slice : client.getClusterStateProvider().getCollection("docs").getSlices()) {
			var has = ids(slice.getLeader());
			lost.removeAll(has);
			has.retainAll(acknowledged);
			for (var r : slice.getReplicas()) {
				var missing = new TreeSet<>(has);
				missing.removeAll(ids(r));
				incomplete.addAll(missing);
			}
		}
		System.err.println("lost: " + lost + ", incomplete: " + incomplete);
		check(CollectionAdminRequest.listCollections(client).containsAll(collections), "lost collections");
		count("acknowledged", acknowledged.size());
		count("lost", lost.size());
		count("incomplete", incomplete.size());
		count("repeated", repeated);
		count("longest-ms", longest / 1_000_000);
		count("collections", collections.size());
	}

	private static Set<String> ids(Replica r) throws Exception {
		var ids = new TreeSet<String>();
		try (var c = new HttpSolrClient.Builder(r.getCoreUrl()).build()) {
			var q = new SolrQuery("*:*").setRows(1_000_000).setFields("id");
			q.set("distrib", "false");
			c.query(q).getResults().forEach(d -> ids.add((String) d.getFieldValue("id")));
		}
		return ids;
	}
}

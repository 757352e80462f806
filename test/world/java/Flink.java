import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.client.deployment.StandaloneClusterId;
import org.apache.flink.client.program.rest.RestClusterClient;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.SinkFunction;
import org.apache.flink.streaming.api.functions.source.RichSourceFunction;

/**
 * Flink: two job managers with ZooKeeper high availability, a task manager, and a job that counts, with checkpoints.
 * However often a job manager is killed, the job continues from a checkpoint and never from the beginning.
 */
final class Flink extends World {
	private final Process[] managers = new Process[2];
	private final int[] rest = new int[2];
	private Process worker;
	private RestClusterClient<StandaloneClusterId> client;
	private JobID job;

	public static void main(String[] args) {
		new Flink().run();
	}

	/** Counts, and writes each start to a file with the number that it begins with. */
	static final class Numbers extends RichSourceFunction<Long> implements CheckpointedFunction {
		private final String starts;
		private volatile boolean running = true;
		private long next;
		private transient ListState<Long> state;

		Numbers(String starts) {
			this.starts = starts;
		}

		@Override
		public void initializeState(FunctionInitializationContext c) throws Exception {
			state = c.getOperatorStateStore().getListState(new ListStateDescriptor<>("next", Long.class));
			for (long n : state.get()) {
				next = n;
			}
			Files.writeString(Path.of(starts), next + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
		}

		@Override
		public void snapshotState(FunctionSnapshotContext c) throws Exception {
			state.update(List.of(next));
		}

		@Override
		public void run(SourceContext<Long> out) throws Exception {
			while (running) {
				synchronized (out.getCheckpointLock()) {
					out.collect(next++);
				}
				Thread.sleep(5);
			}
		}

		@Override
		public void cancel() {
			running = false;
		}
	}

	/** Writes the newest number to a file. */
	static final class Newest implements SinkFunction<Long> {
		private final String file;

		Newest(String file) {
			this.file = file;
		}

		@Override
		public void invoke(Long n, Context c) throws Exception {
			if (n % 20 == 0) {
				Files.writeString(Path.of(file + ".new"), n.toString());
				Files.move(Path.of(file + ".new"), Path.of(file), java.nio.file.StandardCopyOption.ATOMIC_MOVE);
			}
		}
	}

	private Configuration configuration(String name, int restPort) throws Exception {
		var c = new Configuration();
		for (var line : """
				jobmanager.rpc.address: 127.0.0.1
				jobmanager.bind-host: 127.0.0.1
				taskmanager.host: 127.0.0.1
				taskmanager.bind-host: 127.0.0.1
				rest.address: 127.0.0.1
				rest.port: %1$d
				high-availability.type: zookeeper
				high-availability.zookeeper.quorum: %2$s
				high-availability.storageDir: file://%3$s/ha
				high-availability.jobmanager.port: 0
				high-availability.zookeeper.client.tolerate-suspended-connections: true
				execution.checkpointing.dir: file://%3$s/checkpoints
				execution.checkpointing.interval: 1s
				execution.checkpointing.tolerable-failed-checkpoints: 100000
				restart-strategy.type: fixed-delay
				restart-strategy.fixed-delay.attempts: 100000
				restart-strategy.fixed-delay.delay: 1s
				io.tmp.dirs: %3$s/tmp
				taskmanager.numberOfTaskSlots: 1
				taskmanager.cpu.cores: 1.0
				taskmanager.memory.task.heap.size: 64mb
				taskmanager.memory.task.off-heap.size: 0b
				taskmanager.memory.framework.heap.size: 64mb
				taskmanager.memory.framework.off-heap.size: 16mb
				taskmanager.memory.jvm-metaspace.size: 96mb
				taskmanager.memory.jvm-overhead.min: 32mb
				taskmanager.memory.jvm-overhead.max: 32mb
				taskmanager.memory.managed.size: 8mb
				taskmanager.memory.network.min: 16mb
				taskmanager.memory.network.max: 16mb
				heartbeat.timeout: 120s
				""".formatted(restPort, SERVERS, dir).split("\n")) {
			var kv = line.split(": ", 2);
			c.setString(kv[0], kv[1]);
		}
		var home = Files.createDirectories(dir.resolve(name));
		var text = new StringBuilder();
		c.toMap().forEach((k, v) -> text.append(k).append(": \"").append(v).append("\"\n"));
		Files.writeString(home.resolve("config.yaml"), text);
		return c;
	}

	private Process part(String name, String main) throws Exception {
		var args = new ArrayList<String>();
		for (var p : List.of("java.base/java.util", "java.base/java.lang", "java.base/java.net", "java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic", "java.base/java.nio", "java.base/java.time")) {
			args.add("--add-opens=" + p + "=ALL-UNNAMED");
		}
		args.addAll(List.of(main, "--configDir", dir.resolve(name).toString()));
		return java(name, args.toArray(String[]::new));
	}

	private Process manager(int i) throws Exception {
		return part("manager" + i, "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint");
	}

	@Override
	void start() throws Exception {
		Configuration c = null;
		for (int i = 0; i < managers.length; i++) {
			rest[i] = port();
			c = configuration("manager" + i, rest[i]);
			managers[i] = manager(i);
		}
		configuration("worker", port());
		worker = part("worker", "org.apache.flink.runtime.taskexecutor.TaskManagerRunner");
		var env = StreamExecutionEnvironment.getExecutionEnvironment(c);
		env.setParallelism(1);
		env.addSource(new Numbers(dir.resolve("starts").toString())).addSink(new Newest(dir.resolve("newest").toString()));
		var graph = env.getStreamGraph().getJobGraph();
		client = new RestClusterClient<>(c, StandaloneClusterId.getInstance());
		await("the job is submitted", () -> {
			job = client.submitJob(graph).get();
			return true;
		});
		settle();
	}

	private long newest() throws Exception {
		var file = dir.resolve("newest");
		return Files.exists(file) ? Long.parseLong(Files.readString(file)) : -1;
	}

	/** Kills one job manager after the other: one of them leads. */
	@Override
	void kill() throws Exception {
		for (int i = 0; i < managers.length; i++) {
			managers[i].destroyForcibly().waitFor();
			Thread.sleep(5000);
			settle();
			managers[i] = manager(i);
			Thread.sleep(20_000);
		}
	}

	@Override
	void settle() throws Exception {
		await("the job runs", () -> client.getJobStatus(job).get() == JobStatus.RUNNING);
		long was = newest();
		await("it counts on", () -> newest() > was + 200);
	}

	@Override
	void end() throws Exception {
		settle();
		var starts = Files.readAllLines(dir.resolve("starts")).stream().mapToLong(Long::parseLong).toArray();
		long newest = newest();
		int fresh = 0;
		for (long n : starts) {
			fresh += n == 0 ? 1 : 0;
		}
		count("counted", newest);
		count("starts", starts.length);
		count("from-the-beginning", fresh);
	}
}

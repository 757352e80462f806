import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.BindException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;

/**
 * What the applications of this folder share: the lines that ../README.md says, and processes of their own. An
 * application works while its servers are killed, and at the end checks that nothing which was acknowledged is lost.
 */
abstract class World {
	/** The servers. */
	static final String SERVERS = System.getenv("ZK_SERVERS");
	/** The servers' ports with TLS and the directory of the keys, if it is declared `secure`. */
	static final String TLS_SERVERS = System.getenv("ZK_TLS_SERVERS"), KEYS = System.getenv("KEYS");
	private static final int PATIENCE = "yes".equals(System.getenv("NOTHING")) ? 20 : 600; // seconds

	private static final int KILLED = 128 + 9; // how a process ends that was killed

	private static final PrintStream out = System.out;
	private static final Map<Process, String> children = new ConcurrentHashMap<>(); // with their names
	private static final Set<Process> supervised = ConcurrentHashMap.newKeySet();
	private static final Queue<DatagramSocket> held = new ConcurrentLinkedQueue<>(); // what port has returned

	/** Where it keeps its files. */
	final Path dir = Path.of("").toAbsolutePath();
	private final StringBuilder counts = new StringBuilder();

	/** Starts all parts, and the work. */
	abstract void start() throws Exception;

	/** Kills a part of the application, and brings it back. */
	void kill() throws Exception {}

	/** Returns when all parts work. */
	abstract void settle() throws Exception;

	/** Ends the work, compares what there is with what was acknowledged, and counts both. */
	abstract void end() throws Exception;

	/** Runs the application; the process ends with it. */
	final void run() {
		System.setOut(System.err); // for what libraries print
		Runtime.getRuntime().addShutdownHook(new Thread(() -> children.keySet().forEach(Process::destroyForcibly)));
		try {
			start();
			out.println("ready");
			var in = new BufferedReader(new InputStreamReader(System.in));
			for (String line; (line = in.readLine()) != null;) {
				if (line.equals("begin own")) {
					kill();
				} else if (line.startsWith("end ")) {
					settle();
					out.println("settled");
				}
			}
			end();
			out.println(counts.toString().trim());
			System.exit(0);
		} catch (Throwable t) {
			fail(t);
		}
	}

	/** Ends the process: the last line says why. */
	static void fail(Throwable t) {
		t.printStackTrace();
		out.println(t.toString().replace('\n', ' '));
		Runtime.getRuntime().exit(1);
	}

	final void count(String name, long number) {
		counts.append(name).append('=').append(number).append(' ');
	}

	/** Work that fails fails the application. */
	interface Work {
		void run() throws Exception;
	}

	static Thread thread(String name, Work work) {
		var t = new Thread(() -> {
			try {
				work.run();
			} catch (Throwable e) {
				fail(e);
			}
		}, name);
		t.setDaemon(true);
		t.start();
		return t;
	}

	static void check(boolean ok, String what) {
		if (!ok) {
			throw new AssertionError(what);
		}
	}

	/** Asks until the answer is yes. If that takes too long, or a process has failed that was not killed, it throws why it was not. */
	static void await(String what, Callable<Boolean> yes) throws Exception {
		long end = System.nanoTime() + PATIENCE * 1_000_000_000L;
		Exception last = null;
		while (System.nanoTime() < end) {
			try {
				if (yes.call()) {
					return;
				}
				last = null;
			} catch (InterruptedException e) {
				throw e;
			} catch (Exception e) {
				last = e;
			}
			for (var child : children.entrySet()) {
				if (!child.getKey().isAlive() && !supervised.contains(child.getKey()) && child.getKey().exitValue() != 0 && child.getKey().exitValue() != KILLED) {
					throw new Exception(child.getValue() + " has ended with " + child.getKey().exitValue() + ", before: " + what, last);
				}
			}
			Thread.sleep(200);
		}
		throw new Exception("not within " + PATIENCE + " s: " + what, last);
	}

	/** Returns a port that is free. Like package freeport, it is below the range of ports of connections, and held by the UDP port of its number. */
	static int port() throws IOException {
		var loopback = InetAddress.getByName("127.0.0.1");
		while (true) {
			int port = ThreadLocalRandom.current().nextInt(10_000, 32_000);
			try (var tcp = new ServerSocket(port, 1, loopback)) {
				held.add(new DatagramSocket(port, loopback));
				return port;
			} catch (BindException e) {
				// It is another one's.
			}
		}
	}

	/** Starts a Java program in a process of its own; name.log gets its output. Options of the JVM come first. */
	final Process java(String name, String... args) throws IOException {
		var command = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-XX:+UseSerialGC",
				"-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", System.getProperty("java.class.path")));
		command.addAll(Arrays.asList(args));
		var p = new ProcessBuilder(command).directory(dir.toFile()).redirectErrorStream(true)
				.redirectOutput(ProcessBuilder.Redirect.appendTo(new File(dir.toFile(), name + ".log"))).start();
		children.put(p, name);
		return p;
	}

	/** Has another process take the place of one that ends by itself, as the supervisor of a service does. */
	static void supervise(Process p, Work again) {
		supervised.add(p);
		p.onExit().thenRun(() -> {
			if (p.exitValue() != KILLED) {
				thread("restart", again);
			}
		});
	}

	final Path write(String name, String text) throws IOException {
		return Files.writeString(dir.resolve(name), text);
	}
}

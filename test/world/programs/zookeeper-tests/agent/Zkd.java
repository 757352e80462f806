package zkd.suite;

import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * One process of zkd. The variable ZKD names the program, and the property zkd.logs a directory for what it prints.
 * If an edge serves at its port for clients, the variable OWN tells how far above it the server's own port is.
 */
final class Zkd {
    private static final long STOP_SECONDS = 30;

    private final Process process;
    private final int port;
    private final Thread atExit;

    Zkd(Path file, int port) throws IOException {
        this.port = port + Integer.parseInt(System.getenv().getOrDefault("OWN", "0"));
        List<String> command = new ArrayList<>(List.of(System.getenv("ZKD")));
        Map<String, String> settings = Settings.of(file);
        settings.forEach((key, value) -> {
            command.add("--set");
            command.add(key + "=" + value);
        });
        command.add(file.toString());
        File log = new File(System.getProperty("zkd.logs"), port + ".log");
        ProcessBuilder builder = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(log));
        if ("true".equals(settings.get("fips-mode"))) {
            builder.environment().put("GODEBUG", "fips140=on");
        }
        process = builder.start();
        atExit = new Thread(process::destroyForcibly);
        Runtime.getRuntime().addShutdownHook(atExit);
    }

    void await() throws InterruptedException {
        process.waitFor();
    }

    boolean runs() {
        return process.isAlive();
    }

    /** Stops the process as an operator does. */
    void stop() {
        process.destroy();
        try {
            if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        Runtime.getRuntime().removeShutdownHook(atExit);
    }

    /** leader, follower, observer, standalone, read-only; or "" if the server does not serve. */
    String mode() {
        if (!process.isAlive()) {
            return "";
        }
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("127.0.0.1", port), 2000);
            socket.setSoTimeout(2000);
            socket.getOutputStream().write("srvr".getBytes(StandardCharsets.US_ASCII));
            for (String line : new String(socket.getInputStream().readAllBytes(), StandardCharsets.US_ASCII).split("\n")) {
                if (line.startsWith("Mode: ")) {
                    return line.substring("Mode: ".length()).trim();
                }
            }
        } catch (IOException e) {
            // it does not serve
        }
        return "";
    }
}

import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** An extension for JUnit 5: a server of zkd for each test, and faults for it. */
public class ZkdServer implements BeforeEachCallback, AfterEachCallback {
    private Process process;
    private String state;

    @Override
    public void beforeEach(ExtensionContext context) throws IOException {
        String zkd = Optional.ofNullable(System.getenv("ZKD")).orElse("zkd");
        process = new ProcessBuilder(zkd, "test-server", "--json").redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader out = process.inputReader();
        state = out.readLine();
    }

    @Override
    public void afterEach(ExtensionContext context) throws Exception {
        process.outputWriter().close(); // it ends with its input
        process.waitFor();
    }

    public String connectString() {
        return field("connectString");
    }

    /** Orders a fault, such as /sessions/0x…/expire. It is done when this returns. */
    public void order(String path) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(field("control") + path)).POST(HttpRequest.BodyPublishers.noBody()).build();
        int status = HttpClient.newHttpClient().send(request, BodyHandlers.ofString()).statusCode();
        if (status != 200) {
            throw new IOException(path + ": " + status);
        }
    }

    private String field(String name) {
        Matcher m = Pattern.compile('"' + name + "\":\"([^\"]*)\"").matcher(state);
        if (!m.find()) {
            throw new IllegalStateException("zkd says " + state);
        }
        return m.group(1);
    }
}

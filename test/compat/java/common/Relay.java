import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/** A TCP relay in front of a server whose connections can be cut and refused for a while. */
final class Relay implements Closeable {
    private final InetSocketAddress target;
    private final ServerSocket listener;
    private final List<Socket> open = new ArrayList<>();
    private boolean blocked;

    /** The first server of a connect string is the one behind the relay. */
    Relay(String hosts) throws IOException {
        String target = hosts.split(",")[0];
        int colon = target.lastIndexOf(':');
        this.target = new InetSocketAddress(target.substring(0, colon), Integer.parseInt(target.substring(colon + 1)));
        this.listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        daemon(this::accept);
    }

    String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    /** Cuts every connection, and each new one until unblock. */
    synchronized void block() throws IOException {
        blocked = true;
        for (Socket s : open) {
            s.close();
        }
        open.clear();
    }

    synchronized void unblock() {
        blocked = false;
    }

    private void accept() {
        while (true) {
            try {
                Socket client = listener.accept();
                Socket server = register(client);
                if (server != null) {
                    daemon(() -> copy(client, server));
                    daemon(() -> copy(server, client));
                }
            } catch (IOException e) {
                return;
            }
        }
    }

    private synchronized Socket register(Socket client) throws IOException {
        if (blocked) {
            client.close();
            return null;
        }
        Socket server = new Socket();
        server.connect(target);
        open.add(client);
        open.add(server);
        return server;
    }

    private static void copy(Socket from, Socket to) {
        try (from; to) {
            from.getInputStream().transferTo(to.getOutputStream());
        } catch (IOException e) {
            // One side is gone; closing both is all there is to do.
        }
    }

    private static void daemon(Runnable r) {
        Thread t = new Thread(r);
        t.setDaemon(true);
        t.start();
    }

    @Override
    public void close() throws IOException {
        listener.close();
        block();
    }
}

import java.util.Objects;
import org.apache.zookeeper.KeeperException;

/** Runs named groups of checks, counts them, and prints a line for each group. */
final class Checks {
    private static int checks;
    private static int failures;
    private static String group;

    private Checks() {}

    interface Body {
        void run() throws Exception;
    }

    static void run(String name, Body body) {
        group = name;
        int before = failures;
        try {
            body.run();
        } catch (Exception | AssertionError e) {
            failed("threw " + e);
            e.printStackTrace();
        }
        System.out.println((failures == before ? "PASS " : "FAIL ") + name);
    }

    static void that(String what, boolean ok) {
        checks++;
        if (!ok) {
            failed(what);
        }
    }

    static void equal(String what, Object want, Object got) {
        checks++;
        if (!Objects.equals(want, got)) {
            failed(what + ": want " + want + ", got " + got);
        }
    }

    static void fails(KeeperException.Code want, Body body) throws Exception {
        checks++;
        try {
            body.run();
            failed("no error, want " + want);
        } catch (KeeperException e) {
            if (e.code() != want) {
                failed("want " + want + ", got " + e.code());
            }
        }
    }

    private static void failed(String what) {
        failures++;
        System.out.println("  " + group + ": " + what);
    }

    static void finish() {
        System.out.println(checks + " checks, " + failures + " failed");
        System.exit(failures == 0 ? 0 : 1);
    }
}

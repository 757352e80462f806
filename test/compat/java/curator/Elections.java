import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.zookeeper.KeeperException;

/**
 * Curator's two elections. Each client is a candidate of both, counts when it leads, and makes room for the
 * next one. Nobody leads before Curator has told the last leader that it no longer leads, or the last leader
 * has resigned.
 */
final class Elections {
    private static final int TERM_MS = 5;

    private final Election latch = new Election("latch");
    private final Election selector = new Election("selector");
    private final List<LeaderSelector> selectors = new ArrayList<>();
    private final List<Future<?>> work = new ArrayList<>();
    private final List<String> broken = Collections.synchronizedList(new ArrayList<>());
    private volatile boolean going = true;

    /** One election. Its leader is the candidate that has been told that it leads. */
    private final class Election {
        final String name;
        final String path;
        final Counter terms;
        final AtomicIntegerArray of;
        private String leader;

        Election(String name) {
            this.name = name;
            path = "/faults/" + name;
            terms = new Counter(path + "-terms");
            of = new AtomicIntegerArray(FaultsProgram.CLIENTS);
        }

        synchronized void lead(String who) {
            if (leader != null) {
                broken.add(name + ": " + who + " leads, and so does " + leader);
            }
            leader = who;
        }

        synchronized void resign(String who) {
            if (who.equals(leader)) {
                leader = null;
            }
        }

        synchronized boolean leads(String who) {
            return who.equals(leader);
        }

        /** What a leader does. It fails if another one does it, unless this one leads no longer. */
        void serve(CuratorFramework c, int candidate, String who) throws Exception {
            String other = terms.add(c, who);
            if (other != null && leads(who)) {
                broken.add(name + ": " + other);
            }
            of.incrementAndGet(candidate);
            Thread.sleep(TERM_MS);
        }

        void check(CuratorFramework c, int candidates) throws Exception {
            terms.check(c);
            for (int i = 0; i < candidates; i++) {
                Checks.that("candidate " + i + " of the " + name + " has led", of.get(i) > 0);
            }
        }
    }

    /** A term, or the attempt at one, of a candidate of the latch. */
    private final class Term implements LeaderLatchListener {
        private final String who;
        private boolean over;

        Term(String who) {
            this.who = who;
        }

        @Override
        public synchronized void isLeader() {
            if (!over) {
                latch.lead(who);
            }
        }

        @Override
        public void notLeader() {
            latch.resign(who);
        }

        synchronized void end() {
            over = true;
            latch.resign(who);
        }
    }

    void start(List<CuratorFramework> clients, ExecutorService pool) {
        for (int i = 0; i < clients.size(); i++) {
            int id = i;
            CuratorFramework c = clients.get(i);
            work.add(pool.submit(() -> stand(c, id)));
            AtomicInteger turn = new AtomicInteger();
            LeaderSelector s = new LeaderSelector(c, selector.path, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    String who = id + "." + turn.incrementAndGet();
                    selector.lead(who);
                    try {
                        selector.serve(client, id, who);
                    } finally {
                        selector.resign(who); // Curator lets the next one lead after this
                    }
                }
            });
            s.autoRequeue();
            s.start();
            selectors.add(s);
        }
    }

    /** Stands for the latch again and again. */
    private Void stand(CuratorFramework c, int id) throws Exception {
        for (int turn = 1; going; turn++) {
            Term term = new Term(id + "." + turn);
            try (LeaderLatch l = new LeaderLatch(c, latch.path, term.who)) {
                l.addListener(term);
                l.start();
                try {
                    while (going && !l.await(100, TimeUnit.MILLISECONDS)) {
                        // Another one leads.
                    }
                    if (latch.leads(term.who)) {
                        latch.serve(c, id, term.who);
                    }
                } catch (KeeperException.ConnectionLossException e) {
                    // No fault: the next attempt may work.
                } finally {
                    term.end();
                }
            }
        }
        return null;
    }

    /** Ends the elections, and checks them. */
    void check(CuratorFramework c, int candidates) throws Exception {
        going = false;
        for (Future<?> f : work) {
            f.get();
        }
        for (LeaderSelector s : selectors) {
            s.close();
        }
        latch.check(c, candidates);
        selector.check(c, candidates);
        Checks.equal("broken rules", Collections.emptyList(), broken);
    }

    @Override
    public String toString() {
        return String.format("%d terms of the latch, longest pause %s, %d of the selector, %s",
            latch.terms.done(), latch.terms.longestPause(), selector.terms.done(), selector.terms.longestPause());
    }
}

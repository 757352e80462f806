package zkd.suite;

import static net.bytebuddy.matcher.ElementMatchers.any;
import static net.bytebuddy.matcher.ElementMatchers.isDeclaredBy;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.net.InetSocketAddress;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.asm.MemberSubstitution;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.pool.TypePool;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.quorum.QuorumPeer;
import org.apache.zookeeper.server.quorum.QuorumPeerMain;

/**
 * Has ZooKeeper's own tests run on processes of zkd. The places where they start and stop a server,
 * or look at what it is, get other bodies; the tests are as they are in their jar.
 */
public final class Agent {
    private static final String SERVER = "org.apache.zookeeper.server.";

    private static final ClassFileLocator CLASSES = ClassFileLocator.ForClassLoader.of(Agent.class.getClassLoader());

    private Agent() {}

    public static void premain(String arguments, Instrumentation instrumentation) {
        AgentBuilder agent = new AgentBuilder.Default()
                .disableClassFormatChanges()
                .with(AgentBuilder.Listener.StreamWriting.toSystemError().withErrorsOnly());
        agent = replace(agent, SERVER + "ServerCnxnFactory", named("createFactory").and(takesArguments(InetSocketAddress.class, int.class, int.class)), NewFactory.class);
        agent = replace(agent, SERVER + "quorum.QuorumPeer", named("start").and(takesArguments(0)), StartPeer.class);
        agent = replace(agent, SERVER + "quorum.QuorumPeer", named("shutdown").and(takesArguments(0)), StopPeer.class);
        agent = replace(agent, SERVER + "quorum.QuorumPeer", named("getPeerState"), PeerState.class);
        agent = replace(agent, SERVER + "quorum.QuorumPeer", named("getServerState"), ServerState.class);
        agent = replace(agent, SERVER + "quorum.QuorumPeer", named("isRunning"), PeerRuns.class);
        agent = replace(agent, SERVER + "quorum.QuorumPeerMain", named("initializeAndRun"), RunFile.class);
        // There are no beans of another process.
        agent = replace(agent, "org.apache.zookeeper.test.JMXEnv", named("ensureAll").or(named("ensureOnly")).or(named("ensureParent")), NoBeans.class);
        agent = replace(agent, "org.apache.zookeeper.test.JMXEnv", named("ensureNone").or(named("ensureBeanAttribute")), Nothing.class);
        agent = roles(agent);
        agent.installOn(instrumentation);
    }

    private static AgentBuilder replace(AgentBuilder agent, String type, ElementMatcher<? super MethodDescription> method, Class<?> body) {
        Advice advice = Advice.to(described(body.getName()), CLASSES);
        return agent.type(named(type)).transform((builder, t, loader, module, domain) -> builder.visit(advice.on(method)));
    }

    /** The tests' reads of a peer's fields leader, follower and observer ask its process. */
    private static AgentBuilder roles(AgentBuilder agent) {
        MemberSubstitution reads = MemberSubstitution.relaxed();
        for (String role : new String[] {"leader", "follower", "observer"}) {
            reads = reads.field(named(role).and(isDeclaredBy(named(SERVER + "quorum.QuorumPeer")))).onRead()
                    .replaceWith(described(Peers.class.getName()).getDeclaredMethods().filter(named(role)).getOnly());
        }
        MemberSubstitution all = reads;
        return agent.type((t, loader, module, redefined, domain) -> domain != null && domain.getCodeSource() != null
                        && domain.getCodeSource().getLocation().getPath().endsWith("-tests.jar"))
                .transform((builder, t, loader, module, domain) -> builder.visit(all.on(any())));
    }

    /** Describes a class of ours without loading it: that would load the classes that are to be changed. */
    private static TypeDescription described(String name) {
        return TypePool.Default.of(CLASSES).describe(name).resolve();
    }

    /** Each class below is the new body of a method, whose own one is skipped. */
    public static final class NewFactory {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean skip() {
            return true;
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) InetSocketAddress address, @Advice.Argument(1) int max, @Advice.Return(readOnly = false) ServerCnxnFactory factory) {
            factory = new Factory(address.getPort(), max);
        }
    }

    public static final class StartPeer {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean skip(@Advice.This QuorumPeer peer) throws IOException {
            Peers.start(peer);
            return true;
        }
    }

    public static final class StopPeer {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean skip(@Advice.This QuorumPeer peer) {
            Peers.stop(peer);
            return true;
        }
    }

    public static final class PeerState {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean skip() {
            return true;
        }

        @Advice.OnMethodExit
        static void exit(@Advice.This QuorumPeer peer, @Advice.Return(readOnly = false) QuorumPeer.ServerState state) {
            state = Peers.state(peer);
        }
    }

    public static final class ServerState {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean skip() {
            return true;
        }

        @Advice.OnMethodExit
        static void exit(@Advice.This QuorumPeer peer, @Advice.Return(readOnly = false) String state) {
            state = Peers.stateName(peer);
        }
    }

    public static final class PeerRuns {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean skip() {
            return true;
        }

        @Advice.OnMethodExit
        static void exit(@Advice.This QuorumPeer peer, @Advice.Return(readOnly = false) boolean runs) {
            runs = Peers.runs(peer);
        }
    }

    public static final class RunFile {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean skip(@Advice.This QuorumPeerMain main, @Advice.Argument(0) String[] arguments) throws Exception {
            Peers.run(main, arguments[0]);
            return true;
        }
    }

    public static final class NoBeans {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean skip() {
            return true;
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Return(readOnly = false) java.util.Set<javax.management.ObjectName> beans) {
            beans = new java.util.HashSet<>();
        }
    }

    public static final class Nothing {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean skip() {
            return true;
        }
    }
}

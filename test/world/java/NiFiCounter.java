import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Set;
import org.apache.nifi.annotation.behavior.Stateful;
import org.apache.nifi.components.state.Scope;
import org.apache.nifi.processor.AbstractProcessor;
import org.apache.nifi.processor.ProcessContext;
import org.apache.nifi.processor.ProcessSession;
import org.apache.nifi.processor.Relationship;
import org.apache.nifi.processor.exception.ProcessException;

/** A processor for NiFi: it adds one to the number in the cluster's state. A number that was acknowledged becomes a line of a file. */
@Stateful(scopes = Scope.CLUSTER, description = "the number")
public final class NiFiCounter extends AbstractProcessor {
	@Override
	public Set<Relationship> getRelationships() {
		return Set.of();
	}

	@Override
	public void onTrigger(ProcessContext context, ProcessSession session) {
		try {
			var states = context.getStateManager();
			var was = states.getState(Scope.CLUSTER);
			int next = Integer.parseInt(was.toMap().getOrDefault("number", "0")) + 1;
			var now = new HashMap<>(was.toMap());
			now.put("number", "" + next);
			boolean done = true;
			if (was.getVersion() < 0) {
				states.setState(now, Scope.CLUSTER);
			} else {
				done = states.replace(was, now, Scope.CLUSTER);
			}
			if (done) {
				Files.writeString(Path.of(System.getProperty("acknowledged")), next + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
			}
		} catch (IOException e) {
			throw new ProcessException(e);
		}
	}
}

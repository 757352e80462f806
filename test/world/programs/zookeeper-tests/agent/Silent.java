package zkd.suite;

import java.io.IOException;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Leaves out the tests of the file that the property zkd.silent names: lines "Class.method REASON", where a name may have *. */
public final class Silent implements ExecutionCondition {
    private final List<String[]> lines = new ArrayList<>();

    public Silent() throws IOException {
        for (String line : Files.readAllLines(Path.of(System.getProperty("zkd.silent")))) {
            if (!line.isBlank() && !line.startsWith("#")) {
                lines.add(line.trim().split("\\s+", 2));
            }
        }
    }

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        if (context.getTestMethod().isPresent()) {
            Path name = Path.of(context.getRequiredTestClass().getSimpleName() + "." + context.getRequiredTestMethod().getName());
            for (String[] line : lines) {
                if (FileSystems.getDefault().getPathMatcher("glob:" + line[0]).matches(name)) {
                    return ConditionEvaluationResult.disabled(line[1]);
                }
            }
        }
        return ConditionEvaluationResult.enabled("");
    }
}

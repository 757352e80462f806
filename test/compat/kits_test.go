//go:build compat

package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const kits = "../../examples/test-server"

// TestKitPython runs the example of tests with pytest.
func TestKitPython(t *testing.T) {
	require(t, need{"/usr/lib/python3/dist-packages/pytest/__init__.py", "python3-pytest"}, need{"/usr/lib/python3/dist-packages/kazoo/__init__.py", "python3-kazoo"})
	runKit(t, exec.CommandContext(t.Context(), "/usr/bin/python3", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", kits))
}

// TestKitJava runs the one with JUnit 5, which comes with ZooKeeper's own tests.
func TestKitJava(t *testing.T) {
	needJavac(t)
	fetch := exec.CommandContext(t.Context(), "sh", "../world/fetch.sh", "zookeeper-tests")
	fetch.Stderr = os.Stderr
	home, err := fetch.Output()
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(strings.TrimSpace(string(home)), "lib")
	consoles, err := filepath.Glob(filepath.Join(lib, "junit-platform-console-standalone-*.jar"))
	if err != nil || len(consoles) != 1 {
		t.Fatalf("%v %v", consoles, err)
	}
	sources, err := filepath.Glob(filepath.Join(kits, "*.java"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("%v %v", sources, err)
	}
	jars, err := filepath.Glob(filepath.Join(lib, "*.jar"))
	if err != nil {
		t.Fatal(err)
	}
	path, classes := strings.Join(jars, ":"), t.TempDir()
	runKit(t, exec.CommandContext(t.Context(), "javac", append([]string{"-cp", path, "-d", classes}, sources...)...))
	runKit(t, exec.CommandContext(t.Context(), "java", "-jar", consoles[0], "-cp", classes+":"+path, "--scan-classpath", classes, "--fail-if-no-tests"))
}

// runKit runs a command that finds zkd in the environment.
func runKit(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = append(os.Environ(), "ZKD="+zkdBinary(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd.Path, err, lastLines(string(out), 60))
	}
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const zkServerScript = "../../scripts/zkServer.sh"

// scripts/zkServer.sh has the verbs, output and exit codes of Apache's script.
func TestZkServerScript(t *testing.T) {
	t.Parallel() // it waits for processes, most of the time
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, port := t.TempDir(), freePorts(t, 1)[0]
	write(t, filepath.Join(dir, "zoo.cfg"), fmt.Sprintf(
		"dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n", filepath.Join(dir, "data"), port))
	run := func(args ...string) (string, int) {
		cmd := exec.Command("sh", append([]string{zkServerScript, "--config", dir}, args...)...)
		cmd.Env = append(os.Environ(), asProgram+"=1", "ZKD="+self, "ZOO_LOG_DIR="+filepath.Join(dir, "logs"))
		out, err := cmd.Output()
		if _, exited := err.(*exec.ExitError); err != nil && !exited {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	t.Cleanup(func() { run("stop") })

	status := "Client port found: " + port + ". Client address: 127.0.0.1. Client SSL: false.\n"
	for _, step := range []struct {
		verb, want string
		code       int
	}{
		{"status", status + "Error contacting service. It is probably not running.\n", 1},
		{"stop", "no zookeeper to stop (could not find file " + filepath.Join(dir, "data", "zookeeper_server.pid") + ")\n", 0},
		{"start", "Starting zookeeper ... STARTED\n", 0},
		{"start", "already running as process ", 1},
		{"status", status + "Mode: standalone\n", 0},
		{"restart", "Stopping zookeeper ... STOPPED\nStarting zookeeper ... STARTED\n", 0},
		{"status", "Mode: standalone\n", 0},
		{"print-cmd", `"` + filepath.Join(dir, "zoo.cfg") + `"`, 0},
		{"version", "ZooKeeper", 0},
		{"stop", "Stopping zookeeper ... STOPPED\n", 0},
		{"status", "It is probably not running.", 1},
		{"dance", "", 1},
	} {
		out, code := run(step.verb)
		if !strings.Contains(out, step.want) || code != step.code {
			t.Fatalf("%s: exit code %d, want %d; output\n%swant\n%s", step.verb, code, step.code, out, step.want)
		}
		if strings.HasSuffix(step.want, "STARTED\n") {
			wait := exec.Command(self, "status", "--wait", "30s", "127.0.0.1:"+port)
			wait.Env = append(os.Environ(), asProgram+"=1")
			if out, err := wait.CombinedOutput(); err != nil {
				t.Fatalf("the server does not serve: %v\n%s", err, out)
			}
		}
	}

	write(t, filepath.Join(dir, "zoo.cfg"), "dataDir="+filepath.Join(dir, "data")+"\nclientPort=none\n")
	if out, code := run("start"); out != "Starting zookeeper ... FAILED TO START\n" || code != 1 {
		t.Errorf("start with a bad file: exit code %d, output %q", code, out)
	}
}

// Without --config, zkServer.sh uses the file beside it, or that in ../conf.
func TestZkServerScriptFindsItsFile(t *testing.T) {
	text, err := os.ReadFile(zkServerScript)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, sub := range []string{"bin", "conf"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(dir, "bin", "zkServer.sh")
	write(t, script, string(text))
	for _, sub := range []string{"conf", "bin"} { // the second one takes precedence
		cfg := filepath.Join(dir, sub, "zoo.cfg")
		write(t, cfg, "dataDir="+dir+"\n")
		cmd := exec.Command("sh", script, "print-cmd")
		cmd.Env = append(os.Environ(), "ZKD=/bin/true", "ZOOCFGDIR=", "ZOOCFG=")
		if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), `"`+cfg+`"`) {
			t.Errorf("print-cmd: %q, %v; want %s", out, err, cfg)
		}
	}
}

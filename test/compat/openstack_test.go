//go:build compat

package compat

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const distPackages = "/usr/lib/python3/dist-packages"

// pythonSuite is the test-suite that comes with a Python library. It takes its servers
// from environment variables.
type pythonSuite struct {
	name    string
	args    []string // of pytest
	env     func(hosts string) []string
	least   int // how many tests pass
	skipped int // how many the library skips, on each server
}

// tooz is OpenStack's library of groups, locks and elections; the tests that it skips are
// about drivers that can't do what ZooKeeper's can. The one left out waits ten seconds for
// a host that does not exist.
var tooz = pythonSuite{
	name:    "tooz",
	args:    []string{distPackages + "/tooz/tests/test_coordination.py", "-k", "not bad_host"},
	env:     func(hosts string) []string { return []string{"TOOZ_TEST_URL=zookeeper://" + hosts + "?timeout=10"} },
	least:   67,
	skipped: 8,
}

// taskflow is OpenStack's library of workflows: its board of jobs and its log books. Half
// of the tests of the board, and those that it skips, use a double of ZooKeeper's.
var taskflow = pythonSuite{
	name: "taskflow",
	args: []string{"-p", "zkd_taskflow", distPackages + "/taskflow/tests/unit/jobs/test_zk_job.py",
		distPackages + "/taskflow/tests/unit/persistence/test_zk_persistence.py"},
	env:     func(hosts string) []string { return []string{"COMPAT_HOSTS=" + hosts} },
	least:   56,
	skipped: 19,
}

// TestTooz runs tooz's own tests of its drivers.
func TestTooz(t *testing.T) { tooz.everywhere(t) }

// TestTaskflow runs taskflow's own tests of what it keeps in ZooKeeper.
func TestTaskflow(t *testing.T) { taskflow.everywhere(t) }

// everywhere runs the suite on one server, with -full also on three, and on Apache's.
func (p pythonSuite) everywhere(t *testing.T) {
	t.Parallel()
	require(t,
		need{python, "python3"},
		need{distPackages + "/" + p.name + "/__init__.py", "python3-" + p.name},
		need{distPackages + "/pytest/__init__.py", "python3-pytest"},
		need{distPackages + "/testscenarios/__init__.py", "python3-testscenarios"},
		need{distPackages + "/oslotest/__init__.py", "python3-oslotest"})
	if !*fullFlag {
		p.run(t, start(t, target(t), config{}).addr)
		return
	}
	for _, k := range kinds(t) {
		t.Run(string(k), func(t *testing.T) { p.run(t, start(t, k, config{}).addr) })
		t.Run(string(k)+" ensemble", func(t *testing.T) {
			roles, ok := startEnsemble(t, k, config{}).roles()
			if !ok {
				t.Fatal("the ensemble is not healthy")
			}
			p.run(t, roles[follower].addr)
		})
	}
}

func (p pythonSuite) run(t *testing.T, hosts string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programDeadline)
	defer cancel()
	report := filepath.Join(t.TempDir(), "report.xml")
	args := append([]string{"-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short", "--junitxml=" + report}, p.args...)
	plugins, err := filepath.Abs("python")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Dir, cmd.WaitDelay = t.TempDir(), 5*time.Second
	cmd.Env = append(os.Environ(), append(p.env(hosts), "PYTHONPATH="+plugins, "PYTHONDONTWRITEBYTECODE=1")...)
	out, runErr := cmd.CombinedOutput()
	got, err := readJUnit(report)
	if err != nil {
		t.Fatalf("%s: %v (pytest: %v)\n%s", p.name, err, runErr, lastLines(string(out), 60))
	}
	summary(t, t.Name(), got.count("passed"), got.count("failed"))
	t.Logf("%s: %d passed, %d failed, %d skipped", p.name, got.count("passed"), got.count("failed"), got.count("skipped"))
	if runErr != nil || got.count("passed") < p.least || got.count("skipped") > p.skipped {
		t.Errorf("%s: %v; failed: %s\n%s", p.name, runErr, failures(got), lastLines(string(out), 60))
	}
}

//go:build compat

package compat

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/freeport"
)

const kazooDeadline = 8 * time.Minute

// leftOut is a test of kazoo's that is not run, on neither side.
type leftOut struct{ match, reason string }

// kazooLeftOut are kazoo's tests that need more than one standalone server
// without SASL, so they fail on Apache as started here too.
var kazooLeftOut = []leftOut{
	{"test_sasl.py", "needs a server with SASL"},
	{"test_update_host_list", "needs three servers"},
	{"TestReconfig", "needs an ensemble"},
	{"TestReadOnlyMode", "needs an ensemble that loses its quorum"},
}

// kazooEnsembleLeftOut are those that are not run on three servers.
var kazooEnsembleLeftOut = []leftOut{
	{"test_sasl.py", "needs a server with SASL"},
	{"TestReconfig", "changes the members: TestKazooReconfig has it"},
}

// kazooRun is a way to run kazoo's test-suite.
type kazooRun struct {
	servers int
	leftOut []leftOut
	least   int      // how many tests must pass at least
	only    string   // run these tests alone
	lines   []string // more lines of zoo.cfg
}

var (
	kazooAlone    = kazooRun{servers: 1, leftOut: kazooLeftOut, least: 300}
	kazooEnsemble = kazooRun{servers: 3, leftOut: kazooEnsembleLeftOut, least: 300}
)

// kazooShards split the suite by file, so that its many waits overlap; each
// shard has its own server. The files of no shard go to the last one.
var kazooShards = [][]string{
	{"test_watchers.py", "test_partitioner.py", "test_cache.py", "test_party.py", "test_queue.py", "test_lock.py"},
	{},
}

// outcomes maps a test's name to passed, failed or skipped.
type outcomes map[string]string

func (o outcomes) count(outcome string) int {
	n := 0
	for _, got := range o {
		if got == outcome {
			n++
		}
	}
	return n
}

// TestKazoo runs the test-suite that comes with Debian's kazoo on the target
// and on Apache: what passes there must pass here.
func TestKazoo(t *testing.T) { kazooSuite(t, kazooAlone) }

// TestEnsembleKazoo does that with three servers on both sides.
func TestEnsembleKazoo(t *testing.T) { kazooSuite(t, kazooEnsemble) }

// kazooSuite runs beside other suites of kazoo: most of their time is waiting.
func kazooSuite(t *testing.T, run kazooRun) {
	t.Parallel()
	needKazoo(t)
	targets := []kind{target(t), apache}
	if target(t) == apache {
		targets = targets[:1]
	}
	results := make([]outcomes, len(targets))
	var wg sync.WaitGroup
	for i, k := range targets {
		wg.Go(func() { results[i] = run.suite(t, k) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	got, want := results[0], results[len(results)-1]
	run.retry(t, targets[0], got, want)
	summary(t, t.Name(), got.count("passed"), got.count("failed"))
	t.Logf("kazoo on %s: %d passed, %d failed, %d skipped; on apache: %d passed, %d failed, %d skipped",
		targets[0], got.count("passed"), got.count("failed"), got.count("skipped"),
		want.count("passed"), want.count("failed"), want.count("skipped"))
	for _, l := range run.leftOut {
		t.Logf("left out on both: %s (%s)", l.match, l.reason)
	}
	for name, outcome := range want {
		if outcome == "passed" && got[name] != "passed" {
			t.Errorf("%s: passed on apache, %q on %s", name, got[name], targets[0])
		}
	}
	// On Apache as target this is the only check; some 460 tests pass.
	if n := got.count("passed"); n < run.least || got.count("failed") > n/20 {
		t.Errorf("kazoo on %s: only %d tests passed, %d failed: %s", targets[0], n, got.count("failed"), failures(got))
	}
}

func needKazoo(t testing.TB) {
	t.Helper()
	needApache(t)
	require(t,
		need{python, "python3"},
		need{kazooTests + "/test_client.py", "python3-kazoo"},
		need{"/usr/lib/python3/dist-packages/pytest/__init__.py", "python3-pytest"},
		need{"/usr/lib/python3/dist-packages/objgraph.py", "python3-objgraph"})
}

func failures(o outcomes) string {
	var names []string
	for name, outcome := range o {
		if outcome == "failed" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// retries is how often a failed test is run again.
const retries = 3

// retry runs the tests that failed here and passed there again, alone:
// kazoo's tests wait with time-outs of a few seconds and lose on a busy machine.
func (run kazooRun) retry(t *testing.T, k kind, got, want outcomes) {
	for name, outcome := range want {
		if outcome != "passed" || got[name] != "failed" {
			continue
		}
		file, test, _ := strings.Cut(name, "::")
		for range retries {
			got[name] = run.pytest(t, k, 100, []string{filepath.Join(kazooTests, file) + "::" + test}, t.Logf)[name]
			t.Logf("%s failed on %s; alone: %s", name, k, got[name])
			if got[name] == "passed" {
				break
			}
		}
	}
}

func (run kazooRun) suite(t *testing.T, k kind) outcomes {
	all := outcomes{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, files := range run.files(t) {
		wg.Go(func() {
			part := run.pytest(t, k, i, files, nil)
			mu.Lock()
			defer mu.Unlock()
			for name, outcome := range part {
				all[name] = outcome
			}
		})
	}
	wg.Wait()
	return all
}

// files returns the test files of each shard.
func (run kazooRun) files(t *testing.T) [][]string {
	if run.only != "" {
		return [][]string{{kazooTests + "/test_client.py"}}
	}
	files, err := filepath.Glob(kazooTests + "/test_*.py")
	if err != nil {
		t.Error(err)
	}
	shards := make([][]string, len(kazooShards))
	for _, file := range files {
		i := slices.IndexFunc(kazooShards, func(names []string) bool { return slices.Contains(names, filepath.Base(file)) })
		if i < 0 {
			i = len(shards) - 1
		}
		shards[i] = append(shards[i], file)
	}
	return shards
}

// pytest runs pytest on files with a server of kind k behind kazoo. When logf is
// given it gets the output of failed tests.
func (run kazooRun) pytest(t *testing.T, k kind, shard int, files []string, logf func(string, ...any)) outcomes {
	readOnly := config{props: map[string]string{"readonlymode.enabled": "true"}}
	args := command(t, k, "", readOnly)
	lines := run.lines
	if k == zkd {
		lines = append(slices.Clone(lines), "readonlymode.enabled=true")
	}
	serverJSON, err := json.Marshal(args[:len(args)-1])
	if err != nil {
		t.Error(err)
	}
	report := filepath.Join(t.TempDir(), fmt.Sprintf("kazoo-%s-%d.xml", k, shard))
	ctx, cancel := context.WithTimeout(t.Context(), kazooDeadline)
	defer cancel()
	pytest := []string{"-m", "pytest", "-p", "zkd_kazoo", "-p", "no:cacheprovider", "-q", "--tb=short", "--junitxml=" + report}
	pytest = append(pytest, "-k", run.selected())
	cmd := exec.CommandContext(ctx, python, append(pytest, files...)...)
	plugin, err := filepath.Abs("python")
	if err != nil {
		t.Error(err)
	}
	cmd.Env = append(os.Environ(),
		"PYTHONPATH="+plugin, "PYTHONDONTWRITEBYTECODE=1", "TMPDIR="+t.TempDir(),
		"COMPAT_SERVER="+string(serverJSON),
		"COMPAT_LINES="+strings.Join(lines, "\n"),
		"ZOOKEEPER_CLUSTER_SIZE="+strconv.Itoa(run.servers),
		"ZOOKEEPER_PORT_OFFSET="+strconv.Itoa(freeport.For(t, 1)[0]),
		"ZOOKEEPER_VERSION=3.8.0",
		"ZOOKEEPER_PATH="+javaDir)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput() // exit status 1: some test failed, which the report tells
	if logf != nil && err != nil {
		logf("pytest on %s: %v\n%s", k, err, lastLines(string(out), 60))
	}
	results, readErr := readJUnit(report)
	if readErr != nil {
		t.Errorf("kazoo on %s, shard %d: %v (pytest: %v)\n%s", k, shard, readErr, err, lastLines(string(out), 60))
	}
	return results
}

// selected is what pytest is to run.
func (run kazooRun) selected() string {
	if run.only != "" {
		return run.only
	}
	var names []string
	for _, l := range run.leftOut {
		names = append(names, l.match)
	}
	return "not " + strings.Join(names, " and not ")
}

// readJUnit reads pytest's report. A test is named file.py::Class::test.
func readJUnit(file string) (outcomes, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var report struct {
		Cases []struct {
			Class   string    `xml:"classname,attr"`
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	results := outcomes{}
	for _, c := range report.Cases {
		name := kazooName(c.Class, c.Name)
		switch {
		case c.Failure != nil || c.Error != nil:
			results[name] = "failed"
		case c.Skipped != nil:
			results[name] = "skipped"
		case results[name] == "":
			results[name] = "passed"
		}
	}
	return results, nil
}

// kazooName turns "x.y.test_lock.KazooLockTests", "test_a" into
// "test_lock.py::KazooLockTests::test_a".
func kazooName(class, name string) string {
	parts := strings.Split(class, ".")
	i := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, "test_") })
	if i < 0 {
		return name
	}
	parts = append(parts[i:], name)
	parts[0] += ".py"
	return strings.Join(parts, "::")
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

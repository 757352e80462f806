//go:build compat

package compat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestZkcliBesideZkCli types testdata/zkcli.txt into zkCli.sh and into our zkcli, each on an
// Apache server of its own, and compares stdout, the watch events and the exit
// codes of single commands. What is on stderr is for people and need not be equal,
// but for what scripts look for: see errorsOf.
func TestZkcliBesideZkCli(t *testing.T) {
	t.Parallel()
	needZkCli(t)
	script, err := os.ReadFile("testdata/zkcli.txt")
	if err != nil {
		t.Fatal(err)
	}
	bin := buildZkcli(t)
	run := func(s *server, in typed, args ...string) (string, string, int) {
		return runTool(t, s, bin, in, args)
	}
	theirs := func(s *server, in typed, args ...string) (string, string, int) {
		return runTool(t, s, zkCli, in, args, cliEnv...)
	}
	var transcripts [2][]string
	var wg sync.WaitGroup
	for i, cli := range []cliRunner{theirs, run} {
		s := start(t, apache, config{})
		wg.Go(func() { transcripts[i] = conversation(s, script, cli) })
	}
	wg.Wait()
	if n := len(transcripts[0]); n < 150 {
		t.Errorf("zkCli.sh printed only %d lines:\n%s", n, strings.Join(transcripts[0], "\n"))
	}
	diff := diffLines(transcripts[0], transcripts[1])
	if diff != "" {
		t.Errorf("zkcli (+) differs from zkCli.sh (-):\n%s", diff)
	}
	different := strings.Count(diff, "\n- ")
	summary(t, t.Name(), len(transcripts[0])-different, different)
}

// cliRunner runs a shell and returns what it printed, and its exit code.
type cliRunner func(s *server, in typed, args ...string) (out, errOut string, status int)

// anyZxid masks the zxids of single commands: zkCli.sh leaves the session of one to
// expire, and zkcli closes it.
var anyZxid = regexp.MustCompile(`Zxid = 0x[0-9a-f]+`)

// conversation returns results, events and errors of the script, and then the
// results and exit codes of single commands.
func conversation(s *server, script []byte, run cliRunner) []string {
	out, errOut, _ := run(s, scripted(script))
	lines := append([]string{"# results"}, resultsOf(out)...)
	_, events := splitEvents(out)
	lines = append(append(lines, "# events"), slices.DeleteFunc(events, func(event string) bool {
		return strings.Contains(event, "type:None") // of the connection, not of a node
	})...)
	lines = append(append(lines, "# errors"), errorsOf(errOut)...)
	for _, args := range [][]string{
		{"create", "/one", "shot"}, {"create", "-s", "/one-", "two words"}, {"get", "/one"}, {"get", "-s", "/one"}, {"get", "/none"},
		{"set", "-s", "/one", "x"}, {"stat", "/one"}, {"ls", "/"}, {"ls", "-R", "/zookeeper"}, {"getAcl", "/one"}, {"delete", "/one"},
		{"-timeout", "5000", "-r", "ls", "/"}, {"ls"}, {"nosuchcommand"}, {"quit"},
	} {
		out, _, status := run(s, typed{}, args...)
		// Any failure will do: ours has an exit code for each class.
		lines = append(lines, fmt.Sprintf("# %s: exit %d", strings.Join(args, " "), min(status, 1)))
		for _, line := range resultsOf(out) {
			lines = append(lines, anyZxid.ReplaceAllString(line, "Zxid = ZXID"))
		}
	}
	return normaliseCli(lines, s.addr)
}

// resultsOf drops what zkCli.sh prints about itself and its connection, and watch
// events.
func resultsOf(out string) []string {
	results, _ := splitEvents(out)
	return slices.DeleteFunc(splitLines(results), func(line string) bool {
		return strings.HasPrefix(line, "Connecting to ") || line == "Welcome to ZooKeeper!" || line == "JLine support is disabled" ||
			line == "Not connected" || strings.HasPrefix(line, "ZooKeeper CLI version")
	})
}

// errorsOf returns the lines of stderr that name a node or a protocol error.
func errorsOf(errOut string) []string {
	return slices.DeleteFunc(splitLines(errOut), func(line string) bool {
		for _, begin := range []string{
			"Created ", "Node ", "version No", "Insufficient", "Ephemerals", "Acl is", "Arguments", "Quota has", "KeeperErrorCode", "quota for", "absolute path",
		} {
			if strings.HasPrefix(line, begin) {
				return false
			}
		}
		return true
	})
}

// buildZkcli returns our shell.
func buildZkcli(t testing.TB) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "zkcli")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/zkd-project/zkd/cmd/zkcli").CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/zkcli: %v\n%s", err, out)
	}
	return bin
}

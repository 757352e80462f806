//go:build compat

package compat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	zkCliDeadline = 90 * time.Second
	// The entries of testdata/known*.txt for TestZkCli and TestEnsembleZkCli.
	zkCliSession         = "zkCli session"
	zkCliEnsembleSession = "zkCli session, with a follower"
)

// TestZkCli types testdata/zkcli.txt into zkCli.sh on Apache and on the target,
// runs single commands for their exit status, and compares all that it prints.
func TestZkCli(t *testing.T) {
	needZkCli(t)
	p := startPair(t, apache, config{})
	compareCli(t, zkCliSession, []*server{p.reference, p.subject})
}

// TestEnsembleZkCli does that on a follower of an ensemble.
func TestEnsembleZkCli(t *testing.T) {
	needZkCli(t)
	reference, subject := startEnsembles(t, apache, config{})
	var followers []*server
	for _, e := range []*ensemble{reference, subject} {
		roles, ok := e.roles()
		if !ok {
			t.Fatalf("the ensemble of %s is not healthy", e.kind)
		}
		followers = append(followers, roles[follower])
	}
	compareCli(t, zkCliEnsembleSession, followers)
}

func needZkCli(t *testing.T) {
	t.Helper()
	needApache(t)
	require(t, need{zkCli, "zookeeper"})
}

// compareCli compares the sessions on two servers, the first of which is
// Apache's, with the entry of testdata/known*.txt.
func compareCli(t *testing.T, entry string, servers []*server) {
	t.Helper()
	script, err := os.ReadFile("testdata/zkcli.txt")
	if err != nil {
		t.Fatal(err)
	}
	var transcripts [2][]string
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			transcripts[i] = cliSession(t, s, script)
			for _, args := range [][]string{
				{"create", "/one", "shot"}, {"get", "/one"}, {"get", "/none"}, {"delete", "/one"}, {"nosuchcommand"},
			} {
				transcripts[i] = append(transcripts[i], cliOnce(t, s, args)...)
			}
		})
	}
	wg.Wait()
	if n := len(transcripts[0]); n < 200 {
		t.Errorf("the session on apache printed only %d lines:\n%s", n, strings.Join(transcripts[0], "\n"))
	}
	diff := diffLines(transcripts[0], transcripts[1])
	compareKnown(t, apache, readKnown(t, apache)[entry].diff, diff)
	different := strings.Count(diff, "\n- ")
	summary(t, t.Name(), len(transcripts[0])-different, different)
}

// cliSession returns results, watch events and errors of a scripted session,
// each in its order.
func cliSession(t *testing.T, s *server, script []byte) []string {
	out, errOut, _ := runTool(t, s, zkCli, scripted(script), nil, cliEnv...)
	results, events := splitEvents(out)
	lines := append([]string{"# results"}, splitLines(results)...)
	lines = append(append(lines, "# events"), events...)
	return normaliseCli(append(append(lines, "# errors"), splitLines(errOut)...), s.addr)
}

func cliOnce(t *testing.T, s *server, args []string) []string {
	out, errOut, status := runCli(t, s, nil, args...)
	results, _ := splitEvents(out)
	lines := []string{fmt.Sprintf("# %s: exit %d", strings.Join(args, " "), status)}
	return normaliseCli(append(append(lines, splitLines(results)...), splitLines(errOut)...), s.addr)
}

var cliEvent = regexp.MustCompile(`\n(?:WATCHER::|(WatchedEvent [^\n]*))\n`)

// splitEvents separates what a shell printed from its watch events. zkCli.sh prints these in a
// thread of their own: where they stand means nothing, and it may be the middle of a line.
func splitEvents(out string) (results string, events []string) {
	for _, m := range cliEvent.FindAllStringSubmatch(out, -1) {
		if m[1] != "" {
			events = append(events, m[1])
		}
	}
	return cliEvent.ReplaceAllString(out, ""), events
}

// typed is what is typed into a shell: lines, and further lines once it has printed a text. The last
// line should be the shell's end, for zkCli.sh does not wait then for the thread that prints events.
type typed struct{ lines, until, then string }

// scripted is how a script is typed. testdata/zkcli.txt turns events off once its last one has been printed.
func scripted(script []byte) typed {
	before, after, found := strings.Cut(string(script), "printwatches off\n")
	if !found {
		return typed{then: string(script)}
	}
	return typed{before, "type:DataWatchRemoved", "printwatches off\n" + after}
}

// into makes a command type this, and returns what the command prints to stdout.
func (in typed) into(ctx context.Context, cmd *exec.Cmd) *printed {
	out := &printed{until: in.until, seen: make(chan struct{})}
	cmd.Stdin, cmd.Stdout = io.MultiReader(strings.NewReader(in.lines), seenBy{ctx, out.seen}, strings.NewReader(in.then)), out
	out.look()
	return out
}

// printed is what a command has printed. seen is closed when a text is in it.
type printed struct {
	strings.Builder
	until string
	seen  chan struct{}
	over  bool
}

func (p *printed) Write(b []byte) (int, error) {
	defer p.look()
	return p.Builder.Write(b)
}

func (p *printed) look() {
	if !p.over && strings.Contains(p.String(), p.until) {
		p.over = true
		close(p.seen)
	}
}

// seenBy is a reader without bytes that ends with a context, or when something is seen before.
type seenBy struct {
	ctx  context.Context
	seen <-chan struct{}
}

func (s seenBy) Read([]byte) (int, error) {
	select {
	case <-s.seen:
	case <-s.ctx.Done():
	}
	return 0, io.EOF
}

var cliEnv = []string{"LC_ALL=C.UTF-8", "CLIENT_JVMFLAGS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

// runCli runs zkCli.sh.
func runCli(t *testing.T, s *server, stdin []byte, args ...string) (out, errOut string, status int) {
	return runTool(t, s, zkCli, typed{then: string(stdin)}, args, cliEnv...)
}

// runTool runs a command-line client on a server. env is what is to be in its
// environment beside ours.
func runTool(t *testing.T, s *server, tool string, in typed, args []string, env ...string) (out, errOut string, status int) {
	ctx, cancel := context.WithTimeout(t.Context(), zkCliDeadline)
	defer cancel()
	name := filepath.Base(tool)
	cmd := exec.CommandContext(ctx, tool, append([]string{"-server", s.addr}, args...)...)
	cmd.Env = append(append(os.Environ(), "TZ=UTC"), env...)
	stdout, stderr := in.into(ctx, cmd), new(strings.Builder)
	cmd.Stderr = stderr
	cmd.WaitDelay = 5 * time.Second
	var exit *exec.ExitError
	switch err := cmd.Run(); {
	case errors.As(err, &exit):
		status = exit.ExitCode()
	case err != nil:
		t.Errorf("%s on %s: %v", name, s.kind, err)
	}
	if ctx.Err() != nil {
		t.Errorf("%s %q on %s did not end in %v; it printed:\n%s\n%s", name, args, s.kind, zkCliDeadline,
			lastLines(stdout.String(), 20), lastLines(stderr.String(), 20))
	}
	return stdout.String(), stderr.String(), status
}

func splitLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "SLF4J: ") {
			lines = append(lines, line)
		}
	}
	return lines
}

var (
	cliIdentity = regexp.MustCompile(`^(ip|digest|super): `)
	cliZxid     = regexp.MustCompile(`^([cmp]Zxid = 0x)([0-9a-f]+)$`)
	cliTime     = regexp.MustCompile(`^([cm]time = )(.*)$`)
	cliOwner    = regexp.MustCompile(`^(ephemeralOwner = 0x)([0-9a-f]{2,})$`)
)

// epochVersion is a configuration's version that is the beginning of an epoch: which
// one, that depends on how many elections there were.
var epochVersion = regexp.MustCompile(`^version=[1-9a-f][0-9a-f]*00000000$`)

// normaliseCli replaces times, session ids and the server's address, and makes
// zxids relative to the first one printed.
func normaliseCli(lines []string, addr string) []string {
	var base int64
	for i, line := range lines {
		line = strings.ReplaceAll(line, addr, "SERVER")
		if strings.HasPrefix(line, "server.") {
			line = places.ReplaceAllString(line, "PLACE")
		}
		line = epochVersion.ReplaceAllString(line, "version=EPOCH")
		line = cliOwner.ReplaceAllString(line, "${1}SESSION")
		if m := cliTime.FindStringSubmatch(line); m != nil && !strings.Contains(m[2], "1970") {
			line = m[1] + "TIME"
		}
		if list, isList := strings.CutPrefix(line, "["); isList { // getEphemerals prints a set
			names := strings.Split(strings.TrimSuffix(list, "]"), ", ")
			slices.Sort(names)
			line = "[" + strings.Join(names, ", ") + "]"
		}
		if m := cliZxid.FindStringSubmatch(line); m != nil && m[2] != "0" {
			zxid, err := strconv.ParseInt(m[2], 16, 64)
			if err == nil && base == 0 {
				base = zxid
			}
			if zxid < base { // of the ensemble's beginning, and sessions of others are between
				line = m[1] + "(before)"
			} else {
				line = fmt.Sprintf("%s+%d", m[1], zxid-base)
			}
		}
		lines[i] = line
	}
	sortRuns(lines, cliIdentity.MatchString) // whoami prints a set
	return lines
}

// sortRuns sorts each run of lines of one kind.
func sortRuns(lines []string, kind func(line string) bool) {
	for i := 0; i < len(lines); i++ {
		start := i
		for i < len(lines) && kind(lines[i]) {
			i++
		}
		slices.Sort(lines[start:i])
	}
}

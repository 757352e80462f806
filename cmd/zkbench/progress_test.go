package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/cmd/zkbench/bench/fake"
	"github.com/zkd-project/zkd/internal/testing/ptytest"
)

// asProgram makes the test's own program zkbench.
const asProgram = "ZKBENCH_TEST_MAIN"

func TestProgressOnATerminal(t *testing.T) {
	s := fake.Start(t)
	cmd := exec.Command(os.Args[0], "set", "-c", "2", "-k", "10", "-n", "50", "--warmup", "1ms", s.Addr)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TERM=xterm")
	term := ptytest.Start(t, cmd, 100, 24, func(rune) bool { return false })
	if code := term.WaitExit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	written := term.Written()
	at := 0
	for _, want := range []string{"\rpreparing, ", "\rwarming up, ", "\rmeasuring, ", " of 50", "\rremoving the nodes, ", "\r" + strings.Repeat(" ", 20), "\rworkload "} {
		i := strings.Index(written[at:], want)
		if i < 0 {
			t.Fatalf("there is no %q after byte %d of %q", want, at, written)
		}
		at += i
	}
}

// A pipe gets the result and nothing else.
func TestNoProgressOnAPipe(t *testing.T) {
	s := fake.Start(t)
	out, errs, err := zkbench(t, "set", "-c", "2", "-k", "10", "-n", "50", "--warmup", "1ms", s.Addr)
	if err != nil || errs != "" || !strings.HasPrefix(out, "workload ") {
		t.Errorf("got %q, %q, %v", out, errs, err)
	}
}

func TestProgressLine(t *testing.T) {
	tests := []struct {
		phase  bench.Phase
		passed time.Duration
		done   int64
		want   string
	}{
		{bench.Phase{Name: "preparing"}, time.Second, 0, "preparing, 1.0 s"},
		{bench.Phase{Name: "preparing"}, time.Second, 12, "preparing, 1.0 s, 12 replies"},
		{bench.Phase{Name: "measuring", Lasts: 4 * time.Second}, 1500 * time.Millisecond, 7, "measuring, 1.5 of 4.0 s, 7 replies"},
		{bench.Phase{Name: "measuring", Lasts: 4 * time.Second}, 5 * time.Second, 7, "measuring, 4.0 of 4.0 s, 7 replies"},
		{bench.Phase{Name: "measuring", Count: 100}, time.Second, 7, "measuring, 1.0 s, 7 of 100"},
	}
	for _, tt := range tests {
		if got := line(tt.phase, tt.passed, tt.done); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// The run that the documents call "load for 5 s" lasts that long: warm-up and
// measurement. What comes before and after is announced.
func TestQuickStartLastsAsLongAsItSays(t *testing.T) {
	said := regexp.MustCompile(`zkbench set [^\n]*load for (\S+ s)\b`)
	d := bench.Defaults(bench.Set)
	lasts := (d.Warmup + d.Duration).Seconds()
	for _, name := range []string{"README.md", "Makefile", "cmd/zkd/demo.go"} {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		m := said.FindStringSubmatch(string(text))
		if m == nil {
			t.Errorf("%s says nothing of the load", name)
			continue
		}
		want, err := time.ParseDuration(strings.ReplaceAll(m[1], " ", ""))
		if err != nil || want.Seconds() != lasts {
			t.Errorf("%s says %s, but it lasts %v s", name, m[1], lasts)
		}
	}
}

// TestRunWithoutReader checks that a run whose output nobody reads, as after Ctrl-C in
// zkbench | tee, comes to its end, which removes what it has written.
func TestRunWithoutReader(t *testing.T) {
	s := fake.Start(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	cmd := exec.Command(os.Args[0], "set", "-c", "2", "-k", "10", "-n", "50", "--warmup", "1ms", s.Addr)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 141 {
		t.Errorf("exit code %d, %v", code, err)
	}
}

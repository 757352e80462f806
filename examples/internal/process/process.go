// Package process runs examples as processes in their own tests: the test's binary, started again,
// is the example.
package process

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/client/zktest"
)

const variable = "ZKD_EXAMPLE"

// Main runs main instead of the tests in a process that EndsOnSignals has started.
func Main(main func()) {
	if os.Getenv(variable) != "" {
		main()
		os.Exit(0)
	}
}

// EndsOnSignals checks that the program ends in order when it is asked to, with an exit code, and
// leaves no ephemeral node. ready is in a line that it writes when it holds something, or waits for it.
// args returns its arguments, for servers that nobody has used.
func EndsOnSignals(t *testing.T, ready string, code int, args func(servers string) []string) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such signals")
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			servers := zktest.Target(t, 1)
			c := servers.Client(t)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // ends what hangs
			defer cancel()
			if got := interrupt(t, exec.CommandContext(ctx, os.Args[0], args(servers.ConnectString())...), ready, sig); got != code {
				t.Errorf("exit code %d, want %d", got, code)
			}
			for node, err := range tree.Walk(t.Context(), c, "/", tree.WalkOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				if node.Stat.EphemeralOwner != 0 {
					t.Errorf("left: %s", node.Path)
				}
			}
		})
	}
}

// interrupt runs a program until it is at work, sends it a signal, and returns its exit code.
func interrupt(t *testing.T, cmd *exec.Cmd, ready string, sig syscall.Signal) int {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }() // in any case
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), ready) {
	}
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until it ends
	}
	_ = cmd.Wait() // the exit code says more
	return cmd.ProcessState.ExitCode()
}

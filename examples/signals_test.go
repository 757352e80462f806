//go:build unix

package examples

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/client/zktest"
)

// A program that holds something, or waits for it, ends in order when it is asked to: it
// leaves no ephemeral node.
func TestProgramsEndOnSignals(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", bin, "./...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, program := range []struct {
		args, ready string // ready is in a line that it writes when it is at work
		code        int
	}{
		{"lock -deposits 1000000", "has the lock", 1}, // the deposits are not made
		{"config worker w", "w says", 0},
		{"group m", "m", 0},
		{"queue work", "working on", 0},
		{"masterworker master", "is the master", 0},
		{"masterworker worker", "is here", 0},
	} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(program.args+"/"+sig.String(), func(t *testing.T) {
				servers := zktest.Target(t, 1)
				c := servers.Client(t)
				offer(t, filepath.Join(bin, "queue"), servers.ConnectString())
				args := strings.Fields(program.args)
				args = append([]string{"-servers", servers.ConnectString()}, args[1:]...)
				name := strings.Fields(program.args)[0]
				if name == "masterworker" { // the role comes first
					args[0], args[1], args[2] = args[2], args[0], args[1]
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // ends what hangs
				defer cancel()
				if code := interrupt(t, exec.CommandContext(ctx, filepath.Join(bin, name), args...), program.ready, sig); code != program.code {
					t.Errorf("exit code %d, want %d", code, program.code)
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
}

// offer gives the worker of the queue something to say.
func offer(t *testing.T, queue, servers string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), queue, "-servers", servers, "offer", "item").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// interrupt runs a program until it is at work, sends it a signal, and returns its exit code.
func interrupt(t *testing.T, cmd *exec.Cmd, ready string, sig syscall.Signal) int {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
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

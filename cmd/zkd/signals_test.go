package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestSignals checks that SIGHUP and SIGQUIT do not end a server, and that SIGTERM stops
// it gracefully.
func TestSignals(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := newOutput()
	cmd := exec.Command(self, "--data-dir", t.TempDir(), "--port", "0", "--set", "clientPortAddress=127.0.0.1")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()

	addr := awaitOf(t, out, ended, `serving clients.*"address": "([^"]*)"`)
	cmd.Process.Signal(syscall.SIGHUP)
	awaitOf(t, out, ended, `(SIGHUP): there is nothing to reload`)
	cmd.Process.Signal(syscall.SIGQUIT)
	awaitOf(t, out, ended, `(?s)(SIGQUIT): the stacks of all goroutines follow.*(?:main|zkd)\.serve`)
	if got := answer(t, addr, "srvr"); !strings.Contains(got, "Mode: standalone") {
		t.Errorf("after the signals: %q", got)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, out)
	}
}

// awaitOf is like output.await for a process that may end instead.
func awaitOf(t *testing.T, out *output, ended <-chan error, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		if m := re.FindStringSubmatch(out.String()); m != nil {
			return m[1]
		}
		select {
		case <-out.wrote:
		case err := <-ended:
			t.Fatalf("no %s; the server has ended: %v\n%s", pattern, err, out)
		}
	}
}

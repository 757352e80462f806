package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSignals checks that SIGHUP, SIGQUIT and SIGUSR1 do not end a server, whatever the
// configuration has become, and that SIGTERM stops it gracefully.
func TestSignals(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := newOutput()
	file := filepath.Join(t.TempDir(), "zoo.cfg")
	write(t, file, "tickTime=500\n")
	cmd := exec.Command(self, "--config", file, "--data-dir", t.TempDir(), "--port", "0", "--set", "clientPortAddress=127.0.0.1")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()

	addr := awaitOf(t, out, ended, `serving clients.*"address": "([^"]*)"`)
	// It serves clients a moment before it handles signals: until then they are ignored.
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !strings.Contains(out.String(), `SIGHUP: the configuration was read again	{"changed": 0, "need_restart": 0}`) {
		cmd.Process.Signal(syscall.SIGHUP)
		select {
		case <-again.C:
		case err := <-ended:
			t.Fatalf("the server has ended: %v\n%s", err, out)
		}
	}
	write(t, file, "tickTime=700\nzkd.logLevel=debug\n4lw.commands.whitelist=ruok\n")
	cmd.Process.Signal(syscall.SIGHUP)
	awaitOf(t, out, ended, `(?s)(SIGHUP): changed.*4lw.commands.whitelist", "from": "srvr", "to": "ruok".*SIGHUP: changed.*zkd.logLevel", "from": "info", "to": "debug"`+
		`.*SIGHUP: needs a restart.*tickTime", "from": "500", "to": "700".*"changed": 2, "need_restart": 1`)
	if got := answer(t, addr, "ruok"); got != "imok" {
		t.Errorf("ruok: %q", got)
	}
	awaitOf(t, out, ended, `(DEBUG).*four-letter word ruok`)
	write(t, file, "tickTime=x\nsslQuorum=maybe\nzkd.logLevel=error\n")
	cmd.Process.Signal(syscall.SIGHUP)
	awaitOf(t, out, ended, `(?s)(SIGHUP): [^\n]*zoo.cfg:1: tickTime: .*SIGHUP: [^\n]*zoo.cfg:2: sslQuorum: .*SIGHUP: the configuration can't be used, and nothing was changed`)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGHUP)
	awaitOf(t, out, ended, `(SIGHUP): the configuration can't be used, and nothing was changed.*no such file`)
	cmd.Process.Signal(syscall.SIGUSR1)
	awaitOf(t, out, ended, `(SIGUSR1): nothing to hand over`)
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

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/cmd/zkd/local"
)

// TestDemo runs the demonstration until it has killed a leader, and a user another one.
func TestDemo(t *testing.T) {
	t.Parallel() // it waits for processes, most of the time
	out := newOutput()
	cmd := program(t, "demo", "--free-ports", "--kill-every", "6s")
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	cmd.Stdout, cmd.Stderr = out, out
	ended := ending(t, cmd)
	dir := awaitOf(t, out, ended, `logs are in (\S+), which is deleted`)
	servers := awaitOf(t, out, ended, `zkd status (\S+)`)
	awaitOf(t, out, ended, `(kill -9): server \d, which leads`)
	if lost := awaitOf(t, out, ended, `writes acknowledged, (\d+) lost\. 5 sessions, 0 lost`); lost != "0" {
		t.Errorf("%s writes are lost", lost)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v:\n%s", err, out)
	}
	if !regexp.MustCompile(`\n\d+ leaders killed: \d+ writes acknowledged, 0 lost; \d+ turns at the lock; 0 sessions lost`).MatchString(out.String()) {
		t.Errorf("no summary:\n%s", out)
	}
	for addr := range strings.SplitSeq(servers, ",") {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s still listens", addr)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v", dir, err)
	}
}

// TestDemoOfServersAlone kills a server as a user would: it is started again, and the data stay.
func TestDemoOfServersAlone(t *testing.T) {
	t.Parallel()
	out, dir := newOutput(), t.TempDir()
	cmd := program(t, "demo", "--free-ports", "--servers-only", "--dir", dir)
	cmd.Stdout, cmd.Stderr = out, out
	ended := ending(t, cmd)
	pid := awaitOf(t, out, ended, `kill -9 (\d+) `)
	p, err := os.FindProcess(atoi(t, pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	id := awaitOf(t, out, ended, `server (\d) has ended`)
	awaitOf(t, out, ended, `server `+id+` is (started) again`)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v:\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, id)); err != nil {
		t.Error(err)
	}
}

// A server that can't start ends the demonstration, with its own word of why.
func TestDemoSaysWhyAServerEnds(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	self := program(t)
	free := freePorts(t, 3)
	taken := l.Addr().(*net.TCPAddr).Port
	e, err := local.New(local.Options{
		Program: []string{"env", asProgram + "=1", self.Path}, Dir: t.TempDir(), Servers: 1,
		Ports: local.Ports{Client: taken, Quorum: atoi(t, free[0]), Admin: atoi(t, free[1]), Metrics: atoi(t, free[2])},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err = e.StartAll(t.Context()); err == nil || !strings.Contains(err.Error(), "server 1 has ended: ") || !strings.Contains(err.Error(), fmt.Sprintf("%v: bind: address already in use", l.Addr())) {
		t.Errorf("got %v", err)
	}
}

//go:build unix

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/stdio"
)

// unread starts zkcli with a stdout that nobody reads.
func unread(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// checkUnread waits for the end of zkcli.
func checkUnread(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != stdio.UnreadCode {
		t.Errorf("exit code %d (%v), want %d", code, err, stdio.UnreadCode)
	}
}

// TestScriptWithoutAReader checks that a script whose results nobody reads ends at the first of
// them, and closes its session.
func TestScriptWithoutAReader(t *testing.T) {
	s := zktest.Start(t)
	cmd := exec.Command(os.Args[0], "-server", s.ConnectString())
	cmd.Stdin = strings.NewReader("create -e /held x\nls /\ncreate /after x\n")
	var errs strings.Builder
	cmd.Stderr = &errs
	unread(t, cmd)
	checkUnread(t, cmd)
	c := s.Client(t)
	for _, path := range []string{"/held", "/after"} {
		if _, err := c.Get(t.Context(), path); !errors.Is(err, client.ErrNoNode) {
			t.Errorf("%s: %v, want no node", path, err)
		}
	}
	if strings.Contains(errs.String(), "pipe") {
		t.Errorf("stderr has the broken pipe:\n%s", &errs)
	}
}

// TestWatchWithoutAReader checks that a watch whose events nobody reads ends in order.
func TestWatchWithoutAReader(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	cmd := exec.Command(os.Args[0], "-server", s.ConnectString(), "watch", "/")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	unread(t, cmd)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "watching /") {
	}
	if _, err := c.Create(t.Context(), "/x", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		t.Errorf("stderr: %s", lines.Text())
	}
	checkUnread(t, cmd)
}

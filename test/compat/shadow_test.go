//go:build compat

package compat

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestShadow runs other people's clients through zkd shadow, in front of Apache 3.8 and zkd: nothing
// differs but what docs/compat.md has.
func TestShadow(t *testing.T) { testShadow(t, apache) }

func TestShadow39(t *testing.T) { testShadow(t, apache39) }

func testShadow(t *testing.T, reference kind) {
	p := startPair(t, reference, config{})
	s := startShadow(t, p, "--walk", "/", "--walk-auth", "digest:super:secret")
	t.Run("C", func(t *testing.T) { runProgram(t, compileC(t, "client"), s.addr) })
	if *fullFlag || reference != apache { // they take most of a minute
		t.Run("Java", func(t *testing.T) { javaClient(t)(t, s.addr) })
		t.Run("Curator", func(t *testing.T) { curatorPrograms(t, "CuratorProgram")(t, s.addr) })
		t.Run("zkCli.sh", func(t *testing.T) {
			needZkCli(t)
			script, err := os.ReadFile("testdata/zkcli.txt")
			if err != nil {
				t.Fatal(err)
			}
			cliSession(t, &server{kind: reference, addr: s.addr}, script)
		})
	}
	t.Run("kazoo", func(t *testing.T) {
		needKazoo(t)
		k := newKazoo(t, s.addr)
		k.check(t, "through a shadow")
	})
	t.Run("storm", func(t *testing.T) {
		for seed := range uint64(3) {
			storm(t, s.addr, seed, nil)
		}
	})
	s.finish(t)
}

// runningShadow is a zkd shadow.
type runningShadow struct {
	addr   string
	cmd    *exec.Cmd
	out    *bufio.Reader
	report string
}

func startShadow(t *testing.T, p pair, args ...string) *runningShadow {
	t.Helper()
	s := &runningShadow{report: filepath.Join(t.TempDir(), "report.json")}
	ctx, cancel := context.WithCancel(context.Background())
	args = append([]string{"shadow", "--listen", "127.0.0.1:0", "--apache", p.reference.addr, "--zkd", p.subject.addr, "--report", s.report}, args...)
	s.cmd = exec.CommandContext(ctx, zkdBinary(t), args...)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err := errors.Join(err, s.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	t.Cleanup(func() {
		cancel()
		s.cmd.Wait() // finish has looked at it
	})
	line, err := s.out.ReadString('\n')
	addr, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		t.Fatalf("the shadow says %q, %v", line, err)
	}
	s.addr = addr
	return s
}

// finish ends the shadow and checks its result: it is clean, and what is known is in docs/compat.md.
func (s *runningShadow) finish(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	const patience = time.Minute
	defer time.AfterFunc(patience, func() { s.cmd.Process.Kill() }).Stop() // then the wait fails
	text, err := io.ReadAll(s.out)
	if err := errors.Join(err, s.cmd.Wait()); err != nil {
		t.Errorf("the shadow: %v", err)
	}
	t.Logf("%s", text)
	users, detail := pages(t)
	f, err := os.Open(s.report)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	known := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r struct{ Class, ID string }
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		switch {
		case r.Class == "difference":
			t.Errorf("%s", lines.Text())
		case r.Class == "known" && !strings.Contains(users+detail, "`"+r.ID+"`"):
			t.Errorf("not in docs/compat.md: %s", lines.Text())
		default:
			known++
		}
	}
	summary(t, t.Name(), known, 0)
}

//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
)

// underLock is zkcli with a shell script that runs under a lock.
type underLock struct {
	cmd *exec.Cmd
	// out ends when zkcli, the script and all that the script has started have ended.
	out *bufio.Reader
}

var paths atomic.Int64

// lockFor runs zkcli lock or elect, and returns when the script has written "up". The path is
// of its own: what was killed holds its lock until the session ends.
func lockFor(t *testing.T, server, verb, script string) *underLock {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	path := "/" + strings.ReplaceAll(t.Name(), "/", "-") + strconv.FormatInt(paths.Add(1), 10)
	cmd := exec.Command(os.Args[0], "-server", server, verb, "--grace", "50ms", path, "--", "sh", "-c", script)
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	cmd.Stdout, cmd.SysProcAttr = write, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, as a rule
		_ = cmd.Wait()
	})
	write.Close()
	u := &underLock{cmd, bufio.NewReader(read)}
	if line := u.line(t); line != "up" {
		t.Fatalf("the script wrote %q", line)
	}
	return u
}

func (u *underLock) line(t *testing.T) string {
	t.Helper()
	line, err := u.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// rest waits for the end of all processes, and returns what they have written.
func (u *underLock) rest(t *testing.T) string {
	t.Helper()
	rest, err := io.ReadAll(u.out)
	if err != nil {
		t.Fatal(err)
	}
	return string(rest)
}

// Whatever ends zkcli, the program under the lock ends, with what it has started, also if it
// ignores the signals that can be ignored.
func TestProgramEndsWithZkcli(t *testing.T) {
	s := zktest.Start(t)
	for name, script := range map[string]string{
		"program":        "echo up; exec sleep 60",
		"child":          "sleep 60 & echo up; wait",
		"ignores it":     `trap "" TERM INT HUP QUIT ABRT; echo up; for i in 1 2 3 4 5 6; do sleep 10; done`,
		"child outlives": `(trap "" TERM INT HUP QUIT ABRT; sleep 60; echo on) & echo up; wait`,
	} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGKILL} {
			for _, verb := range []string{"lock", "elect"} {
				t.Run(name+"/"+sig.String()+"/"+verb, func(t *testing.T) {
					u := lockFor(t, s.ConnectString(), verb, script+"; echo on without the lock")
					if err := u.cmd.Process.Signal(sig); err != nil {
						t.Fatal(err)
					}
					if rest := u.rest(t); rest != "" {
						t.Errorf("the program went on: %q", rest)
					}
				})
			}
		}
	}
}

// upWithGuard writes the process id of the guard, which is the parent of the script.
const upWithGuard = "echo up; echo $PPID; "

// Without its guard the program ends, too; on Linux also if zkcli is killed with the guard.
func TestProgramEndsWithItsGuard(t *testing.T) {
	s := zktest.Start(t)
	for _, both := range []bool{false, true} {
		if both && runtime.GOOS != "linux" {
			continue
		}
		u := lockFor(t, s.ConnectString(), "lock", upWithGuard+"exec sleep 60")
		guard, err := strconv.Atoi(u.line(t))
		if err != nil {
			t.Fatal(err)
		}
		if both {
			if err := u.cmd.Process.Signal(syscall.SIGSTOP); err != nil { // it must not notice the first one
				t.Fatal(err)
			}
		}
		if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if both {
			if err := u.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if rest := u.rest(t); rest != "" {
			t.Errorf("both %v: %q", both, rest)
		}
	}
}

// Signals that mean nothing to zkcli are for the program.
func TestSignalsArePassedOn(t *testing.T) {
	s := zktest.Start(t)
	for _, name := range []string{"USR1", "USR2", "ALRM"} {
		sig := map[string]syscall.Signal{"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ALRM": syscall.SIGALRM}[name]
		u := lockFor(t, s.ConnectString(), "lock", `trap "echo got it; exit 9" `+name+`; echo up; while :; do sleep 0.01; done`)
		if err := u.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if rest := u.rest(t); rest != "got it\n" {
			t.Errorf("SIG%s: %q", name, rest)
		}
		if err := u.cmd.Wait(); u.cmd.ProcessState.ExitCode() != 9 {
			t.Errorf("SIG%s: %v", name, err)
		}
	}
}

// A program that nohup has started ignores hangups; so does what it runs.
func TestHangupStaysIgnored(t *testing.T) {
	s := zktest.Start(t)
	cmd := exec.Command("sh", "-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0], "-server", s.ConnectString(), "lock", "/l", "--", "sh", "-c", "kill -HUP $$ $PPID; kill -HUP $(ps -o ppid= -p $PPID); echo here; exit 4")
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	out, err := cmd.Output()
	if string(out) != "here\n" || cmd.ProcessState.ExitCode() != 4 {
		t.Errorf("%q, %v", out, err)
	}
}

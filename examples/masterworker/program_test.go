package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// run runs a program and returns its exit code and what it writes.
func run(s System, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = Main(context.Background(), append([]string{"mw"}, args...), Streams{&o, &e}, s)
	return code, o.String(), e.String()
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"what"}, {"master", "x"}, {"submit"}, {"admin", "-what"}} {
		code, out, errs := run(System{}, args...)
		if code != 2 || out != "" || !strings.Contains(errs, "sage") {
			t.Errorf("%q: code %d, %q, %q", args, code, out, errs)
		}
	}
}

// A role whose session has ended begins again, and ends with any other error.
func TestAgain(t *testing.T) {
	n := 0
	s := System{Worker: func(_ context.Context, _ Connect, name string, do Handler, _ *log.Logger) error {
		if n++; n < 3 {
			return client.ErrSessionExpired
		}
		got, err := do(context.Background(), []byte("abc"))
		return fmt.Errorf("%s says %s, %v", name, got, err)
	}}
	code, out, errs := run(s, "worker", "-name", "w1")
	if code != 1 || errs != "w1 says ABC, <nil>\n" || strings.Count(out, "begins again") != 2 {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
}

// SIGTERM ends a role in order.
func TestSignal(t *testing.T) {
	s := System{Master: func(ctx context.Context, _ Connect, _ string, _ *log.Logger) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}}
	code, out, errs := run(s, "master")
	if code != 0 || errs != "" || !strings.Contains(out, "told to end, and done") {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
}

// A second one ends a role that can't end in order, such as when the servers are down.
func TestSecondSignalKills(t *testing.T) {
	const variable = "MW_TEST_STUCK"
	if os.Getenv(variable) != "" {
		stuck := System{Master: func(context.Context, Connect, string, *log.Logger) error {
			_, err := io.Copy(os.Stdout, os.Stdin) // until it is killed
			return err
		}}
		Main(context.Background(), []string{"mw", "master"}, Streams{io.Discard, os.Stderr}, stuck)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // ends what hangs
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSecondSignalKills$")
	cmd.Env = append(os.Environ(), variable+"=1")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	for err := error(nil); err == nil; { // it answers as long as it lives
		fmt.Fprintln(in, "?")
		if _, err = out.Read(make([]byte, 2)); err == nil {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	err := cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", err)
	}
}

func TestSubmitNamesItsTasks(t *testing.T) {
	var got []string
	s := System{Submit: func(_ context.Context, _ Connect, o Submission) error {
		for i, task := range o.Tasks {
			got = append(got, task.ID+"="+string(task.Data))
			o.Queued(i, "task-1")
			o.Done(i, "task-1", layout.Result{Text: []byte("A")})
		}
		return nil
	}}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"submit", "a"}, "=a"},
		{[]string{"submit", "-name", "x", "a"}, "x=a"},
		{[]string{"submit", "-name", "x", "a", "b"}, "x-1=a x-2=b"},
	} {
		got = nil
		code, out, errs := run(s, c.args...)
		if text := strings.Join(got, " "); code != 0 || text != c.want || !strings.Contains(out, "task-1 is done: A") {
			t.Errorf("%q: code %d, tasks %s, want %s; %q, %q", c.args, code, text, c.want, out, errs)
		}
	}
}

func TestAdmin(t *testing.T) {
	s := System{Admin: func(context.Context, Connect) (layout.State, error) {
		return layout.State{Master: "m1", Waiting: []string{"task-7"}}, nil
	}}
	if code, out, _ := run(s, "admin"); code != 0 || !strings.Contains(out, "Master m1 since") || !strings.Contains(out, "  task-7\n") {
		t.Errorf("code %d, %q", code, out)
	}
	s.Admin = func(context.Context, Connect) (layout.State, error) { return layout.State{}, errors.New("no servers") }
	if code, _, errs := run(s, "admin"); code != 1 || errs != "no servers\n" {
		t.Errorf("code %d, %q", code, errs)
	}
}

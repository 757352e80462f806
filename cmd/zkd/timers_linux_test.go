package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// asSleeper in the environment makes TestSchedulerIsTuned act as the process that it
// starts.
const asSleeper = "ZKD_TEST_IS_SLEEPER"

// A process gets the slack under its own id, its environment does not show it, and there
// is one more slot for goroutines. Settings of the operator are kept.
func TestSchedulerIsTuned(t *testing.T) {
	if os.Getenv(asSleeper) != "" {
		places := runtime.GOMAXPROCS(0)
		tuneScheduler()
		fmt.Printf("pid %d slack %v begun anew %v mark %q added %d\n",
			os.Getpid(), slack(), begunAnew(t), os.Getenv(relaxed), runtime.GOMAXPROCS(0)-places)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		before, want time.Duration
		places       string // GOMAXPROCS in the environment
		added        int
	}{
		{usualSlack, timerSlack, "", 1},
		{time.Millisecond, time.Millisecond, "3", 0},
	} {
		cmd := exec.Command(self, "-test.run=^TestSchedulerIsTuned$")
		cmd.Env = append(os.Environ(), asSleeper+"=1", "GOMAXPROCS="+tt.places)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := startWith(cmd, tt.before); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		want := fmt.Sprintf("pid %d slack %v begun anew %v mark \"\" added %d\n",
			cmd.Process.Pid, tt.want, tt.want != tt.before, tt.added)
		if !strings.Contains(out.String(), want) {
			t.Errorf("started with a slack of %v: output\n%swant\n%s", tt.before, &out, want)
		}
	}
}

// A process is executed again by its first thread, so that it never looks like a zombie.
func TestMainStaysInTheFirstThread(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asProgram+"="+wanderer)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "first thread: true\n" {
		t.Errorf("%v, %q", err, out)
	}
}

// begunAnew reports whether relaxTimers has restarted this process: the watchdog has the
// slack only then, and only root may read that.
func begunAnew(t *testing.T) bool {
	env, err := os.ReadFile("/proc/self/environ") // as it was at the start
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(env), relaxed+"=1")
}

// startWith starts a process with a timer slack: that of the thread from which it is
// started.
func startWith(cmd *exec.Cmd, d time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer setSlack(slack())
	if err := setSlack(d); err != nil {
		return err
	}
	return cmd.Start()
}

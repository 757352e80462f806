package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/freeport"
)

// asProgram in the environment makes the test binary act as zkd, so that a script can
// start it.
const asProgram = "ZKD_TEST_IS_ZKD"

// TestRun3Script runs the script of make run3 on free ports: three processes elect a
// leader; a killed one is reported; Ctrl-C stops the others.
func TestRun3Script(t *testing.T) {
	t.Parallel() // it waits for processes, most of the time
	dir := t.TempDir()
	ports := freePorts(t, 6)
	members := ""
	for i := range 3 {
		members += fmt.Sprintf("server.%d=127.0.0.1:%s:1;127.0.0.1:%s\n", i+1, ports[3+i], ports[i])
	}
	for i := range 3 {
		write(t, filepath.Join(dir, fmt.Sprintf("zoo%d.cfg", i+1)), fmt.Sprintf(
			"4lw.commands.whitelist=*\ndataDir=%s\nzkd.myid=%d\ntickTime=2000\ninitLimit=10\nsyncLimit=5\n%s", filepath.Join(dir, ports[i]), i+1, members))
	}
	script, out := startScript(t, dir, ports[:3])
	leader := out.await(t, `Server ([123]) leads\.`)
	pid := out.await(t, `kill -9 (\d+) `)
	out.await(t, `(Ctrl-C) stops them`)
	if err := exec.Command("kill", "-9", pid).Run(); err != nil {
		t.Fatal(err)
	}
	out.await(t, `Server `+leader+` has ended, with exit code (137)`)
	next := out.await(t, `Server ([123]) leads now`)
	if next == leader {
		t.Errorf("server %s leads although it was killed:\n%s", next, out)
	}
	script.Process.Signal(os.Interrupt)
	if err := script.Wait(); err != nil {
		t.Errorf("the script ended with %v:\n%s", err, out)
	}
	for i := range 3 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+ports[i]); err == nil {
			c.Close()
			t.Errorf("server %d still listens:\n%s", i+1, out)
		}
	}
}

// TestRun3ScriptSaysWhy starts the script while another program has a port.
func TestRun3ScriptSaysWhy(t *testing.T) {
	t.Parallel() // it waits for processes, most of the time
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, taken, _ := net.SplitHostPort(l.Addr().String())
	dir := t.TempDir()
	ports := freePorts(t, 2)
	ports = append(ports, taken)
	for i, port := range ports {
		write(t, filepath.Join(dir, fmt.Sprintf("zoo%d.cfg", i+1)),
			fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n", filepath.Join(dir, port), port))
	}
	script, out := startScript(t, dir, ports)
	if err := script.Wait(); err == nil {
		t.Errorf("the script is content:\n%s", out)
	}
	for _, want := range []string{"Server 3 has ended, with exit code 1", "address already in use", "ss -ltnp"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// startScript starts scripts/run3.sh on the files in dir.
func startScript(t *testing.T, dir string, ports []string) (*exec.Cmd, *output) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := newOutput()
	cmd := exec.Command("sh", "../../scripts/run3.sh")
	cmd.Env = append(os.Environ(), asProgram+"=1", "ZKD="+self, "CONF="+dir, "DATA="+filepath.Join(dir, "data"), "PORTS="+strings.Join(ports, " "))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	heed := make(chan os.Signal, 1) // a script whose parent ignores a signal can't trap it
	signal.Notify(heed, os.Interrupt)
	defer signal.Stop(heed)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the process group, which includes the servers
		cmd.Wait()
	})
	return cmd, out
}

// freePorts returns TCP ports reserved for the test.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for _, port := range freeport.For(t, n) {
		ports = append(ports, strconv.Itoa(port))
	}
	return ports
}

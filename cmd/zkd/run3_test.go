package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/internal/testing/freeport"
)

// asProgram in the environment makes the test binary act as zkd, so that a script can
// start it.
const asProgram = "ZKD_TEST_IS_ZKD"

// TestRun3Script runs the script of make run3 on free ports: three processes elect a
// leader; a second run of the script is refused; a killed server is reported, and that it is
// back; Ctrl-C stops the others.
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
	logs := filepath.Join(dir, "data", "zkd-1.log")
	before, err := os.Stat(logs)
	if err != nil {
		t.Fatal(err)
	}
	second, said := startScript(t, dir, ports[:3])
	if err := second.Wait(); err == nil {
		t.Errorf("a second script starts:\n%s", said)
	}
	for _, want := range []string{"Port " + ports[0] + " is taken: ", "Port " + ports[2] + " is taken: ", "Servers run there already"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("a second script does not say %q:\n%s", want, said)
		}
	}
	if after, err := os.Stat(logs); err != nil || after.Size() < before.Size() {
		t.Errorf("a second script changes the log: %v, %v", after, err)
	}
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
	again := program(t, filepath.Join(dir, "zoo"+leader+".cfg"))
	again.Stderr = newOutput()
	ended := ending(t, again)
	out.await(t, `(Server) `+leader+` is back: (?:follower|leader)\.`) // as it comes: the others may have voted again
	script.Process.Signal(os.Interrupt)
	if err := script.Wait(); err != nil {
		t.Errorf("the script ended with %v:\n%s", err, out)
	}
	if want := "another terminal has started them: servers " + leader + "."; !strings.Contains(out.String(), want) {
		t.Errorf("the output lacks %q:\n%s", want, out)
	}
	again.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("the server that came back: %v\n%s", err, again.Stderr)
	}
	for i := range 3 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+ports[i]); err == nil {
			c.Close()
			t.Errorf("server %d still listens:\n%s", i+1, out)
		}
	}
}

// TestRun3ScriptSaysWhy starts the script while another program has a port: one for clients,
// or another one.
func TestRun3ScriptSaysWhy(t *testing.T) {
	t.Parallel() // it waits for processes, most of the time
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, taken, _ := net.SplitHostPort(l.Addr().String())
	for name, want := range map[string][]string{
		"client": {"Port " + taken + " is taken: "},
		"admin":  {"Server 3 has ended, with exit code 1", "address already in use", "Port " + taken + " is taken: "},
	} {
		dir := t.TempDir()
		ports := freePorts(t, 3)
		admin := "admin.enableServer=false\n"
		if name == "client" {
			ports[2] = taken
		} else {
			admin = "admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort=" + taken + "\n"
		}
		for i, port := range ports {
			text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n", filepath.Join(dir, port), port)
			if i == 2 {
				text += admin
			}
			write(t, filepath.Join(dir, fmt.Sprintf("zoo%d.cfg", i+1)), text)
		}
		script, out := startScript(t, dir, ports)
		if err := script.Wait(); err == nil {
			t.Errorf("%s port: the script is content:\n%s", name, out)
		}
		for _, want := range want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s port: the output lacks %q:\n%s", name, want, out)
			}
		}
	}
}

// TestRun3ScriptWithoutReader stops a script whose output nobody reads any more, as Ctrl-C
// does in make run3 | tee: the servers end with it.
func TestRun3ScriptWithoutReader(t *testing.T) {
	t.Parallel() // it waits for processes, most of the time
	dir := t.TempDir()
	ports := freePorts(t, 3)
	for i, port := range ports {
		write(t, filepath.Join(dir, fmt.Sprintf("zoo%d.cfg", i+1)),
			fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n", filepath.Join(dir, port), port))
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	script := startScriptTo(t, dir, ports, w)
	w.Close()
	readUntil(t, bufio.NewReader(r), `(Starting) three servers`)
	r.Close()
	for _, port := range ports {
		if got := answerAtLast(t, "127.0.0.1:"+port, "srvr"); !strings.Contains(got, "Mode: standalone") {
			t.Errorf("port %s: %q", port, got)
		}
	}
	script.Process.Signal(os.Interrupt)
	if err := script.Wait(); err != nil {
		t.Errorf("the script ended with %v", err)
	}
	for _, port := range ports {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			t.Errorf("the server at port %s runs", port)
		}
	}
}

// answerAtLast is answer for a server that is being started.
func answerAtLast(t *testing.T, addr, word string) string {
	t.Helper()
	for {
		if text, err := ask.Within(time.Minute, addr, word+"\r\n"); err == nil {
			return text
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s does not answer", addr)
		case <-time.After(20 * time.Millisecond): // ask again
		}
	}
}

// startScript starts scripts/run3.sh on the files in dir.
func startScript(t *testing.T, dir string, ports []string) (*exec.Cmd, *output) {
	t.Helper()
	out := newOutput()
	return startScriptTo(t, dir, ports, out), out
}

func startScriptTo(t *testing.T, dir string, ports []string, out io.Writer) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
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
	return cmd
}

// freePorts returns TCP ports reserved for the test.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for _, port := range freeport.For(t, n) {
		ports = append(ports, strconv.Itoa(port))
	}
	return ports
}

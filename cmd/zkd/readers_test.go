package main

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/freeport"
)

// asProgram in the environment makes the test binary act as zkd.
const asProgram = "ZKD_TEST_IS_ZKD"

// program returns a command that runs zkd with these arguments, and is killed when the test
// ends.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// ending starts a command, and returns how it ends. Signals that this process ignores, as below
// nohup and in the background of a script, end the command all the same.
func ending(t *testing.T, cmd *exec.Cmd) <-chan error {
	t.Helper()
	heeded := make(chan os.Signal, 1)
	signal.Notify(heeded, os.Interrupt, syscall.SIGHUP)
	defer signal.Stop(heeded)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	return ended
}

// freePorts returns TCP ports reserved for the test.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for _, port := range freeport.For(t, n) {
		ports = append(ports, strconv.Itoa(port))
	}
	return ports
}

// atoi returns a number.
func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// unread returns the writing end of a pipe that nobody reads.
func unread(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() { w.Close() })
	return w
}

// TestLogReaderGoesAway takes the reader of the log away from a server, which serves clients
// all the same, and counts the lines. A later reader sees how many there were.
func TestLogReaderGoesAway(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(flag int) *os.File {
		f, err := os.OpenFile(fifo, flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	log := open(os.O_RDWR) // does not wait for the other end
	cmd := program(t, "--data-dir", t.TempDir(), "--port", "0", "--set", "clientPortAddress=127.0.0.1", "--set", "zkd.logLevel=debug",
		"--set", "metricsProvider.httpHost=127.0.0.1", "--set", "metricsProvider.httpPort=0",
		"--set", "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider")
	cmd.Stderr = open(os.O_WRONLY)
	ended := ending(t, cmd)
	cmd.Stderr.(*os.File).Close()
	lines := bufio.NewReader(log)
	clients := readUntil(t, lines, `serving clients.*"address": "([^"]*)"`)
	metrics := readUntil(t, lines, `serving metrics.*"address": "([^"]*)"`)
	log.Close()
	lost := regexp.MustCompile(`\nzkd_log_lines_lost_total [1-9]`)
	for !lost.MatchString(fetch(t, "http://"+metrics+"/metrics")) {
		if got := answer(t, clients, "srvr"); !strings.Contains(got, "Mode: standalone") { // debug lines tell of it
			t.Fatalf("srvr: %q", got)
		}
	}
	log = open(os.O_RDONLY)
	defer log.Close()
	answer(t, clients, "srvr")
	readUntil(t, bufio.NewReader(log), `(lines) of the log could not be written.*"lines": [1-9].*broken pipe`)
	cmd.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
}

// readUntil reads lines up to one that matches a pattern, and returns its first group.
func readUntil(t *testing.T, r *bufio.Reader, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		line, err := r.ReadString('\n')
		if m := re.FindStringSubmatch(line); m != nil {
			return m[1]
		}
		if err != nil {
			t.Fatalf("no %s: %v", pattern, err)
		}
	}
}

// TestLogIsNotRead has a server whose log nobody reads, and that writes more lines than a
// pipe holds. It serves, and stops.
func TestLogIsNotRead(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := program(t, "--data-dir", t.TempDir(), "--port", "0", "--set", "clientPortAddress=127.0.0.1", "--set", "zkd.logLevel=debug")
	cmd.Stderr = w
	ended := ending(t, cmd)
	w.Close()
	addr := readUntil(t, bufio.NewReader(r), `serving clients.*"address": "([^"]*)"`)
	const words = 2000 // each has a line of more than 64 bytes
	for range words {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte("srvr"))
		var b [1]byte
		if _, err := c.Read(b[:]); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
}

// TestProgramsWithoutReaders starts each command that runs for long with outputs that nobody
// reads: it works, and ends in order when it has to.
func TestProgramsWithoutReaders(t *testing.T) {
	ports := freeport.For(t, 2)
	status := "127.0.0.1:" + strconv.Itoa(ports[0])
	nobody := "127.0.0.1:" + strconv.Itoa(ports[1])
	dir := filepath.Join(t.TempDir(), "copy")
	for _, tt := range []struct {
		name string
		args []string
		runs func() bool
		exit int
	}{
		{"shadow", []string{"shadow", "--listen", "127.0.0.1:0", "--apache", nobody, "--zkd", nobody, "--status", status}, func() bool {
			c, err := net.Dial("tcp", status)
			if err == nil {
				c.Close()
			}
			return err == nil
		}, 141}, // its result is not read
		{"mirror", []string{"takeover", "mirror", "--from", nobody, "--to", dir, "--sid", "7"}, func() bool {
			return exists(filepath.Join(dir, "mirror.status"))
		}, 0},
	} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
			cmd := program(t, tt.args...)
			cmd.Stdout, cmd.Stderr = unread(t), unread(t)
			ended := ending(t, cmd)
			for !tt.runs() {
				select {
				case err := <-ended:
					t.Fatalf("%s: %v", tt.name, err)
				case <-time.After(10 * time.Millisecond): // look again
				}
			}
			cmd.Process.Signal(sig)
			err := <-ended
			if code := cmd.ProcessState.ExitCode(); code != tt.exit { // -1 for a signal
				t.Errorf("%s after %v: exit code %d, %v; want %d", tt.name, sig, code, err, tt.exit)
			}
			os.Remove(filepath.Join(dir, "mirror.status"))
		}
	}
}

// TestUnreadOutput checks that a command whose output is not read any more, as before a head
// that has ended, does not complain.
func TestUnreadOutput(t *testing.T) {
	cmd := program(t, "version")
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = unread(t), &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 141 || stderr.Len() > 0 {
		t.Errorf("%v, %q", err, stderr.String())
	}
}

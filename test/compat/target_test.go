//go:build compat

package compat

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/internal/testing/freeport"
)

var (
	targetFlag  = flag.String("target", "zkd", "server under test: zkd, apache or apache39")
	zkdFlag     = flag.String("zkd", "", "zkd binary; built from the tree when empty")
	releaseFlag = flag.String("release", "", "directory of an Apache ZooKeeper, 3.4 to 3.9, in the place of Debian's 3.8")
	fullFlag    = flag.Bool("full", false, "longer runs: more seeds, more operations")
	seedFlag    = flag.Uint64("seed", 0, "run the random comparison with this seed only")
	keepFlag    = flag.Bool("keep", false, "print where servers keep their files, and leave them")
)

const (
	startDeadline = 60 * time.Second
	// superDigest is the digest of super:secret.
	superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
)

// kind is which server program to run.
type kind string

const (
	apache   kind = "apache"   // 3.8, as Debian 12 has it
	apache39 kind = "apache39" // 3.9, see test/world/fetch.sh
	zkd      kind = "zkd"
)

// target is the kind under test.
func target(t testing.TB) kind {
	t.Helper()
	switch k := kind(*targetFlag); k {
	case apache, apache39, zkd:
		return k
	default:
		t.Fatalf("-target %q: want zkd, apache or apache39", *targetFlag)
		return ""
	}
}

// server is one running server process.
type server struct {
	kind kind
	addr string // 127.0.0.1:port
	dir  string // holds zoo.cfg, data and the log

	args   []string
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone
}

// config is what a server is started with: lines of zoo.cfg beyond the ones
// that every server here gets, and settings that Apache takes only as Java
// system properties (zkd takes them in zoo.cfg).
type config struct {
	lines    []string
	props    map[string]string
	defaults bool // leave extendedTypesEnabled at the server's default
}

// checkInterval is the setting for how often a server looks for empty containers.
const checkInterval = "znode.container.checkIntervalMs"

// settings returns the props, and never for checkInterval if it is not among
// them: two servers look at different times, and a conversation that a container
// vanishes from would differ.
func (c config) settings() map[string]string {
	all := map[string]string{checkInterval: "86400000"}
	maps.Copy(all, c.props)
	return all
}

// start runs a fresh server of the given kind and waits until it serves. It is
// killed when the test ends.
func start(t testing.TB, k kind, cfg config) *server {
	t.Helper()
	needServer(t, k)
	s := tryToStart(t, k, cfg)
	if s == nil {
		t.FailNow()
	}
	return s
}

// tryToStart is start for any goroutine: a failure is marked, and gives nil.
func tryToStart(t testing.TB, k kind, cfg config) *server {
	t.Helper()
	dir := serverDir(t)
	const attempts = 3 // the free port may be taken between finding and using it
	var err error
	for range attempts {
		var s *server
		if s, err = tryStart(t, k, dir, cfg); err == nil {
			t.Cleanup(s.kill)
			t.Cleanup(func() {
				if t.Failed() && !s.alive() {
					t.Logf("%s at %s does not answer; end of its log:\n%s", k, s.addr, tail(s.logFile(), 30))
				}
			})
			return s
		}
	}
	t.Errorf("start %s: %v", k, err)
	return nil
}

func serverDir(t testing.TB) string {
	t.Helper()
	if !*keepFlag {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("", "zkd-compat-")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("server directory: %s", dir)
	return dir
}

func tryStart(t testing.TB, k kind, dir string, cfg config) (*server, error) {
	t.Helper()
	port := freeport.For(t, 1)[0]
	s := &server{kind: k, dir: dir, addr: fmt.Sprintf("127.0.0.1:%d", port)}
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(zooCfg(k, dir, port, cfg)), 0o644); err != nil {
		return nil, err
	}
	s.args = command(t, k, file, cfg)
	if err := s.run(); err != nil {
		return nil, err
	}
	return s, nil
}

// run starts the process and waits until it serves.
func (s *server) run() error {
	if err := s.launch(); err != nil {
		return err
	}
	if err := s.waitReady(); err != nil {
		s.kill()
		return fmt.Errorf("%w; its log ends:\n%s", err, tail(s.logFile(), 30))
	}
	return nil
}

// removeUnbegunLogs removes the log files that have no header yet since an Apache server was killed
// when it made them: it does not start with one (EOFException in FileHeader.deserialize).
func removeUnbegunLogs(dataDir string) error {
	const header = 16
	logs, err := filepath.Glob(filepath.Join(dataDir, "version-2", "log.*"))
	for _, log := range logs {
		info, statErr := os.Stat(log)
		if statErr == nil && info.Size() < header {
			statErr = os.Remove(log)
		}
		err = errors.Join(err, statErr)
	}
	return err
}

// launch starts the process.
func (s *server) launch() error {
	if err := removeUnbegunLogs(filepath.Join(s.dir, "data")); err != nil {
		return err
	}
	out, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd, exited := exec.Command(s.args[0], s.args[1:]...), make(chan struct{})
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.exited = cmd, exited
	go func() {
		cmd.Wait() // how it ended is in its log
		close(exited)
	}()
	return nil
}

func zooCfg(k kind, dir string, port int, cfg config) string {
	lines := []string{
		"tickTime=2000",
		"dataDir=" + filepath.Join(dir, "data"),
		fmt.Sprintf("clientPort=%d", port),
		"clientPortAddress=127.0.0.1",
		"maxClientCnxns=0",
		"4lw.commands.whitelist=*",
		"admin.enableServer=false",
		"DigestAuthenticationProvider.superDigest=" + superDigest,
	}
	if !cfg.defaults {
		lines = append(lines, "extendedTypesEnabled=true")
	}
	lines = append(lines, cfg.lines...)
	if k == zkd {
		for name, value := range cfg.settings() {
			lines = append(lines, name+"="+value)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// command is what to execute for a server that reads the given zoo.cfg.
func command(t testing.TB, k kind, file string, cfg config) []string {
	t.Helper()
	if k == zkd {
		return []string{zkdBinary(t), file}
	}
	// The JVM's short-run settings: the server lives for seconds.
	args := []string{"java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=info"}
	for name, value := range cfg.settings() {
		args = append(args, "-D"+name+"="+value)
	}
	return append(args, "-cp", classPath(k), "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
}

var buildZkd = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "zkd-compat-bin-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "zkd")
	out, err := exec.Command("go", "build", "-o", bin, "github.com/zkd-project/zkd/cmd/zkd").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build ./cmd/zkd: %w\n%s", err, out)
	}
	return bin, nil
})

func zkdBinary(t testing.TB) string {
	t.Helper()
	if *zkdFlag != "" {
		abs, err := filepath.Abs(*zkdFlag)
		if err != nil {
			t.Fatal(err)
		}
		return abs
	}
	bin, err := buildZkd()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *zkdFlag == "" && *targetFlag == string(zkd) {
		if bin, err := buildZkd(); err == nil {
			os.RemoveAll(filepath.Dir(bin))
		}
	}
	os.Exit(code)
}

func (s *server) logFile() string { return filepath.Join(s.dir, "server.log") }

// waitReady polls until the server answers srvr with its statistics.
func (s *server) waitReady() error {
	return s.waitFor("serving", func() bool { return s.mode() != "" })
}

// waitFor polls until f is true. That the process ends is an error.
func (s *server) waitFor(what string, f func() bool) error {
	deadline := time.Now().Add(startDeadline)
	poll := time.NewTicker(30 * time.Millisecond)
	defer poll.Stop()
	for time.Now().Before(deadline) {
		if f() {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("the process ended before it was %s", what)
		case <-poll.C:
		}
	}
	return fmt.Errorf("not %s after %v", what, startDeadline)
}

// wordTimeout bounds the answer to a four-letter word.
const wordTimeout = 5 * time.Second

// mode is what the server says it is: standalone, leader, follower, read-only;
// or "" when it does not serve.
func (s *server) mode() string {
	text, err := ask.Within(wordTimeout, s.addr, "srvr")
	if err != nil {
		return ""
	}
	return ask.Mode(text)
}

// alive reports whether the process runs and answers.
func (s *server) alive() bool {
	select {
	case <-s.exited:
		return false
	default:
	}
	return s.mode() != ""
}

// dying reports whether the process ends by itself, now or within a moment.
func (s *server) dying() bool {
	select {
	case <-s.exited:
		return true
	case <-time.After(2 * time.Second):
		return !s.alive()
	}
}

// kill ends the process at once and waits until it is gone.
func (s *server) kill() {
	s.cmd.Process.Kill() // it may be gone already
	<-s.exited
}

// stop asks the process to end, as an operator does, and waits until it is gone.
func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	<-s.exited
}

// tail returns the last n lines of a file.
func tail(file string, n int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}

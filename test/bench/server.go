package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/bench"
)

// apache is the program name that stands for the Apache ZooKeeper that
// Debian's package "zookeeper" installs.
const apache = "apache"

// apacheCommand starts Apache ZooKeeper as its own scripts do by default: a
// heap of at most 1000 MB.
var apacheCommand = []string{
	"java", "-Xmx1000m", "-cp", "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar",
	"org.apache.zookeeper.server.quorum.QuorumPeerMain",
}

// config is the zoo.cfg of both servers. forceSync and snapCount have their
// defaults: yes, and 100,000.
const config = `tickTime=2000
initLimit=10
syncLimit=5
dataDir=%s
clientPortAddress=127.0.0.1
clientPort=%d
maxClientCnxns=0
minSessionTimeout=4000
maxSessionTimeout=120000
admin.enableServer=false
4lw.commands.whitelist=*
`

// startTimeout bounds the time until a server answers its first read.
const startTimeout = 2 * time.Minute

// server is a process with a data directory of its own.
type server struct {
	argv []string
	dir  string // configuration, data and output
	addr string
	cmd  *exec.Cmd
	gone chan error // gets the outcome of the process
}

// newServer prepares a server with an empty data directory below dir, on a free
// port of the loopback interface.
func newServer(program, dir string) (*server, error) {
	dir, err := os.MkdirTemp(dir, "server-")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf(config, filepath.Join(dir, "data"), addr.Port)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	s := &server{argv: []string{program, file}, dir: dir, addr: addr.String()}
	if program == apache {
		s.argv = append(append([]string{}, apacheCommand...), file)
	}
	return s, nil
}

// startServer returns a new server that answers reads.
func startServer(ctx context.Context, program, dir string) (*server, error) {
	s, err := newServer(program, dir)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, "/"); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// start runs the process, and returns when it has answered a read of path.
func (s *server) start(ctx context.Context, path string) error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(s.argv[0], s.argv[1:]...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, log, log
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.argv[0], err)
	}
	s.gone = make(chan error, 1)
	go func() { s.gone <- s.cmd.Wait() }()
	if err := s.await(ctx, path); err != nil {
		return fmt.Errorf("start %s: %w\n%s", strings.Join(s.argv, " "), err, s.tail())
	}
	return nil
}

// await returns when a read of path was answered or the process has ended.
func (s *server) await(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	read := make(chan error, 1)
	go func() { read <- bench.AwaitRead(ctx, s.target(), path) }()
	select {
	case err := <-read:
		return err
	case err := <-s.gone:
		s.gone <- err
		cancel()
		<-read
		return fmt.Errorf("process ended: %w", err)
	}
}

func (s *server) target() bench.Target {
	return bench.Target{Addrs: []string{s.addr}, Pids: []int{s.cmd.Process.Pid}}
}

// kill ends the process at once, as kill -9 does.
func (s *server) kill() {
	// The only error is that the process has ended, which is what is wanted.
	_ = s.cmd.Process.Kill()
	<-s.gone
	s.gone <- nil
}

// remove ends the process and deletes all of its files.
func (s *server) remove() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.kill()
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// tail returns the end of the process's output.
func (s *server) tail() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

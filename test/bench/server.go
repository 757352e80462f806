package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/ask"
)

// apache is the program name that means the Apache ZooKeeper that
// Debian's package "zookeeper" installs.
const apache = "apache"

// apacheArgv returns the command that starts Apache ZooKeeper as its own
// scripts do by default, with a heap of at most 1000 MB, or nil if program is
// neither "apache" nor a directory with the jar files of a release.
func apacheArgv(program string) []string {
	classes := filepath.Join(program, "*")
	if program == apache {
		classes = "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar"
	} else if i, err := os.Stat(program); err != nil || !i.IsDir() {
		return nil
	}
	return []string{"java", "-Xmx1000m", "-cp", classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain"}
}

// config is the zoo.cfg of all servers. forceSync and snapCount have their
// defaults, yes and 100,000, unless a separate line says otherwise.
const config = `tickTime=2000
initLimit=10
syncLimit=5
dataDir=%s
clientPortAddress=%s
clientPort=%d
maxClientCnxns=0
minSessionTimeout=4000
maxSessionTimeout=120000
4lw.commands.whitelist=*
`

// adminOn is the line of a server with an AdminServer.
const adminOn = "admin.enableServer=true"

// site is where a server runs.
type site struct {
	clients   string // its address for clients
	peers     string // and for other servers
	namespace string // of its network, or "": this process's
}

// here is beside this process.
var here = site{clients: "127.0.0.1", peers: "127.0.0.1"}

// server is a process with a separate data directory.
type server struct {
	argv  []string
	dir   string // configuration, data and output
	addr  string
	admin string // address of its AdminServer, if that is on
	cmd   *exec.Cmd
	gone  chan struct{} // closed when the process has ended
	end   error         // its outcome, when gone is closed
}

// newServer prepares a server at a site, with an empty data directory below dir, or that of its number if there is a list. members
// are the lines of its configuration that name the ensemble, empty if it stands
// alone; lines are any others.
func newServer(program, dir string, at site, id, clientPort int, members string, lines ...string) (*server, error) {
	if dirs := filepath.SplitList(dir); len(dirs) > 1 {
		dir = dirs[id%len(dirs)]
	}
	dir, err := os.MkdirTemp(dir, "server-")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		return nil, err
	}
	if members != "" {
		if err := os.WriteFile(filepath.Join(data, "myid"), fmt.Appendf(nil, "%d\n", id), 0o644); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf(config, data, at.clients, clientPort) + members
	if !slices.Contains(lines, adminOn) {
		text += "admin.enableServer=false\n"
	}
	for _, line := range lines {
		text += line + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	s := &server{argv: []string{program, file}, dir: dir, addr: fmt.Sprintf("%s:%d", at.clients, clientPort)}
	if argv := apacheArgv(program); argv != nil {
		s.argv = append(argv, file)
	}
	if at.namespace != "" {
		s.argv = append([]string{"ip", "netns", "exec", at.namespace}, s.argv...)
	}
	return s, nil
}

// start runs the process.
func (s *server) start() error {
	return s.startAs(s.argv)
}

func (s *server) startAs(argv []string, extra ...*os.File) error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, gone := exec.Command(argv[0], argv[1:]...), make(chan struct{})
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = s.dir, log, log, extra
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	s.cmd, s.gone = cmd, gone
	go func() {
		s.end = cmd.Wait()
		close(gone)
	}()
	return nil
}

// signal sends a signal to the process. The only possible error is that the process has
// ended, which await reports.
func (s *server) signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// kill ends the process at once, as kill -9 does.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	s.signal(syscall.SIGKILL)
	<-s.gone
}

// empty removes what a process that has ended leaves in its data directory, but for its id.
func (s *server) empty() error {
	data := filepath.Join(s.dir, "data")
	entries, err := os.ReadDir(data)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "myid" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(data, e.Name())))
		}
	}
	return err
}

// remove ends the process and deletes all of its files.
func (s *server) remove() {
	s.kill()
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

// wordTimeout bounds the answer to a four-letter word.
const wordTimeout = time.Second

// mode asks the server for its mode: standalone, leader, follower; or "", if it does not
// serve.
func (s *server) mode(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, wordTimeout)
	defer cancel()
	text, err := ask.Word(ctx, s.addr, "srvr")
	if err != nil {
		return ""
	}
	return ask.Mode(text)
}

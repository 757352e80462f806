package cluster

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/internal/testing/freeport"
	"github.com/zkd-project/zkd/test/internal/process"
)

// server is one member of an ensemble.
type server struct {
	process.Process
	id int
	ports
	other    ports // that it moves to
	observer bool
	program  string // "" means the program under test
}

// ports are where a server listens.
type ports struct {
	addr     string // for clients
	quorum   int    // port for other servers
	election int    // likewise
}

func newPorts(list []int) ports {
	return ports{"127.0.0.1:" + strconv.Itoa(list[0]), list[1], list[2]}
}

// newServer prepares a server without a configuration. data is its data
// directory.
func newServer(t testing.TB, id int, dir, data string) *server {
	t.Helper()
	for _, d := range []string{dir, data} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	free := freeport.For(t, 6)
	return &server{
		Process: process.Process{T: t, Name: fmt.Sprintf("server %d", id), Dir: dir, Data: data, Lenient: apache()},
		id:      id, ports: newPorts(free[:3]), other: newPorts(free[3:]),
	}
}

// configure writes zoo.cfg and myid.
func (s *server) configure(lines []string) {
	s.T.Helper()
	s.Configure(s.addr, slices.Concat([]string{"admin.enableServer=false"}, lines)...)
	s.identify(s.id)
}

// identify writes the file myid.
func (s *server) identify(id int) {
	s.T.Helper()
	s.Write(filepath.Join(s.Data, "myid"), strconv.Itoa(id)+"\n")
}

func (s *server) command() []string {
	if apache() {
		classPath := "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar"
		if dir := os.Getenv("ZOOKEEPER39"); dir != "" {
			classPath = filepath.Join(dir, "lib", "*")
		}
		return []string{"java", "-Xmx256m", "-Dzookeeper.root.logger=INFO,CONSOLE", "-cp", classPath,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", s.Config()}
	}
	if *previous != "" && s.id%3 == 0 {
		return []string{*previous, s.Config()}
	}
	return []string{cmp.Or(s.program, *program), s.Config()}
}

// start starts the process and does not wait for anything.
func (s *server) start() {
	s.T.Helper()
	s.Launch(s.command()...)
}

// mode returns what the word srvr tells of the role: leader, follower, observer,
// standalone, or nothing if the server does not serve.
func (s *server) mode() string {
	if !s.Running() || s.Paused() {
		return ""
	}
	text, err := ask.Within(answerTime, s.addr, "srvr")
	if err != nil {
		return ""
	}
	return ask.Mode(text)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/internal/freeport"
)

// The kinds of servers.
const (
	zkd    = "zkd"
	apache = "apache"
	edge   = "edge" // zkd's servers, and an edge between them and the program
)

const (
	wordTimeout = 2 * time.Second
	stopTimeout = 20 * time.Second
	poll        = 100 * time.Millisecond

	// superUser is the identity that changes the members, and superDigest its digest.
	superUser   = "super:secret"
	superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
)

// config is the beginning of each zoo.cfg.
const config = `tickTime=2000
initLimit=10
syncLimit=5
dataDir=%s
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
extendedTypesEnabled=true
reconfigEnabled=true
standaloneEnabled=false
DigestAuthenticationProvider.superDigest=` + superDigest + "\n"

// server is a process with its data directory.
type server struct {
	id   int
	addr string
	tls  string // the address with TLS
	line string // server.N=... of zoo.cfg
	dir  string
	argv []string
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
	cpu  time.Duration // of its processes that have ended
	rss  int64         // the most that one of them had, in bytes
}

// ensemble is servers of one kind on loopback. The last of them, a spare one, is not a member at first.
type ensemble struct {
	kind    string
	tools   tools
	program *program
	dir     string
	members []*server
	spare   *server
	edge    *server            // nil if clients connect to the members
	relays  map[*server]*relay // between the edge and the members, if the ways are to be cut
	gone    []*server          // whose place others have taken
	moves   int                // from one kind to the other
	free    func()             // the ports
}

// used says what the servers have used, after their end.
func (e *ensemble) used() string {
	var cpu time.Duration
	var rss int64
	for _, s := range slices.Concat(e.members, e.gone) {
		cpu += s.cpu
		rss = max(rss, s.rss)
	}
	return fmt.Sprintf("%.1f s of CPU, at most %d MiB each", cpu.Seconds(), rss>>20)
}

// newEnsemble prepares the servers of a program below dir, and starts none.
func (t tools) newEnsemble(ctx context.Context, kind, dir string, p *program) (*ensemble, error) {
	n := p.servers
	ports, free, err := freeport.Reserve(4*(n+1) + 1)
	if err != nil {
		return nil, err
	}
	e := &ensemble{kind: kind, tools: t, program: p, dir: dir, free: free}
	var known strings.Builder
	for id := 1; id <= n+1; id++ {
		own := ports[4*(id-1):]
		s := &server{id: id, addr: loopback(own[0]), tls: loopback(own[3]), dir: filepath.Join(dir, fmt.Sprint("server", id))}
		s.line = fmt.Sprintf("server.%d=127.0.0.1:%d:%d:participant;%s", id, own[1], own[2], s.addr)
		s.argv = t.argv(kind, dir, filepath.Join(s.dir, "zoo.cfg"), p.secure)
		fmt.Fprintln(&known, s.line)
		if id > n {
			e.spare = s
		} else {
			e.members = append(e.members, s)
		}
	}
	if kind == edge {
		e.edge = &server{addr: loopback(ports[4*(n+1)]), dir: filepath.Join(dir, edge)}
		upstream := e.addresses()
		if slices.Contains(p.faults, wayTo) || slices.Contains(p.faults, wayFrom) {
			if upstream, err = e.relayed(); err != nil {
				return nil, err
			}
		}
		e.edge.argv = []string{t.zkd, "edge", "--upstream", upstream, "--listen", e.edge.addr, "--handover", "handover", "-v"}
		if err := os.MkdirAll(e.edge.data(), 0o755); err != nil {
			return nil, err
		}
	}
	if p.secure {
		err = makeKeys(ctx, filepath.Join(dir, keys))
	}
	first, _, _ := strings.Cut(known.String(), e.spare.line)
	for _, s := range e.members {
		err = errors.Join(err, s.prepare(first, p))
	}
	return e, errors.Join(err, e.spare.prepare(known.String(), p))
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// argv is the command of a server with this file.
func (t tools) argv(kind, dir, file string, secure bool) []string {
	if kind != apache {
		return []string{t.zkd, file}
	}
	argv := []string{"java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"}
	if secure {
		argv = append(argv, "-Djava.security.auth.login.config="+filepath.Join(dir, keys, loginFile))
	}
	return append(argv, "-cp", filepath.Join(t.apache, "lib", "*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
}

// prepare writes the files that a server is started with. It has the members of the list.
func (s *server) prepare(list string, p *program) error {
	data := s.data()
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf(config, data) + list
	lines := p.lines
	if p.secure {
		lines = slices.Concat(lines, secureLines(filepath.Join(filepath.Dir(s.dir), keys), s.tls))
	}
	for _, line := range lines {
		text += line + "\n"
	}
	return errors.Join(
		os.WriteFile(filepath.Join(data, "myid"), fmt.Appendf(nil, "%d\n", s.id), 0o644),
		os.WriteFile(filepath.Join(s.dir, "zoo.cfg"), []byte(text), 0o644))
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

func (s *server) start() error {
	if err := s.removeUnbegunLogs(); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, gone := exec.Command(s.argv[0], s.argv[1:]...), make(chan struct{})
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.gone = cmd, gone
	go func() {
		cmd.Wait() // how it ended is in its log
		close(gone)
	}()
	return nil
}

// removeUnbegunLogs removes log files without a header: an Apache server that was killed when it made
// one does not start with it.
func (s *server) removeUnbegunLogs() error {
	const header = 16
	logs, err := filepath.Glob(filepath.Join(s.data(), "version-2", "log.*"))
	for _, log := range logs {
		if info, statErr := os.Stat(log); statErr == nil && info.Size() < header {
			err = errors.Join(err, os.Remove(log))
		}
	}
	return err
}

// end sends a signal, and returns when the process is gone.
func (s *server) end(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Signal(sig) // it may be gone already
	select {
	case <-s.gone:
	case <-time.After(stopTimeout):
		s.cmd.Process.Kill()
		<-s.gone
	}
	s.cpu += s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
	s.rss = max(s.rss, maxRSS(s.cmd.ProcessState))
	s.cmd = nil
}

// hasEnded reports whether the process has ended, and not by end.
func (s *server) hasEnded() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

func (s *server) kill() { s.end(syscall.SIGKILL) }
func (s *server) stop() { s.end(syscall.SIGTERM) }

// mode is leader or follower, or "" if the server does not serve.
func (s *server) mode() string {
	text, err := ask.Within(wordTimeout, s.addr, "srvr")
	if err != nil {
		return ""
	}
	return ask.Mode(text)
}

func (e *ensemble) start(ctx context.Context) error {
	for _, s := range e.members {
		if err := s.start(); err != nil {
			return err
		}
	}
	if err := e.awaitHealthy(ctx); err != nil || e.edge == nil {
		return err
	}
	if err := e.edge.start(); err != nil {
		return err
	}
	return await(ctx, []*server{e.edge}, func() bool { return e.edge.mode() == edge })
}

// relayed puts a relay before each member, and returns their addresses.
func (e *ensemble) relayed() (string, error) {
	e.relays = map[*server]*relay{}
	var addresses []string
	for _, s := range e.members {
		r, err := newRelay(s)
		if err != nil {
			return "", err
		}
		e.relays[s] = r
		addresses = append(addresses, r.l.Addr().String())
	}
	return strings.Join(addresses, ","), nil
}

// end kills all processes, and gives the ports back.
func (e *ensemble) end() {
	if e.edge != nil {
		e.edge.kill()
	}
	for _, s := range append(slices.Clone(e.members), e.spare) {
		s.kill()
	}
	for _, r := range e.relays {
		r.l.Close()
	}
	e.free()
}

// awaitHealthy returns when one member leads and all others follow.
func (e *ensemble) awaitHealthy(ctx context.Context) error {
	var modes []string
	err := await(ctx, e.members, func() bool {
		modes = nil
		for _, s := range e.members {
			modes = append(modes, s.mode())
		}
		slices.Sort(modes)
		return modes[len(modes)-1] == "leader" && modes[0] == "follower" && modes[len(modes)-2] == "follower"
	})
	if err != nil {
		return fmt.Errorf("no leader with followers, but %q: %w", modes, err)
	}
	return nil
}

// await asks until the answer is yes. However slow the machine is, it gives up only when the time of the
// whole run is over, or when one of the servers has ended by itself.
func await(ctx context.Context, servers []*server, yes func() bool) error {
	for !yes() {
		for _, s := range servers {
			if s.hasEnded() {
				return fmt.Errorf("server %d has ended: see %s/log", s.id, s.dir)
			}
		}
		if err := wait(ctx, poll); err != nil {
			return err
		}
	}
	return nil
}

// wait lets time pass.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// with returns a member in the mode, leader or follower.
func (e *ensemble) with(mode string) (*server, error) {
	for _, s := range e.members {
		if s.mode() == mode {
			return s, nil
		}
	}
	return nil, errors.New("no member is " + mode)
}

// forClients is how a program names the ensemble.
func (e *ensemble) forClients() string {
	if e.edge != nil {
		return e.edge.addr
	}
	return e.addresses()
}

// addresses are those of the members.
func (e *ensemble) addresses() string {
	return e.list(func(s *server) string { return s.addr })
}

// secureAddresses is how clients with TLS name it.
func (e *ensemble) secureAddresses() string {
	return e.list(func(s *server) string { return s.tls })
}

func (e *ensemble) list(address func(*server) string) string {
	var list []string
	for _, s := range e.members {
		list = append(list, address(s))
	}
	return strings.Join(list, ",")
}

// reconfig changes the members.
func (e *ensemble) reconfig(ctx context.Context, m client.Members) error {
	c, err := client.Connect(ctx, e.addresses(), client.Options{Auth: []client.Auth{{Scheme: "digest", Data: []byte(superUser)}}})
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	_, err = c.Ensemble().Reconfig(ctx, m, -1)
	return err
}

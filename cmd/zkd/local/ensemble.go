package local

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/internal/child"
	"github.com/zkd-project/zkd/internal/freeport"
	"github.com/zkd-project/zkd/internal/pause"
)

// Ports are the first ports of each kind. Server 2 has the next ones.
type Ports struct{ Client, Quorum, Admin, Metrics int }

// Options describe an ensemble.
type Options struct {
	Program []string // the command that runs zkd, to which a configuration file is added
	Dir     string   // has the servers' files: zoo1.cfg, 1, and zkd-1.log
	Servers int
	Ports   Ports    // the zero value: free ones
	Lines   []string // of each server's configuration, in the format of zoo.cfg
	// Ended is called when a server has ended that was not stopped here. May be nil.
	Ended func(id int)
}

// Server is a member of an ensemble.
type Server struct {
	ID                     int
	Client, Admin, Metrics string // host:port
	Config, Log            string // files

	process *process // nil while it is down
}

// process is one life of a server.
type process struct {
	cmd      *exec.Cmd
	expected bool          // its end was asked for
	ended    chan struct{} // closed when it is gone
}

// Ensemble is a set of servers.
type Ensemble struct {
	o       Options
	release func() // of reserved ports

	mu      sync.Mutex
	servers []*Server
}

// New writes the servers' configuration. It starts none. Close must be called.
func New(o Options) (*Ensemble, error) {
	e := &Ensemble{o: o, release: func() {}}
	ports := make([]Ports, o.Servers)
	if o.Ports == (Ports{}) {
		free, release, err := freeport.Reserve(4 * o.Servers)
		if err != nil {
			return nil, err
		}
		e.release = release
		for i := range ports {
			ports[i] = Ports{free[4*i], free[4*i+1], free[4*i+2], free[4*i+3]}
		}
	} else {
		for i := range ports {
			ports[i] = Ports{o.Ports.Client + i, o.Ports.Quorum + i, o.Ports.Admin + i, o.Ports.Metrics + i}
		}
	}
	var members []string
	for i, p := range ports {
		id := i + 1
		e.servers = append(e.servers, &Server{
			ID: id, Client: loopback(p.Client), Admin: loopback(p.Admin), Metrics: loopback(p.Metrics),
			Config: filepath.Join(o.Dir, fmt.Sprintf("zoo%d.cfg", id)),
			Log:    filepath.Join(o.Dir, fmt.Sprintf("zkd-%d.log", id)),
		})
		members = append(members, fmt.Sprintf("server.%d=%s:1;%s", id, loopback(p.Quorum), loopback(p.Client)))
	}
	for i, s := range e.servers {
		if err := os.WriteFile(s.Config, []byte(o.configuration(s.ID, ports[i], members)), 0o600); err != nil {
			e.release()
			return nil, err
		}
	}
	return e, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// configuration returns the configuration of a server. One alone is no ensemble.
func (o *Options) configuration(id int, ports Ports, members []string) string {
	lines := []string{
		fmt.Sprintf("# Server %d of %d on one machine.", id, o.Servers),
		"dataDir=" + filepath.Join(o.Dir, strconv.Itoa(id)),
	}
	if o.Servers > 1 {
		lines = append(append(lines, members...), fmt.Sprintf("zkd.myid=%d", id))
	} else {
		lines = append(lines, "clientPortAddress=127.0.0.1", fmt.Sprintf("clientPort=%d", ports.Client))
	}
	lines = append(lines,
		"admin.serverAddress=127.0.0.1", fmt.Sprintf("admin.serverPort=%d", ports.Admin),
		"metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
		"metricsProvider.httpHost=127.0.0.1", fmt.Sprintf("metricsProvider.httpPort=%d", ports.Metrics),
		"4lw.commands.whitelist=*")
	return strings.Join(append(lines, o.Lines...), "\n") + "\n"
}

// Servers returns the servers. Their exported fields do not change.
func (e *Ensemble) Servers() []*Server { return e.servers }

// Server returns the server with an id, or nil.
func (e *Ensemble) Server(id int) *Server {
	if id < 1 || id > len(e.servers) {
		return nil
	}
	return e.servers[id-1]
}

// ConnectString is the list of the servers for clients.
func (e *Ensemble) ConnectString() string { return strings.Join(e.addrs(), ",") }

func (e *Ensemble) addrs() (list []string) {
	for _, s := range e.servers {
		list = append(list, s.Client)
	}
	return list
}

// Pid returns the process of a server, or 0 while it is down.
func (e *Ensemble) Pid(id int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.Server(id).process; p != nil {
		return p.cmd.Process.Pid
	}
	return 0
}

// Start starts a server. It does nothing if that runs.
func (e *Ensemble) Start(id int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.Server(id)
	if s.process != nil {
		return nil
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	argv := append(slices.Clone(e.o.Program), s.Config)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, child.EndsWithParent()
	cmd.SysProcAttr.Setpgid = true // signals of the terminal are not meant for it
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	s.process = p
	go func() {
		_ = cmd.Wait() // its log says how it has ended
		e.mu.Lock()
		s.process = nil
		unexpected := !p.expected
		e.mu.Unlock()
		close(p.ended)
		if unexpected && e.o.Ended != nil {
			e.o.Ended(id)
		}
	}()
	return nil
}

// Signal sends a signal to a server's process, if that runs. It is no end that was asked for.
func (e *Ensemble) Signal(id int, sig syscall.Signal) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.Server(id).process
	if p == nil {
		return fmt.Errorf("server %d does not run", id)
	}
	return p.cmd.Process.Signal(sig)
}

// Stop ends a server with a signal, SIGTERM or SIGKILL, and waits until it is gone. It does
// nothing if it does not run.
func (e *Ensemble) Stop(id int, sig syscall.Signal) {
	if p := e.ask(id, sig); p != nil {
		<-p.ended
	}
}

// ask begins the end of a server.
func (e *Ensemble) ask(id int, sig syscall.Signal) *process {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.Server(id).process
	if p == nil {
		return nil
	}
	p.expected = true
	_ = p.cmd.Process.Signal(sig)             // it may have ended
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // a process that is paused does not see SIGTERM
	return p
}

// Close ends all servers at once, and waits for them.
func (e *Ensemble) Close() {
	defer e.release()
	var ending []*process
	for _, s := range e.servers {
		if p := e.ask(s.ID, syscall.SIGTERM); p != nil {
			ending = append(ending, p)
		}
	}
	late := time.After(10 * time.Second)
	for _, p := range ending {
		select {
		case <-p.ended:
		case <-late:
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
}

// look is how long a server may take to tell its state.
const look = 2 * time.Second

// Leader returns the id of the server that leads now, or serves alone, or 0.
func (e *Ensemble) Leader(ctx context.Context) int {
	for i, v := range servers.LookAll(ctx, e.addrs(), look, servers.Asker{}.Look) {
		if v.Mode == "leader" || v.Mode == "standalone" {
			return i + 1
		}
	}
	return 0
}

// AwaitLeader waits until a server leads, other than that with the id not.
func (e *Ensemble) AwaitLeader(ctx context.Context, not int) (int, error) {
	for {
		if id := e.Leader(ctx); id != 0 && id != not {
			return id, nil
		}
		if pause.For(ctx, 20*time.Millisecond) != nil {
			return 0, fmt.Errorf("no server leads: %w; the servers' logs are in %s", context.Cause(ctx), e.o.Dir)
		}
	}
}

// AwaitServing waits until a server serves clients. It does not wait if most servers are down, as
// then none does. A server that has ended is an error.
func (e *Ensemble) AwaitServing(ctx context.Context, id int) error {
	s := e.Server(id)
	for {
		v := servers.LookAll(ctx, []string{s.Client}, look, servers.Asker{}.Look)[0]
		mostDown := 2*e.running() <= len(e.servers) // before it is asked whether this one has ended
		switch {
		case v.Serves():
			return nil
		case e.Pid(id) == 0:
			return fmt.Errorf("server %d has ended: %s", id, s.LastWords())
		case mostDown:
			return nil
		}
		if pause.For(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("server %d does not serve: %w; its log is %s", id, context.Cause(ctx), s.Log)
		}
	}
}

// StartAll starts all servers, and waits until all of them serve: sessions are exactly-once ones only
// when the leader has met all servers.
func (e *Ensemble) StartAll(ctx context.Context) error {
	for _, s := range e.servers {
		if err := e.Start(s.ID); err != nil {
			return err
		}
	}
	for _, s := range e.servers {
		if err := e.AwaitServing(ctx, s.ID); err != nil {
			return err
		}
	}
	return nil
}

// running returns how many servers run.
func (e *Ensemble) running() (n int) {
	for _, s := range e.servers {
		if e.Pid(s.ID) != 0 {
			n++
		}
	}
	return n
}

// LastWords returns the last line that a server has logged.
func (s *Server) LastWords() string {
	text, err := os.ReadFile(s.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return lines[len(lines)-1]
}

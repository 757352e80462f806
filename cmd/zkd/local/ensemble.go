package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/servers"
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
	Ended func(id int, how error)
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
	how      error
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
	ports := o.Ports
	port := func(first, i int) int { return first + i }
	if ports == (Ports{}) {
		free, release, err := freeport.Reserve(4 * o.Servers)
		if err != nil {
			return nil, err
		}
		e.release = release
		ports = Ports{0, 1, 2, 3}
		port = func(kind, i int) int { return free[4*i+kind] }
	}
	at := func(first, i int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port(first, i))) }
	var members []string
	for i := range o.Servers {
		s := &Server{
			ID: i + 1, Client: at(ports.Client, i), Admin: at(ports.Admin, i), Metrics: at(ports.Metrics, i),
			Config: filepath.Join(o.Dir, fmt.Sprintf("zoo%d.cfg", i+1)),
			Log:    filepath.Join(o.Dir, fmt.Sprintf("zkd-%d.log", i+1)),
		}
		e.servers = append(e.servers, s)
		if o.Servers > 1 {
			members = append(members, fmt.Sprintf("server.%d=%s:1;%s", s.ID, at(ports.Quorum, i), s.Client))
		}
	}
	for i, s := range e.servers {
		lines := append([]string{
			fmt.Sprintf("# Server %d of %d on one machine.", s.ID, o.Servers),
			"dataDir=" + filepath.Join(o.Dir, strconv.Itoa(s.ID)),
		}, members...)
		if o.Servers > 1 {
			lines = append(lines, fmt.Sprintf("zkd.myid=%d", s.ID))
		} else {
			lines = append(lines, "clientPortAddress=127.0.0.1", fmt.Sprintf("clientPort=%d", port(ports.Client, i)))
		}
		lines = append(lines,
			"admin.serverAddress=127.0.0.1", fmt.Sprintf("admin.serverPort=%d", port(ports.Admin, i)),
			"metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
			"metricsProvider.httpHost=127.0.0.1", fmt.Sprintf("metricsProvider.httpPort=%d", port(ports.Metrics, i)),
			"4lw.commands.whitelist=*")
		if err := os.WriteFile(s.Config, []byte(strings.Join(append(lines, o.Lines...), "\n")+"\n"), 0o600); err != nil {
			e.release()
			return nil, err
		}
	}
	return e, nil
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
func (e *Ensemble) ConnectString() string {
	var list []string
	for _, s := range e.servers {
		list = append(list, s.Client)
	}
	return strings.Join(list, ",")
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
	cmd := exec.Command(e.o.Program[0], append(e.o.Program[1:len(e.o.Program):len(e.o.Program)], s.Config)...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, bound()
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	s.process = p
	go func() {
		p.how = cmd.Wait()
		e.mu.Lock()
		s.process = nil
		unexpected := !p.expected
		e.mu.Unlock()
		close(p.ended)
		if unexpected && e.o.Ended != nil {
			e.o.Ended(id, p.how)
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
	// A process that was paused does not see SIGTERM before it is resumed.
	_ = errors.Join(p.cmd.Process.Signal(sig), p.cmd.Process.Signal(syscall.SIGCONT))
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
	var addrs []string
	for _, s := range e.servers {
		addrs = append(addrs, s.Client)
	}
	for i, v := range servers.LookAll(ctx, addrs, look, servers.Asker{}.Look) {
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

// AwaitServing waits until a server serves clients, or has ended. It does not wait if most servers
// are down, as then none does.
func (e *Ensemble) AwaitServing(ctx context.Context, id int) error {
	for 2*e.running() > len(e.servers) {
		v := servers.LookAll(ctx, []string{e.Server(id).Client}, look, servers.Asker{}.Look)[0]
		switch {
		case v.Serves():
			return nil
		case e.Pid(id) == 0:
			return fmt.Errorf("server %d has ended: %s", id, e.Server(id).LastWords())
		}
		if pause.For(ctx, 20*time.Millisecond) != nil {
			return context.Cause(ctx)
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

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/internal/freeport"
)

// ensemble is a number of processes that serve together.
type ensemble struct {
	clients   []string // host:port
	processes []*exec.Cmd
	release   func() // frees the ports
}

func newEnsemble(n, portsEach int) (*ensemble, []int, error) {
	ports, release, err := freeport.Reserve(n * portsEach)
	if err != nil {
		return nil, nil, err
	}
	e := &ensemble{release: release}
	for i := range n {
		e.clients = append(e.clients, local(ports[i]))
	}
	return e, ports[n:], nil
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// start runs a process with its output in a file.
func (e *ensemble) start(log string, argv ...string) error {
	f, err := os.Create(log)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	e.processes = append(e.processes, cmd)
	return nil
}

func (e *ensemble) pids() []int {
	var pids []int
	for _, p := range e.processes {
		pids = append(pids, p.Process.Pid)
	}
	return pids
}

// cpu returns the processor time that all processes have used.
func (e *ensemble) cpu() (sum time.Duration, err error) {
	for _, pid := range e.pids() {
		d, err := bench.ProcessCPU(pid)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// stop kills all processes.
func (e *ensemble) stop() {
	for _, p := range e.processes {
		_ = p.Process.Kill() // it may have ended
		_ = p.Wait()         // says that it was killed
	}
	e.release()
}

// startTimeout is the limit until an ensemble takes writes.
const startTimeout = time.Minute

func startZkd(ctx context.Context, program, dir string, n int) (*ensemble, error) {
	e, ports, err := newEnsemble(n, 3)
	if err != nil {
		return nil, err
	}
	var members strings.Builder
	for i := range n {
		if n > 1 {
			fmt.Fprintf(&members, "server.%d=127.0.0.1:%d:%d\n", i+1, ports[2*i], ports[2*i+1])
		}
	}
	for i, addr := range e.clients {
		own := filepath.Join(dir, fmt.Sprint(i+1))
		data := filepath.Join(own, "data")
		if err := os.MkdirAll(data, 0o755); err != nil {
			return e.failed(err)
		}
		host, port, _ := strings.Cut(addr, ":")
		file := filepath.Join(own, "zoo.cfg")
		text := fmt.Sprintf("dataDir=%s\nclientPortAddress=%s\nclientPort=%s\nmaxClientCnxns=0\ntickTime=2000\ninitLimit=10\nsyncLimit=5\nadmin.enableServer=false\n%s",
			data, host, port, members.String())
		if n > 1 {
			text += fmt.Sprintf("zkd.myid=%d\n", i+1)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return e.failed(err)
		}
		if err := e.start(filepath.Join(own, "log"), program, file); err != nil {
			return e.failed(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := bench.AwaitWrite(ctx, bench.Target{Addrs: e.clients}, "/"); err != nil {
		return e.failed(err)
	}
	return e, nil
}

func startEtcd(ctx context.Context, program, dir string, n int) (*ensemble, error) {
	e, ports, err := newEnsemble(n, 2)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return e.failed(err)
	}
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf("m%d=http://%s", i, local(ports[i])))
	}
	for i, addr := range e.clients {
		name, client, peer := fmt.Sprintf("m%d", i), "http://"+addr, "http://"+local(ports[i])
		if err := e.start(filepath.Join(dir, name+".log"), program, "--name", name, "--data-dir", filepath.Join(dir, name), "--logger", "zap", "--log-level", "error",
			"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new", "--quota-backend-bytes", "8589934592"); err != nil {
			return e.failed(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := awaitPut(ctx, e.clients); err != nil {
		return e.failed(err)
	}
	return e, nil
}

// failed stops what has been started.
func (e *ensemble) failed(err error) (*ensemble, error) {
	e.stop()
	return nil, err
}

// Etcd compares zkd with etcd on this machine: what both can do, under loads of the same shape, by turns.
//
//	make build && go run -C test/bench/etcd . -servers 3
//
// It is a separate module, so that zkd does not depend on etcd. Its directory server has etcd's server, of the
// version in go.mod, which is built first. The figures of zkd are those of zkbench.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

type settings struct {
	zkd, etcd string
	servers   int
	dir       string
	pairs     int
	duration  time.Duration
	warmup    time.Duration
	only      string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	var s settings
	f := flag.NewFlagSet("etcd", flag.ContinueOnError)
	f.StringVar(&s.zkd, "zkd", "../../../bin/zkd", "zkd's program")
	f.StringVar(&s.etcd, "etcd", "", "etcd's program (default: that of go.mod)")
	f.IntVar(&s.servers, "servers", 1, "servers of each: 1 or 3")
	f.StringVar(&s.dir, "dir", "", "where the servers' files go, on a real disk (default: the directory for temporary files)")
	f.IntVar(&s.pairs, "pairs", 5, "pairs of runs for each row")
	f.DurationVar(&s.duration, "duration", 4*time.Second, "of each run")
	f.DurationVar(&s.warmup, "warmup", 2*time.Second, "of each run, before it is measured")
	f.StringVar(&s.only, "only", "", "run only the loads whose name contains this")
	if err := f.Parse(args); err != nil {
		return err
	}
	if s.zkd, err = filepath.Abs(s.zkd); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.dir, "zkd-etcd-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if s.etcd == "" {
		s.etcd = filepath.Join(dir, "etcd-server")
		build := exec.CommandContext(ctx, "go", "build", "-o", s.etcd, "./server")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build etcd: %w", err)
		}
	}
	a, err := startEtcd(ctx, s.etcd, filepath.Join(dir, "etcd"), s.servers)
	if err != nil {
		return err
	}
	defer a.stop()
	b, err := startZkd(ctx, s.zkd, filepath.Join(dir, "zkd"), s.servers)
	if err != nil {
		return err
	}
	defer b.stop()

	fmt.Fprint(stdout, "| | etcd | zkd | ratio |\n|---|---|---|---|\n")
	for _, l := range loads {
		if !strings.Contains(l.name, s.only) {
			continue
		}
		c := &comparison{settings: s, etcd: a, zkd: b, load: l}
		if err := c.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		c.write(stdout)
	}
	return nil
}

// load is what both are asked for.
type load struct {
	name        string
	workload    bench.Workload
	connections int
	window      int // requests under way on each connection
	size        int // bytes of a value
	lone        bool
	do          operation // on etcd
}

// pipelined is the shape of most loads of zkbench.
var loads = []load{
	{name: "write 1 KiB, 8 x 64", workload: bench.Set, connections: 8, window: 64, size: 1024, do: put},
	{name: "create 100 B, 8 x 64", workload: bench.Create, connections: 8, window: 64, size: 100, do: create},
	{name: "read 1 KiB (serializable), 8 x 64", workload: bench.Get, connections: 8, window: 64, size: 1024, do: serializable},
	{name: "lone write 1 KiB", workload: bench.Set, connections: 1, window: 1, size: 1024, lone: true, do: put},
	{name: "lone read 1 KiB (serializable)", workload: bench.Get, connections: 1, window: 1, size: 1024, lone: true, do: serializable},
	{name: "new sessions, 16 at a time", workload: bench.Sessions, connections: 16, window: 1, do: session},
	{name: "1,000 watchers of one node", workload: bench.Watch, connections: 1000, window: 1, size: 100},
}

// measured is the outcome of one run.
type measured struct {
	rate, cpu, p50, p99 float64 // /s, us of server CPU for an operation, us
}

// comparison is a row of the table, or several.
type comparison struct {
	settings
	etcd, zkd *ensemble
	load      load
	a, b      []measured
}

func (c *comparison) measure(ctx context.Context) error {
	for i := range c.pairs {
		for _, first := range []bool{i%2 == 0, i%2 != 0} {
			if first {
				m, err := c.onEtcd(ctx)
				if err != nil {
					return fmt.Errorf("etcd: %w", err)
				}
				c.a = append(c.a, m)
				continue
			}
			m, err := c.onZkd(ctx)
			if err != nil {
				return fmt.Errorf("zkd: %w", err)
			}
			c.b = append(c.b, m)
		}
	}
	return nil
}

// onZkd runs the load by zkbench's engine.
func (c *comparison) onZkd(ctx context.Context) (measured, error) {
	cfg := bench.Defaults(c.load.workload)
	cfg.Connections, cfg.Window, cfg.ValueSize = c.load.connections, c.load.window, c.load.size
	cfg.Duration, cfg.Warmup = c.duration, c.warmup
	r, err := bench.Run(ctx, bench.Target{Addrs: c.zkd.clients, Pids: c.zkd.pids()}, cfg)
	if err != nil {
		return measured{}, err
	}
	m := measured{rate: r.Rate, cpu: r.Server.CPUPerThousand * 1e3, p50: r.Latency.P50, p99: r.Latency.P99}
	if c.load.workload == bench.Watch { // a round is one operation there
		m.rate, m.cpu = m.rate*float64(c.load.connections), m.cpu/float64(c.load.connections)
	}
	return m, nil
}

func (c *comparison) write(w io.Writer) {
	row := func(what, unit string, of func(measured) float64) {
		var a, b []float64
		for i := range c.a {
			a, b = append(a, of(c.a[i])), append(b, of(c.b[i]))
		}
		f := bench.NewFigure(c.load.name+", "+what, unit, a, b)
		fmt.Fprintf(w, "| %s (%s) | %s | %s | %s |\n", f.Name, f.Unit, cell(f.A, bench.Digits), cell(f.B, bench.Digits), cell(f.Ratio, ratio))
	}
	if c.load.lone {
		row("p50", "us", func(m measured) float64 { return m.p50 })
		row("p99", "us", func(m measured) float64 { return m.p99 })
		return
	}
	row("a second", "/s", func(m measured) float64 { return m.rate })
	row("server CPU", "us", func(m measured) float64 { return m.cpu })
}

func cell(s bench.Spread, format func(float64) string) string {
	return fmt.Sprintf("%s (%s to %s)", format(s.Median), format(s.Min), format(s.Max))
}

func ratio(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

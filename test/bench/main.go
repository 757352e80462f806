// Bench compares two servers of ZooKeeper's client protocol on this machine and
// prints a Markdown table: throughput, latency, CPU time, memory, and the time
// from kill -9 to the first read.
//
//	make build campaign && bin/bench -b bin/zkd
//
// With -servers 3 both are ensembles of three, and it measures besides what
// happens to writes when the leader or a follower fails. With -curve 1,3,5 it
// measures throughput by the share of reads instead, for ensembles of these sizes. With
// -wide 1,20,100 it measures ensembles whose servers are that many milliseconds from each other, and with -sites besides ways to share
// out servers over two and three sites. With
// -observers 1,6,12 it measures what each observer costs the leader of an ensemble that has this many. With
// -growth DIR it draws what operations cost while the number of znodes, sessions or watches grows. With -hops it shows
// where the time of a single write goes, on its way through three servers of the second program. With -neighbours it measures what
// one noisy client on all of three servers costs the calm ones, for each kind of attack.
//
// It starts both servers itself, in directories and on ports of their own, with
// the same settings. A server is "apache", which means Debian's package
// "zookeeper", a directory with the jar files of another release of it, or the
// path of a program that takes the name of a zoo.cfg as its argument. Nothing else should run on the machine meanwhile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	a, b      string
	servers   int
	dir       string
	pairs     int
	rounds    int
	duration  time.Duration
	warmup    time.Duration
	idle      int
	znodes    int64
	faults    int
	only      string
	curve     string
	sizes     []int // that curve names
	distance  string
	trips     []time.Duration // that distance names
	lost      float64         // percent
	sites     bool
	standby   bool
	growth    string
	watching  string
	observers []int // that watching names
	hops      bool
	attacks   bool
	quick     bool
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == slowCommand {
		fmt.Fprintln(os.Stderr, "bench:", becomeSlow(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) > 1 && os.Args[1] == noisyCommand {
		if err := beNoisy(context.Background(), os.Args[2:], os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.a, "a", apache, "first server: apache, a directory with its jar files, or a program")
	f.StringVar(&s.b, "b", "bin/zkd", "second server: as -a")
	f.IntVar(&s.servers, "servers", 1, "servers of each ensemble: 1, or 3 and more")
	f.StringVar(&s.dir, "dir", "", "where the servers' files go, on a real disk (default: the directory for temporary files); a list, as in PATH, is taken in turn")
	f.IntVar(&s.pairs, "pairs", 5, "pairs of runs for each row about speed")
	f.IntVar(&s.rounds, "rounds", 3, "fresh servers for each row about memory and restarts")
	f.DurationVar(&s.duration, "duration", 5*time.Second, "of the measurement of each run")
	f.DurationVar(&s.warmup, "warmup", 10*time.Second, "load on each server before the first measurement")
	f.IntVar(&s.idle, "idle", 10_000, "idle sessions")
	f.Int64Var(&s.znodes, "znodes", 1_000_000, "znodes of 100 bytes at paths of 28")
	f.IntVar(&s.faults, "faults", 50, "leaders to kill; a fifth as many are stopped, and asked to end")
	f.BoolVar(&s.quick, "quick", false, "a few minutes: smaller numbers for all flags that are not given")
	f.StringVar(&s.only, "only", "", "run only the rows whose name contains this")
	f.StringVar(&s.curve, "curve", "", "instead of all that: throughput by share of reads for ensembles of these `sizes`, as in 1,3,5; the first program's up to 3 only")
	f.StringVar(&s.distance, "wide", "", "instead of all that: ensembles of three whose servers are these round `trips` from each other, in ms, as in 1,20,100; needs root")
	f.Float64Var(&s.lost, "lost", 0, "with -wide: `percent` of the packets between the servers that are lost")
	f.BoolVar(&s.sites, "sites", false, "with -wide: the second program alone, with its servers shared out over two and three sites in several ways")
	f.BoolVar(&s.standby, "standby", false, "with -wide: how long what the second program acknowledges takes to a standby at another site, under 5000 sets/s")
	f.StringVar(&s.watching, "observers", "", "instead of all that: what each observer costs the leader, for ensembles of three with these `numbers` of observers besides, as in 1,6,12")
	f.StringVar(&s.growth, "growth", "", "instead of all that: the cost of operations over the number of znodes, sessions and watches, and the size of values, as a table and pictures in this `directory`; without the first program if that is \"\"")
	f.BoolVar(&s.hops, "hops", false, "instead of all that: where a single write is when, on its way through three servers of the second program, which must be zkd")
	f.BoolVar(&s.attacks, "neighbours", false, "instead of all that: what a noisy client on all of three servers costs calm ones, with limits and without; without the first program if that is \"\"")
	if err := f.Parse(args); err != nil {
		return err
	}
	if s.quick {
		if err := shorten(f); err != nil {
			return err
		}
	}
	if err := s.prepare(); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Made by `bin/bench %s` on %s.\n\n", strings.Join(args, " "), machine())
	c := &campaign{ctx: ctx, settings: s, log: stderr}
	if s.curve != "" {
		return c.drawCurve(stdout)
	}
	if s.growth != "" {
		return c.grow(s.growth)
	}
	if s.hops {
		c.servers = 3
		return c.drawHops(stdout)
	}
	if s.attacks {
		return c.neighbours(stdout)
	}
	if s.sites {
		return c.shareOut(stdout)
	}
	if s.standby {
		return c.lag(stdout)
	}
	measure := c.run
	if len(s.trips) > 0 {
		measure = c.wide
	}
	if len(s.observers) > 0 {
		measure = c.observe
	}
	err := measure()
	return errors.Join(err, writeTable(stdout, c.rows, name(s.a), name(s.b)))
}

// shorten sets what was not given for a run that only shows whether all works.
func shorten(f *flag.FlagSet) error {
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, q := range [][2]string{
		{"pairs", "2"}, {"rounds", "1"}, {"duration", "1s"}, {"warmup", "3s"}, {"idle", "500"}, {"znodes", "20000"}, {"faults", "2"},
	} {
		if given[q[0]] {
			continue
		}
		if err := f.Set(q[0], q[1]); err != nil {
			return err
		}
	}
	return nil
}

// prepare checks the settings and lets the servers have many connections.
func (s *settings) prepare() error {
	for _, p := range []*string{&s.a, &s.b} {
		if *p == apache || *p == "" && (s.growth != "" || s.hops || s.attacks || s.sites || s.standby) {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		if _, err := os.Stat(abs); err != nil {
			return fmt.Errorf("server program: %w", err)
		}
		*p = abs
	}
	var err error
	if s.sizes, err = parseSizes(s.curve); err != nil {
		return err
	}
	if s.trips, err = parseTrips(s.distance); err != nil {
		return err
	}
	if s.lost < 0 || s.lost > 100 || s.lost > 0 && len(s.trips) == 0 {
		return fmt.Errorf("lost: %v: want 0 to 100 percent, and -wide with it", s.lost)
	}
	if s.sites && len(s.trips) == 0 {
		return errors.New("sites: want -wide with it")
	}
	if s.observers, err = parseObservers(s.watching); err != nil {
		return err
	}
	if s.servers < 1 || s.servers == 2 || s.faults < 1 {
		return fmt.Errorf("servers, faults: want 1 or at least 3 servers, and a fault at least")
	}
	if s.pairs < 1 || s.rounds < 1 || s.idle < 1 || s.znodes < 1 {
		return fmt.Errorf("pairs, rounds, idle and znodes: want at least 1")
	}
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("read limit of open files: %w", err)
	}
	if need := uint64(s.idle) + 500; l.Max < need {
		return fmt.Errorf("%d idle sessions need %d open files, the hard limit is %d (ulimit -Hn)", s.idle, need, l.Max)
	}
	// Set explicitly, the limit is inherited by the servers.
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("raise limit of open files: %w", err)
	}
	return nil
}

// name is what the table calls a server.
func name(program string) string {
	if apacheArgv(program) != nil {
		return "Apache"
	}
	return filepath.Base(program)
}

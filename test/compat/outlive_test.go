//go:build compat

package compat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/client"
)

const (
	quickOutlived, fullOutlived = 2, 200
	// outliveWrites is how many writes each client does between two faults.
	outliveWrites = 3
	outliveLimit  = 2 * time.Minute
)

// TestOutlive kills the leader, and has it hand over, time after time, under programs that use
// the Java client, Curator, kazoo, the C client, go-zookeeper/zk and our client. Each of these has a
// client at each server, and this one alone. A client must not lose its connection but when its
// own server is killed. No acknowledged write may be missing, and with exactly-once sessions none
// may be left open.
//
// Client i of a program sets /outlive/<program>-<i> over and over. What a program says is, in
// lines: "lost <program> <i>", when that client loses its connection, "back <program> <i>", when it
// writes again, "total <program> <i> <done> <unknown>" at the end, with the numbers of writes that were
// acknowledged and of those whose answer was lost, and "failed <program> <i> ..." for any other error.
func TestOutlive(t *testing.T) {
	if target(t) != zkd {
		t.Log("MISSING connections that outlive the leader: Apache's servers end them all")
		return
	}
	needKazoo(t)
	needRecipes(t)
	java := javaCommand(t, "outlive", "OutliveProgram", recipeJars()...)
	c := compileC(t, "outlive")
	// A slow machine must not end what it is all about.
	e := startEnsemble(t, zkd, config{lines: []string{"zkd.interlude=120000"}})
	o := &outlived{t: t, e: e, totals: map[place][2]int{}, window: map[int]map[place]bool{}, changed: make(chan struct{})}
	o.connect()
	o.prepare("java", "curator", "kazoo", "c", "go-zookeeper", "zkd")
	o.program(java)
	o.program([]string{python, "python/zkd_outlive.py"})
	o.program([]string{c})
	for i := range e.servers {
		o.goZookeeper(i)
		o.ours(i)
	}
	o.progress()
	rounds := quickOutlived
	if *fullFlag {
		rounds = fullOutlived
	}
	for range rounds {
		o.kill()
		o.handOver()
	}
	o.finish()
	t.Logf("%d kills and %d hand-overs, %d clients that lost their connection to a living server", rounds, rounds, o.failures)
	summary(t, t.Name(), 2*rounds, o.failures)
}

// place is a client: a program's at a server.
type place struct {
	program string
	server  int
}

func (p place) String() string { return fmt.Sprintf("%s-%d", p.program, p.server) }

// outlived runs the programs.
type outlived struct {
	t      *testing.T
	e      *ensemble
	c      *client.Client
	places []place

	stops   []func() // each ends a program
	running sync.WaitGroup

	mu       sync.Mutex
	fault    string                 // the one that there is now; "" after the last one
	window   map[int]map[place]bool // by the server that is killed: which of its clients have lost it, and whether they are back
	totals   map[place][2]int
	changed  chan struct{} // closed at each change
	failures int
}

func (o *outlived) connect() {
	c, err := client.Connect(o.t.Context(), o.e.hosts(), client.Options{Timeout: outliveLimit, Logger: client.NoLog})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { c.Close(context.Background()) }) // servers may be down after a failure
	o.c = c
}

// prepare makes the nodes.
func (o *outlived) prepare(programs ...string) {
	paths := []string{"/outlive"}
	for _, program := range programs {
		for i := range o.e.servers {
			p := place{program, i}
			o.places = append(o.places, p)
			paths = append(paths, "/outlive/"+p.String())
		}
	}
	for _, path := range paths {
		if _, err := o.c.Create(o.t.Context(), path, nil, client.CreateOptions{}); err != nil {
			o.t.Fatal(err)
		}
	}
}

// program starts a program of others.
func (o *outlived) program(command []string) {
	for _, s := range o.e.servers {
		command = append(command, s.addr)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { cmd.Process.Kill() }) // it may be gone already
	o.stops = append(o.stops, func() { in.Close() })
	o.running.Go(func() {
		o.listen(out)
		if err := cmd.Wait(); err != nil && !o.t.Failed() {
			o.t.Errorf("%s: %v", command[0], err)
		}
	})
}

func (o *outlived) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		var numbers [3]int
		valid := len(words) >= 3
		for i := 2; i < min(len(words), 5) && valid && (i == 2 || words[0] == "total"); i++ {
			var err error
			numbers[i-2], err = strconv.Atoi(words[i])
			valid = err == nil
		}
		if !valid {
			o.t.Logf("a program says %q", lines.Text())
			continue
		}
		switch p := (place{words[1], numbers[0]}); words[0] {
		case "lost":
			o.lost(p)
		case "back":
			o.back(p)
		case "total":
			o.total(p, numbers[1], numbers[2])
		default:
			o.t.Errorf("%s", lines.Text())
		}
	}
}

func (o *outlived) lost(p place) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.window[p.server]
	switch {
	case o.fault == "": // the clients are closed
		return
	case w != nil:
		w[p] = false
		return
	}
	o.failures++
	o.t.Errorf("%v: the client lost its connection to a living server, during: %s", p, o.fault)
}

func (o *outlived) back(p place) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.window[p.server]; w != nil {
		w[p] = true
		o.tellLocked()
	}
}

func (o *outlived) total(p place, done, unknown int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.totals[p] = [2]int{done, unknown}
}

func (o *outlived) tellLocked() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// noted calls lost and back for a client in this process.
func (o *outlived) noted(p place) (lost, back func()) {
	var mu sync.Mutex
	isLost := false
	lost = func() {
		mu.Lock()
		defer mu.Unlock()
		if !isLost {
			isLost = true
			o.lost(p)
		}
	}
	back = func() {
		mu.Lock()
		defer mu.Unlock()
		if isLost {
			isLost = false
			o.back(p)
		}
	}
	return lost, back
}

// write runs a client of this process until the programs are to stop.
func (o *outlived) write(p place, back func(), set func(ctx context.Context, path string) (unknown bool, err error)) {
	ctx, stop := context.WithCancel(context.Background())
	o.stops = append(o.stops, stop)
	o.running.Go(func() {
		done, unknown := 0, 0
		for ctx.Err() == nil {
			lost, err := set(context.Background(), "/outlive/"+p.String())
			switch {
			case lost:
				unknown++
			case err != nil:
				o.t.Errorf("%v: %v", p, err)
				return
			default:
				done++
				back()
			}
			<-time.After(5 * time.Millisecond)
		}
		o.total(p, done, unknown)
	})
}

func (o *outlived) goZookeeper(i int) {
	p := place{"go-zookeeper", i}
	lost, back := o.noted(p)
	conn, _, err := zk.Connect([]string{o.e.servers[i].addr}, time.Minute, zk.WithLogInfo(false), zk.WithLogger(silent{}), zk.WithEventCallback(func(e zk.Event) {
		if e.State == zk.StateDisconnected {
			lost()
		}
	}))
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(conn.Close)
	o.write(p, back, func(_ context.Context, path string) (bool, error) {
		_, err := conn.Set(path, nil, -1)
		return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer), err
	})
}

// silent drops what go-zookeeper logs.
type silent struct{}

func (silent) Printf(string, ...any) {}

func (o *outlived) ours(i int) {
	p := place{"zkd", i}
	lost, back := o.noted(p)
	c, err := client.Connect(o.t.Context(), o.e.servers[i].addr, client.Options{
		Timeout: time.Minute, Logger: client.NoLog, Watcher: func(e client.Event) {
			if e.State == client.StateSuspended {
				lost()
			}
		},
	})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { c.Close(context.Background()) }) // servers may be down after a failure
	o.write(p, back, func(ctx context.Context, path string) (bool, error) {
		_, err := c.Set(ctx, path, nil, client.AnyVersion)
		return false, err
	})
}

// begin names the fault to come.
func (o *outlived) begin(fault string, killed int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fault = fault
	clear(o.window)
	if killed >= 0 {
		o.window[killed] = map[place]bool{}
	}
}

// leader returns the index of the leader, once the ensemble is healthy.
func (o *outlived) leader() int {
	if err := o.e.awaitHealthy(); err != nil {
		o.t.Fatal(err)
	}
	for i, s := range o.e.servers {
		if s.mode() == "leader" {
			return i
		}
	}
	return o.leader() // it has changed meanwhile
}

// kill kills the leader, and starts it again once the others serve.
func (o *outlived) kill() {
	leads := o.leader()
	o.begin(fmt.Sprintf("the kill of server %d", leads), leads)
	o.e.servers[leads].kill()
	o.progress(leads)
	if err := o.e.heal(); err != nil {
		o.t.Fatal(err)
	}
	o.await("its clients are back", func() bool {
		for _, p := range o.places {
			if p.server == leads && !o.window[leads][p] {
				return false
			}
		}
		return true
	})
	o.begin("none, after the kill of "+strconv.Itoa(leads), -1)
	o.progress()
}

// handOver makes another server lead.
func (o *outlived) handOver() {
	leads := o.leader()
	o.begin(fmt.Sprintf("the hand-over by server %d", leads), -1)
	for again := true; again; { // it hands over only to a server that is not late
		if err := o.e.servers[leads].cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			o.t.Fatal(err)
		}
		again = o.e.servers[leads].waitFor("no leader any more", func() bool { return o.e.servers[leads].mode() != "leader" }) != nil
	}
	o.progress()
}

// await waits until the condition, which is about what mu protects, holds.
func (o *outlived) await(what string, holds func() bool) {
	limit := time.After(outliveLimit)
	for {
		o.mu.Lock()
		ok, changed := holds(), o.changed
		o.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit:
			o.t.Fatalf("%s: not %s after %v: %v", o.fault, what, outliveLimit, o.window)
		}
	}
}

// progress waits until each client at the servers, but for those that are down, has done some writes.
func (o *outlived) progress(down ...int) {
	ctx, cancel := context.WithTimeout(o.t.Context(), outliveLimit)
	defer cancel()
	for _, p := range o.places {
		if len(down) > 0 && p.server == down[0] {
			continue
		}
		for version := int32(-1); ; <-time.After(5 * time.Millisecond) {
			node, err := o.c.Exists(ctx, "/outlive/"+p.String())
			if ctx.Err() != nil {
				o.t.Fatalf("%s: %v does not write: %v", o.fault, p, err)
			}
			if err != nil {
				continue // it is this client's own server that was killed
			}
			if version < 0 {
				version = node.Stat.Version
			}
			if node.Stat.Version >= version+outliveWrites {
				break
			}
		}
	}
}

// finish ends the programs and compares what they say with what is there.
func (o *outlived) finish() {
	o.begin("none, at the end", -1)
	for _, stop := range o.stops {
		stop()
	}
	o.running.Wait()
	o.begin("", -1)
	if err := o.c.Sync(o.t.Context(), "/outlive"); err != nil {
		o.t.Fatal(err)
	}
	counts := map[string][2]int{}
	for _, p := range o.places {
		node, err := o.c.Exists(o.t.Context(), "/outlive/"+p.String())
		if err != nil {
			o.t.Fatal(err)
		}
		total, known := o.totals[p]
		done, unknown := total[0], total[1]
		n := int(node.Stat.Version)
		if !known || n < done || n > done+unknown || p.program == "zkd" && unknown > 0 {
			o.t.Errorf("%v: %d writes acknowledged, %d unknown, %d done", p, done, unknown, n)
		}
		sum := counts[p.program]
		counts[p.program] = [2]int{sum[0] + done, sum[1] + unknown}
	}
	for program, sum := range counts {
		o.t.Logf("%-12s %d writes acknowledged, of %d the answer was lost with the server", program, sum[0], sum[1])
	}
}

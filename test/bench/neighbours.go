package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/jute"
)

// noisy is where the noisy client is, and calm where the others are.
var noisy, calm = net.IPv4(127, 0, 0, 2), net.IPv4(127, 0, 0, 1)

// noisyRule limits the noisy client. The first program gets earlierRule, which servers of earlier versions can read as well.
const (
	earlierRule = "zkd.limit.noisy=address 127.0.0.2 requests/s=1000 bytes/s=4000000 connections=60 sessions=60"
	noisyRule   = earlierRule + " connections/s=20"
)

const (
	neighbourServers = 3
	manyTrials       = 12
	calmRate         = 150 // sets a second, and as many gets
	noisyFeeds       = 60

	apiAttack      = "HTTP API"
	apiRate        = 1000 // requests a second, half of them sets
	apiConnections = 100
)

// attack is what a noisy client does on all servers, as much as it can.
type attack struct {
	name  string
	load  bench.Config // or none
	feeds int          // sessions that follow all changes meanwhile
	// openers are how many open sessions all the time, and close them.
	openers int
	tls     bool
	api     bool // requests of the HTTP API
	steady  bool // at a fixed rate, by a process that gives way to others, as if it were on another machine
	aside   bool // they are sent to a server of the attacker's own process: what the attacker itself takes of the processors
}

func attacks() []attack {
	load := func(w bench.Workload, connections, window, bytes int) bench.Config {
		c := bench.Defaults(w)
		c.Connections, c.Window, c.ValueSize = connections, window, bytes
		c.Duration, c.Warmup = time.Hour, 0 // until it is ended
		return c
	}
	steady := load(bench.Mixed, apiConnections, 1, 100)
	steady.Rate, steady.Reads = apiRate, 0.5
	return []attack{
		{name: "writes of 100 bytes", load: load(bench.Set, 48, 32, 100)},
		{name: "writes of 100 KB", load: load(bench.Set, 12, 4, 100_000)},
		{name: "reads", load: load(bench.Get, 48, 64, 100)},
		{name: "watches", load: load(bench.Watch, 150, 1, 100)},
		{name: "a herd of 3,000 watches", load: load(bench.Watch, 3000, 1, 100)},
		{name: "sessions", openers: 48},
		{name: "TLS handshakes", openers: 48, tls: true},
		{name: apiAttack, api: true, steady: true},
		{name: apiAttack + "'s load to nobody", api: true, steady: true, aside: true},
		{name: apiAttack + "'s load by clients", load: steady, steady: true},
		{name: "feeds", load: load(bench.Set, 12, 16, 100), feeds: noisyFeeds},
	}
}

// p99s are the 99th percentiles of what calm clients wait, in ms.
type p99s struct{ set, get float64 }

// trial is one attack.
type trial struct {
	before, during, after p99s
	rate                  float64 // of the attacker
}

// neighbours prints what each attack costs calm clients: for ensembles with a rule that limits the attacker, and without.
func (c *campaign) neighbours(out io.Writer) error {
	c.servers = neighbourServers
	dir, err := os.MkdirTemp(c.dir, "neighbours-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lines, err := secureLines(dir)
	if err != nil {
		return err
	}
	if c.selected(apiAttack) {
		lines = append(lines, adminOn, "zkd.api=true")
	}
	fmt.Fprintln(out, "| attack | limits | server | operations of the attacker (/s) | p99 of a set before, meanwhile, afterwards (ms) | times | p99 of a get | times |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|")
	for _, ruled := range []bool{false, true} {
		if err := c.attacked(out, ruled, lines); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\n%d rounds, %v for each figure: medians, and the lowest and the highest of the rounds, or the quartiles of %d and more. Times is meanwhile to the mean of before and afterwards.\n", c.rounds, c.duration, manyTrials)
	return nil
}

// attacked attacks both programs by turns, with limits or without.
func (c *campaign) attacked(out io.Writer, ruled bool, lines []string) error {
	var sides []*ensemble
	for side, rule := range []string{earlierRule, noisyRule} {
		if c.program(side) == "" {
			continue
		}
		lines := slices.Clone(lines)
		if ruled {
			lines = append(lines, rule)
		}
		e, err := startEnsemble(c.ctx, c.program(side), c.dir, shape{servers: c.servers}, lines...)
		if err != nil {
			return err
		}
		defer e.remove()
		sides = append(sides, e)
	}
	var list []attack
	for _, a := range attacks() {
		if c.selected(a.name) {
			list = append(list, a)
		}
	}
	trials := make([][][]trial, len(list)) // of each attack on each side
	for i := range list {
		trials[i] = make([][]trial, len(sides))
	}
	for round := range c.rounds { // the attacks by turns as well: the machine is not the same from one minute to the next
		for n, a := range list {
			for i := range sides {
				side := (i + round) % len(sides) // A B, B A
				t, err := c.attack(sides[side], a)
				if err != nil {
					return fmt.Errorf("%s: %w", a.name, err)
				}
				trials[n][side] = append(trials[n][side], t)
				fmt.Fprintf(c.log, "%s, %s, limits %v: %+v\n", a.name, name(sides[side].program), ruled, t)
			}
		}
	}
	for n, a := range list {
		for side, e := range sides {
			writeTrials(out, a.name, ruled, name(e.program), trials[n][side])
		}
	}
	return nil
}

// attack measures calm clients before, during and after an attack.
func (c *campaign) attack(e *ensemble, a attack) (t trial, err error) {
	if t.before, err = c.calm(e); err != nil {
		return t, err
	}
	began := time.Now()
	addrs := e.target().Addrs
	if a.api {
		addrs = nil
		for _, s := range e.servers {
			addrs = append(addrs, s.admin)
		}
	}
	end, err := startNoise(c.ctx, a, addrs, c.log)
	if err != nil {
		return t, err
	}
	within(c.ctx, 2*time.Second)
	t.during, err = c.calm(e)
	done, ended := end()
	t.rate = float64(done) / time.Since(began).Seconds()
	if err = errors.Join(err, ended); err != nil {
		return t, err
	}
	within(c.ctx, time.Second)
	t.after, err = c.calm(e)
	return t, err
}

// noisyCommand as the first argument makes this program the noisy client of an attack, which has a process of its own: the calm
// clients must not wait for what it does with its replies.
const noisyCommand = "noisy"

// startNoise begins an attack. end ends it, and returns how many operations were done.
func startNoise(ctx context.Context, a attack, addrs []string, log io.Writer) (end func() (done int64, err error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := append([]string{self, noisyCommand, a.name}, addrs...)
	if a.steady {
		command = append([]string{"nice", "-n", "19"}, command...)
	}
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	var out strings.Builder
	process.Stdout, process.Stderr = &out, log
	stdin, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start the noisy client: %w", err)
	}
	return func() (done int64, err error) {
		stdin.Close()
		if err := process.Wait(); err != nil {
			return 0, fmt.Errorf("the noisy client: %w", err)
		}
		return strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
	}, nil
}

// beNoisy attacks servers until in ends, and writes how many operations were done. The arguments are the name of the attack and
// the servers' addresses.
func beNoisy(ctx context.Context, args []string, in io.Reader, out, log io.Writer) error {
	all := attacks()
	i := slices.IndexFunc(all, func(a attack) bool { return len(args) > 1 && a.name == args[0] })
	if i < 0 {
		return fmt.Errorf("%s: want the name of an attack, and servers", noisyCommand)
	}
	a, addrs := &all[i], args[1:]
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var work sync.WaitGroup
	for range a.feeds {
		work.Go(func() { follow(ctx, addrs) })
	}
	var done atomic.Int64
	for i := range a.openers {
		work.Go(func() {
			for ctx.Err() == nil {
				if openSession(ctx, addrs[i%len(addrs)], a.tls) == nil {
					done.Add(1)
				}
			}
		})
	}
	if a.aside {
		nobody := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
		defer nobody.Close()
		addrs = []string{nobody.Listener.Addr().String()}
	}
	if a.api {
		for i := range apiConnections {
			work.Go(func() { callAPI(ctx, addrs[i%len(addrs)], i, &done) })
		}
	}
	if a.load.Workload != "" {
		work.Go(func() { noise(ctx, addrs, a.load, &done, log) })
	}
	_, err := io.Copy(io.Discard, in)
	stop()
	work.Wait()
	fmt.Fprintln(out, done.Load())
	return err
}

// noise puts a load on all servers. What is refused ends it, and it begins again.
func noise(ctx context.Context, addrs []string, load bench.Config, done *atomic.Int64, log io.Writer) {
	t := bench.Target{Addrs: addrs, Security: bench.Security{From: noisy}}
	for ctx.Err() == nil {
		r, err := bench.Run(ctx, t, load)
		done.Add(r.Ops)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(log, "the attacker: %v\n", err)
			within(ctx, 100*time.Millisecond)
		}
	}
}

// callAPI sends one of apiConnections its part of the requests.
func callAPI(ctx context.Context, addr string, n int, done *atomic.Int64) {
	t := &http.Transport{MaxConnsPerHost: 1, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: noisy}}).DialContext}
	defer t.CloseIdleConnections()
	const pause = time.Second * apiConnections / apiRate
	within(ctx, pause*time.Duration(n)/apiConnections)
	turns := time.NewTicker(pause)
	defer turns.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		method := http.MethodGet
		if (i+n)%2 == 0 { // at each moment half of the requests are sets
			method = http.MethodPut
		}
		status, err := callOnce(ctx, t, method, addr)
		if status == http.StatusNotFound {
			status, err = callOnce(ctx, t, http.MethodPost, addr)
		}
		if err == nil && status < 300 {
			done.Add(1)
		}
		select {
		case <-turns.C:
		case <-ctx.Done():
		}
	}
}

func callOnce(ctx context.Context, t *http.Transport, method, addr string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+addr+"/v1/nodes/api", strings.NewReader(strings.Repeat("x", 100)))
	if err != nil {
		return 0, err
	}
	w, err := t.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, w.Body)
	return w.StatusCode, errors.Join(err, w.Body.Close())
}

// within waits, unless ctx ends before.
func within(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// openSession opens a session, and ends the connection.
func openSession(ctx context.Context, addr string, secure bool) error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: noisy}}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	if secure {
		nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
	}
	r := jute.ConnectRequest{TimeoutMs: 4000, Password: make([]byte, jute.PasswordLen)}
	body := r.Append(nil)
	if _, err := nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return err
	}
	if _, err := jute.ReadFrame(nc, 1<<10); err != nil {
		return err
	}
	h := jute.RequestHeader{Xid: 1, Type: jute.OpCloseSession}
	body = h.Append(nil)
	if _, err := nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return err
	}
	_, err = jute.ReadFrame(nc, 1<<10)
	return err
}

// calm measures clients with a constant rate of sets and gets.
func (c *campaign) calm(e *ensemble) (p p99s, err error) {
	t := e.target()
	t.Pids, t.From = nil, calm
	run := func(w bench.Workload, p99 *float64) error {
		load := bench.Defaults(w)
		load.Connections, load.Window, load.ValueSize, load.Keys, load.Rate = 6, 1, 100, 60, calmRate
		load.Duration, load.Warmup = c.duration, 500*time.Millisecond
		r, err := bench.Run(c.ctx, t, load)
		if err == nil {
			*p99 = r.Latency.P99 / 1000
		}
		return err
	}
	var sets error
	var work sync.WaitGroup
	work.Go(func() { sets = run(bench.Set, &p.set) })
	gets := run(bench.Get, &p.get)
	work.Wait()
	return p, errors.Join(sets, gets)
}

// follow follows all changes, from the address of the noisy client.
func follow(ctx context.Context, addrs []string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: noisy}}
	cl, err := client.New(strings.Join(addrs, ","), client.Options{Dial: d.DialContext, Logger: client.NoLog})
	if err != nil {
		return
	}
	defer cl.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		for range cl.Feed(ctx, "/", client.FeedOptions{After: client.FromNow, Data: true}) {
		}
	}
}

// secureLines let servers take TLS at their ports for clients.
func secureLines(dir string) ([]string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	file := filepath.Join(dir, "key.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return []string{"client.portUnification=true", "ssl.keyStore.location=" + file, "ssl.clientAuth=none"}, nil
}

// writeTrials writes the row of an attack.
func writeTrials(out io.Writer, attack string, ruled bool, program string, trials []trial) {
	has := "no"
	if ruled {
		has = "yes"
	}
	row := func(of func(p99s) float64) string {
		times := func(t trial) float64 { return 2 * of(t.during) / (of(t.before) + of(t.after)) }
		return fmt.Sprintf("%.1f, **%.1f**, %.1f | %s", middle(trials, func(t trial) float64 { return of(t.before) }),
			middle(trials, func(t trial) float64 { return of(t.during) }), middle(trials, func(t trial) float64 { return of(t.after) }), spread(trials, times))
	}
	fmt.Fprintf(out, "| %s | %s | %s | %.0f | %s | %s |\n", attack, has, program, middle(trials, func(t trial) float64 { return t.rate }),
		row(func(p p99s) float64 { return p.set }), row(func(p p99s) float64 { return p.get }))
}

// values returns a figure of each trial, in order.
func values(trials []trial, of func(trial) float64) (list []float64) {
	for _, t := range trials {
		list = append(list, of(t))
	}
	slices.Sort(list)
	return list
}

func middle(trials []trial, of func(trial) float64) float64 {
	list := values(trials, of)
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// spread returns the median and, of few trials, the lowest and the highest; of many, the quartiles.
func spread(trials []trial, of func(trial) float64) string {
	list, out := values(trials, of), 0
	if len(list) >= manyTrials {
		out = len(list) / 4
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", middle(trials, of), list[out], list[len(list)-1-out])
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/internal/freeport"
)

// startTimeout is the limit for servers to reach the expected state.
const startTimeout = 2 * time.Minute

// shape says which servers an ensemble has.
type shape struct {
	servers   int           // that vote
	observers int           // besides
	far       time.Duration // what they send to each other takes this time
	lost      float64       // share of its packets that are lost
	places    []int         // where each server is: those at one place are not far from each other; nil: each at another place. If there are more places than servers, the last are for servers outside of the ensemble
}

// delay returns how long a packet from one server to another takes.
func (s shape) delay(from, to int) time.Duration {
	if s.places != nil && s.places[from] == s.places[to] {
		return 0
	}
	return s.far
}

// ensemble is a number of servers of one program that form an ensemble, or a single one.
type ensemble struct {
	program string
	servers []*server
	wan     *wan    // between the servers, or nil
	peers   []int   // ports of the servers for each other, two each
	spare   []int   // ports for one more server
	joined  *server // that one, while it is a member
	release func()  // frees the ports
}

// newEnsemble prepares servers with empty data directories below dir, on free ports: of the loopback
// interface, unless they are far from each other. Their configurations have the lines, too.
func newEnsemble(program, dir string, of shape, lines ...string) (*ensemble, error) {
	n := of.servers + of.observers
	ports, release, err := freeport.Reserve(4 * (n + 1))
	if err != nil {
		return nil, err
	}
	e := &ensemble{program: program, release: release, peers: ports[n : 3*n], spare: ports[4*n:]}
	sites := slices.Repeat([]site{here}, n)
	if of.far > 0 {
		if e.wan, err = newWAN(ports[:max(n, len(of.places))], of.delay, of.lost); err != nil {
			e.remove()
			return nil, err
		}
		sites = e.wan.sites[:n]
	}
	if of.lost > 0 {
		lines = append(lines, "zkd.electionTimeout=3000") // as docs/run.md says; Apache's syncLimit is 10 s
	}
	members := memberLines(sites, of.servers, e.peers)
	for i, at := range sites {
		admin := ports[3*n+i]
		s, err := newServer(program, dir, at, i+1, ports[i], members, append(slices.Clip(lines), fmt.Sprint("admin.serverPort=", admin), "admin.serverAddress="+at.peers)...)
		if err != nil {
			e.remove()
			return nil, err
		}
		s.admin = fmt.Sprintf("127.0.0.1:%d", admin)
		e.servers = append(e.servers, s)
	}
	return e, nil
}

// memberLines are the lines by which servers know the members, "" for a single one. Each member has
// two of the ports; those after the voters observe.
func memberLines(sites []site, voters int, ports []int) string {
	if len(sites) == 1 {
		return ""
	}
	var lines strings.Builder
	for i, at := range sites {
		role := "participant"
		if i >= voters {
			role = "observer"
		}
		fmt.Fprintf(&lines, "server.%d=%s:%d:%d:%s\n", i+1, at.peers, ports[2*i], ports[2*i+1], role)
	}
	return lines.String()
}

// startEnsemble returns new servers that answer reads and know their leader.
func startEnsemble(ctx context.Context, program, dir string, of shape, lines ...string) (*ensemble, error) {
	e, err := newEnsemble(program, dir, of, lines...)
	if err != nil {
		return nil, err
	}
	if err = e.start(); err == nil {
		err = e.awaitHealthy(ctx)
	}
	if err != nil {
		e.remove()
		return nil, err
	}
	return e, nil
}

// start runs all processes, without waiting for anything.
func (e *ensemble) start() error {
	for _, s := range e.servers {
		if err := s.start(); err != nil {
			return err
		}
	}
	return nil
}

// await returns when f has returned, whose context ends in time. If a process ends meanwhile,
// await returns an error with its output.
func (e *ensemble) await(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, s := range e.servers {
		go func() {
			select {
			case <-s.gone:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	err := f(ctx)
	for _, s := range e.servers {
		select {
		case <-s.gone:
			return fmt.Errorf("%s: process ended: %w\n%s", strings.Join(s.argv, " "), s.end, s.tail())
		default:
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", e.program, err, e.servers[0].tail())
	}
	return nil
}

// awaitRead returns when a read of path was answered.
func (e *ensemble) awaitRead(ctx context.Context, path string) error {
	return e.await(ctx, func(ctx context.Context) error { return bench.AwaitRead(ctx, e.target(), path) })
}

// awaitWrite returns when the data of path was set.
func (e *ensemble) awaitWrite(ctx context.Context, path string) error {
	return e.await(ctx, func(ctx context.Context) error { return bench.AwaitWrite(ctx, e.target(), path) })
}

// awaitHealthy returns when one server leads and all others follow or observe.
func (e *ensemble) awaitHealthy(ctx context.Context) error {
	return e.await(ctx, func(ctx context.Context) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			modes := e.modes(ctx)
			if healthy(modes) {
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("wait for a leader with followers, have %q: %w", modes, context.Cause(ctx))
			}
		}
	})
}

func (e *ensemble) modes(ctx context.Context) []string {
	var modes []string
	for _, s := range e.servers {
		modes = append(modes, s.mode(ctx))
	}
	return modes
}

// healthy reports whether all servers have their roles.
func healthy(modes []string) bool {
	count := map[string]int{}
	for _, m := range modes {
		count[m]++
	}
	n := len(modes)
	return n == 1 && count["standalone"] == 1 || n > 1 && count["leader"] == 1 && count["follower"] > 0 && count["follower"]+count["observer"] == n-1
}

// roles returns the leader and the followers.
func (e *ensemble) roles(ctx context.Context) (leader *server, followers []*server, err error) {
	modes := e.modes(ctx)
	if !healthy(modes) || len(modes) == 1 {
		return nil, nil, fmt.Errorf("%s: no leader with followers: %q", name(e.program), modes)
	}
	for i, s := range e.servers {
		switch modes[i] {
		case "leader":
			leader = s
		case "follower":
			followers = append(followers, s)
		}
	}
	return leader, followers, nil
}

// target is all servers.
func (e *ensemble) target() bench.Target { return e.targetOf(e.servers...) }

// targetOf is a target with some of the servers, and the CPU time and the memory of all.
func (e *ensemble) targetOf(servers ...*server) bench.Target {
	var t bench.Target
	for _, s := range servers {
		t.Addrs = append(t.Addrs, s.addr)
	}
	for _, s := range e.servers {
		if s.cmd != nil {
			t.Pids = append(t.Pids, s.cmd.Process.Pid)
		}
	}
	return t
}

// resident is the mean of the servers' resident bytes.
func (e *ensemble) resident() (float64, error) {
	sum := 0.0
	for _, s := range e.servers {
		rss, err := bench.ProcessRSS(s.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += float64(rss)
	}
	return sum / float64(len(e.servers)), nil
}

// join starts one more server and makes it a member. The configuration of all must allow that.
func (e *ensemble) join(ctx context.Context, dir string) error {
	id := len(e.servers) + 1
	members := memberLines(slices.Repeat([]site{here}, id), id, append(slices.Clip(e.peers), e.spare[1:3]...))
	s, err := newServer(e.program, dir, here, id, e.spare[0], members, "reconfigEnabled=true", fmt.Sprint("admin.serverPort=", e.spare[3]))
	if err != nil {
		return err
	}
	e.joined = s
	if err := s.start(); err != nil {
		return err
	}
	lines := strings.Fields(members)
	return e.change(ctx, client.Members{Joining: lines[id-1] + ";" + s.addr})
}

// leave undoes join.
func (e *ensemble) leave(ctx context.Context) error {
	defer func() {
		e.joined.remove()
		e.joined = nil
	}()
	return e.change(ctx, client.Members{Leaving: fmt.Sprint(len(e.servers) + 1)})
}

// change changes the members as soon as those that join are up to date.
func (e *ensemble) change(ctx context.Context, m client.Members) error {
	return e.await(ctx, func(ctx context.Context) error {
		cl, err := client.Connect(ctx, e.servers[0].addr, client.Options{})
		if err != nil {
			return err
		}
		defer cl.Close(context.WithoutCancel(ctx))
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			_, err := cl.Ensemble().Reconfig(ctx, m, -1)
			if err == nil || ctx.Err() != nil || !errors.Is(err, client.ErrNewConfigNoQuorum) {
				return err
			}
			<-tick.C
		}
	})
}

// kill ends all processes at once.
func (e *ensemble) kill() {
	for _, s := range e.servers {
		if s.cmd != nil {
			_ = s.cmd.Process.Kill() // all die before the first is waited for
		}
	}
	for _, s := range e.servers {
		s.kill()
	}
}

// remove ends all processes and deletes their files.
func (e *ensemble) remove() {
	e.kill()
	if e.joined != nil {
		e.joined.remove()
	}
	for _, s := range e.servers {
		s.remove()
	}
	if e.wan != nil {
		if err := e.wan.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	e.release()
}

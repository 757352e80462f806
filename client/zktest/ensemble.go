package zktest

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/server"
)

// Ensemble is a group of servers that replicate, with a Proxy in front of them. Servers are
// named by their ids, from 1; the proxy to server i is At(i-1).
type Ensemble struct {
	*Proxy
	t     testing.TB
	links *links
	first int     // number of the first members
	nodes []*node // the first members, then the spares
}

// ensembleSettings make servers notice a lost link soon, and not elect a leader because the
// machine is busy.
var ensembleSettings = []string{"initLimit=600", "syncLimit=600", "zkd.heartbeat=20", "zkd.electionTimeout=2000"}

// StartEnsemble starts n voting servers, which end with the test, and waits until
// all of them serve.
func StartEnsemble(t testing.TB, n int, opts ...Option) *Ensemble {
	t.Helper()
	var set setup
	for _, opt := range opts {
		opt(&set)
	}
	all := n + set.spares
	e := &Ensemble{Proxy: NewProxy(t, make([]string, all)...), t: t, links: newLinks(), first: n}
	lines := slices.Clone(ensembleSettings)
	for id := range n {
		lines = append(lines, e.Line(id+1))
	}
	for i := range all {
		own := slices.Concat(lines, []string{fmt.Sprintf("zkd.myid=%d", i+1)})
		if i >= n {
			own = append(own, e.Line(i+1))
		}
		linked := func(o *server.Options) { o.ListenPeers, o.DialPeer = e.links.listen(i+1), e.links.dial(i+1) }
		e.nodes = append(e.nodes, newNode(t, fmt.Sprintf("server %d", i+1), e.doors[i], opts, linked, own...))
	}
	t.Cleanup(e.heal) // an isolated server can't hand over
	e.startFirst()
	if t.Failed() {
		t.FailNow()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := e.wait(ctx, n); err != nil {
		t.Fatalf("zktest: start ensemble: %v", err)
	}
	return e
}

// Line is the line of a server in the configuration, such as "server.4=...".
func (e *Ensemble) Line(id int) string {
	return fmt.Sprintf("server.%d=10.0.0.%d:2888:3888;%s", id, id, e.At(id-1).Addr())
}

// startFirst starts the first members concurrently.
func (e *Ensemble) startFirst() {
	var work sync.WaitGroup
	for _, n := range e.nodes[:e.first] {
		work.Go(n.start)
	}
	work.Wait()
}

// Leader returns the id of the leader, or 0 if there is none.
func (e *Ensemble) Leader() int {
	for i, mode := range e.modes() {
		if mode == "leader" {
			return i + 1
		}
	}
	return 0
}

// Followers returns the ids of the servers that follow the leader.
func (e *Ensemble) Followers() []int {
	var ids []int
	for i, mode := range e.modes() {
		if mode == "follower" {
			ids = append(ids, i+1)
		}
	}
	return ids
}

// WaitLeader waits until there is a leader and a quorum that follows it, and
// returns its id. The error is that of ctx.
func (e *Ensemble) WaitLeader(ctx context.Context) (int, error) { return e.wait(ctx, e.first/2+1) }

// wait waits until there is a leader with that many servers, itself included, and until each
// of them knows that it counts: before that, a new ensemble could not elect another leader.
func (e *Ensemble) wait(ctx context.Context, servers int) (leader int, err error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		modes := e.modes()
		serve := 0
		leader = 0
		for i, mode := range modes {
			switch mode {
			case "leader":
				serve, leader = serve+1, i+1
			case "follower":
				serve++
			}
		}
		if leader != 0 && serve >= servers && e.counted(leader) >= servers-1 {
			return leader, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for a leader: %w; the servers are %q", context.Cause(ctx), modes)
		}
	}
}

// WaitAll waits until all servers that are not down serve. The error is that of
// ctx.
func (e *Ensemble) WaitAll(ctx context.Context) error {
	up := 0
	for _, mode := range e.modes() {
		if mode != down {
			up++
		}
	}
	_, err := e.wait(ctx, up)
	return err
}

// KillLeader kills the leader and returns its id. It waits for one if there is none. The
// other servers elect a new one.
func (e *Ensemble) KillLeader() int {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id, err := e.WaitLeader(ctx)
	if err != nil {
		e.t.Errorf("zktest: kill leader: %v", err)
		return 0
	}
	e.Kill(id)
	return id
}

// Kill ends a server like kill -9: its connections to clients and to other servers break at
// once, and Restart finds what it had written by then. It does nothing if the server is down.
func (e *Ensemble) Kill(id int) {
	e.t.Helper()
	e.links.sever(id)
	e.nodes[id-1].kill()
}

// Stop stops a server in order, like an operator: a leader hands over first. It does nothing
// if the server is down.
func (e *Ensemble) Stop(id int) { e.t.Helper(); e.nodes[id-1].stop() }

// Restart starts a server again on its data, at the same address. If it is up, Restart stops
// it first.
func (e *Ensemble) Restart(id int) {
	e.t.Helper()
	e.nodes[id-1].stop()
	e.links.restore(id)
	e.nodes[id-1].start()
}

// modes returns the mode that each server reports: "leader", "follower", or something else if
// it does not serve.
func (e *Ensemble) modes() []string {
	modes := make([]string, len(e.nodes))
	for i := range modes {
		modes[i] = mode(e.target(i))
	}
	return modes
}

// target is the address of the server itself, empty if it is down.
func (e *Ensemble) target(i int) string {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	return e.doors[i].target
}

// down is the mode of a server that was stopped or killed.
const down = "down"

// mode asks a server with the four-letter word srvr.
func mode(server string) string {
	if server == "" {
		return down
	}
	text, err := word(server, "srvr")
	if err != nil {
		return err.Error()
	}
	_, rest, ok := strings.Cut(text, "Mode: ")
	if !ok {
		return "not serving"
	}
	mode, _, _ := strings.Cut(rest, "\n")
	return mode
}

// counted returns how many followers the leader counts. If the test's configuration forbids
// the question, it returns the largest possible number.
func (e *Ensemble) counted(leader int) int {
	text, _ := word(e.target(leader-1), "mntr") // no answer counts as none
	if strings.Contains(text, "whitelist") {
		return len(e.nodes)
	}
	_, rest, _ := strings.Cut(text, "\nzk_synced_followers\t")
	number, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(number) // so does an answer without a number
	return n
}

// word asks a server with a four-letter word.
func word(server, word string) (string, error) {
	nc, err := net.DialTimeout("tcp", server, time.Second)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Second))
	io.WriteString(nc, word)
	text, err := io.ReadAll(nc)
	return string(text), err
}

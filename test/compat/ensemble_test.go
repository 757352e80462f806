//go:build compat

package compat

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/freeport"
)

// ensembleSize is the number of servers of each ensemble.
const ensembleSize = 3

// ensembleLines make elections and expiry quick, and leave room for the time-outs
// that clients ask for, longTimeout among them.
var ensembleLines = []string{"tickTime=500", "initLimit=20", "syncLimit=10", "maxSessionTimeout=600000"}

// ensemble is three servers of one kind. Server i has the id i+1.
type ensemble struct {
	kind    kind
	servers []*server
}

// startEnsemble runs a fresh ensemble and waits until one leads and two follow.
// It is killed when the test ends.
func startEnsemble(t testing.TB, k kind, cfg config) *ensemble {
	t.Helper()
	needServer(t, k)
	e := tryToStartEnsemble(t, k, cfg)
	if e == nil {
		t.FailNow()
	}
	return e
}

// tryToStartEnsemble is startEnsemble for any goroutine: a failure is marked, and
// gives nil.
func tryToStartEnsemble(t testing.TB, k kind, cfg config) *ensemble {
	t.Helper()
	e := &ensemble{kind: k}
	ports := freeport.For(t, 3*ensembleSize)
	cfg.lines = append(slices.Clone(ensembleLines), cfg.lines...)
	for i := range ensembleSize {
		cfg.lines = append(cfg.lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, ports[ensembleSize+2*i], ports[ensembleSize+2*i+1]))
	}
	for i := range ensembleSize {
		s, err := prepare(t, k, i+1, ports[i], cfg)
		if err == nil {
			err = s.launch()
		}
		if err != nil {
			t.Errorf("start server %d of %s: %v", i+1, k, err)
			return nil
		}
		e.servers = append(e.servers, s)
		t.Cleanup(s.kill)
	}
	t.Cleanup(func() {
		for i, s := range e.servers {
			if t.Failed() && !s.alive() {
				t.Logf("server %d of %s at %s does not answer; end of its log:\n%s", i+1, k, s.addr, tail(s.logFile(), 30))
			}
		}
	})
	if err := e.awaitHealthy(); err != nil {
		t.Errorf("start an ensemble of %s: %v; the log of server 1 ends:\n%s", k, err, tail(e.servers[0].logFile(), 30))
		return nil
	}
	return e
}

// prepare makes the files of one server of an ensemble.
func prepare(t testing.TB, k kind, id, port int, cfg config) (*server, error) {
	dir := serverDir(t)
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(data, "myid"), fmt.Appendf(nil, "%d\n", id), 0o644); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(zooCfg(k, dir, port, cfg)), 0o644); err != nil {
		return nil, err
	}
	return &server{kind: k, dir: dir, addr: fmt.Sprintf("127.0.0.1:%d", port), args: command(t, k, file, cfg)}, nil
}

// hosts is the connect string with all servers.
func (e *ensemble) hosts() string {
	var addrs []string
	for _, s := range e.servers {
		addrs = append(addrs, s.addr)
	}
	return strings.Join(addrs, ",")
}

// roles returns the leader and the followers, the one with the smaller id first;
// ok reports whether there are one and two.
func (e *ensemble) roles() (roles [3]*server, ok bool) {
	followers := roles[1:1]
	for _, s := range e.servers {
		switch s.mode() {
		case "leader":
			roles[leader] = s
		case "follower":
			followers = append(followers, s)
		}
	}
	return roles, roles[leader] != nil && len(followers) == ensembleSize-1
}

// awaitHealthy waits until one server leads and two follow.
func (e *ensemble) awaitHealthy() error {
	return e.servers[0].waitFor("in an ensemble with a leader and two followers", func() bool {
		_, ok := e.roles()
		return ok
	})
}

// heal starts the servers that have ended, and waits for all to have their
// places.
func (e *ensemble) heal() error {
	for _, s := range e.servers {
		select {
		case <-s.exited:
			if err := s.launch(); err != nil {
				return err
			}
		default:
		}
	}
	return e.awaitHealthy()
}

// The servers that a scenario speaks of, as they were when it began.
const (
	leader = iota
	follower
	otherFollower
)

var roleNames = [3]string{"leader", "follower", "other follower"}

func newEnsembleWorld(e *ensemble) *world {
	w := newWorld(e.servers[0])
	w.ens = e
	return w
}

// on makes a server the one that is connected to.
func (w *world) on(role int) *world {
	w.srv = w.roles[role]
	w.addr = w.srv.addr
	return w
}

// next makes the servers of an ensemble take connections by turns, and tells
// whether it is one.
func (w *world) next(i int) bool {
	if w.ens == nil {
		return false
	}
	w.on(i % ensembleSize)
	return true
}

// beginEnsemble starts a scenario: zxids count from here.
func (w *world) beginEnsemble() {
	if !w.healEnsemble() {
		return
	}
	w.base = w.probes[leader].lastZxid()
	w.sessions, w.conns, w.lines, w.resumptions, w.countsAll = map[int64]*session{}, nil, nil, nil, false
	w.on(leader)
	w.quiet = false
}

// healEnsemble makes the ensemble healthy, and the roles and probes new if it
// was not. It reports whether that went well.
func (w *world) healEnsemble() bool {
	w.closeProbes()
	err := w.ens.heal()
	roles, ok := w.ens.roles()
	if err != nil || !ok {
		w.lines = append(w.lines, fmt.Sprintf("the ensemble is not healthy: %v", err))
		return false
	}
	w.roles = roles
	conns := w.conns
	for i := range roles {
		w.probes[i] = w.on(i).connectFor("probe", longTimeout)
	}
	w.conns = conns
	w.on(leader)
	w.syncAll()
	return true
}

// closeProbes ends the probes' sessions.
func (w *world) closeProbes() {
	for i, p := range w.probes {
		if p != nil && !p.gone {
			p.send(closeSession())
			p.expectEnd()
		}
		w.probes[i] = nil
	}
}

// syncAll has each server apply what was committed before; a probe that is gone
// is left out.
func (w *world) syncAll() {
	defer func(quiet bool) { w.quiet = quiet }(w.quiet)
	w.quiet = true
	for _, p := range w.probes {
		if p != nil && !p.gone {
			p.send(byPath(opSync, "/"))
			p.drain()
		}
	}
}

// reprobe replaces the probes that are gone, on the servers that serve.
func (w *world) reprobe() {
	w.hushed(func() {
		srv, conns := w.srv, w.conns
		for i, s := range w.roles {
			if w.probes[i] != nil && !w.probes[i].gone {
				continue
			}
			if m := s.mode(); m == "leader" || m == "follower" {
				w.probes[i] = w.on(i).connectFor("probe", longTimeout)
			}
		}
		w.srv, w.addr, w.conns = srv, srv.addr, conns
	})
}

// startEnsembles starts an ensemble of Apache, of the given release, and one of the target.
func startEnsembles(t *testing.T, release kind, cfg config) (reference, subject *ensemble) {
	t.Helper()
	needReference(t, release)
	var wg sync.WaitGroup
	wg.Go(func() { reference = tryToStartEnsemble(t, release, cfg) })
	wg.Go(func() { subject = tryToStartEnsemble(t, target(t), cfg) })
	wg.Wait()
	if reference == nil || subject == nil {
		t.FailNow()
	}
	return reference, subject
}

// awaitMode waits until a server says that it is one of these.
func (w *world) awaitMode(role int, modes ...string) {
	deadline := time.Now().Add(startDeadline)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for time.Now().Before(deadline) {
		if slices.Contains(modes, w.roles[role].mode()) {
			return
		}
		<-poll.C
	}
	w.logf("%s: never %q", roleNames[role], modes)
}

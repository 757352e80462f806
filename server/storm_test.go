package server

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// stormClient sends arbitrary requests, on one connection after the other.
type stormClient struct {
	e   *testEnsemble
	rng *rand.Rand
	dir string
	c   *client
}

// connect opens a session, or resumes the previous one, with some timeout. It reports
// whether that succeeded.
func (s *stormClient) connect(t *testing.T) bool {
	srv := s.e.up(s.rng)
	if srv == nil {
		return false
	}
	nc, err := srv.net.dial("10.0.0.2", 256<<10)
	if err != nil {
		return false
	}
	r := jute.ConnectRequest{TimeoutMs: 4000 + 2000*int32(s.rng.IntN(5)), Password: make([]byte, 16), HasReadOnly: true}
	if s.c != nil {
		s.c.nc.Close()
		r.SessionID, r.Password = s.c.session, s.c.pass
	}
	s.c = &client{t: t, nc: nc, srv: srv, in: newFrames(nc)}
	nc.Write(frameOf(r.Append(nil))) // a failure shows when the response is read
	nc.SetReadDeadline(time.Now().Add(2 * time.Second))
	frame, err := s.c.frame()
	nc.SetReadDeadline(time.Time{})
	var resp jute.ConnectResponse
	if err == nil {
		d := jute.NewDecoder(frame)
		resp.Decode(&d)
	}
	if resp.SessionID == 0 {
		nc.Close()
		s.c = nil
		return false
	}
	s.c.session, s.c.pass, s.c.timeout = resp.SessionID, resp.Password, resp.TimeoutMs
	return true
}

// request returns a random request.
func (s *stormClient) request() (jute.OpCode, record) {
	node := fmt.Sprint(s.dir, "/", s.rng.IntN(4))
	switch s.rng.IntN(12) {
	case 0, 1, 2:
		return jute.OpSetData, set(s.dir, strings.Repeat("x", s.rng.IntN(20_000)))
	case 3:
		return jute.OpCreate, create(node, "", jute.ModeEphemeral)
	case 4:
		return jute.OpDelete, del(node)
	case 5:
		return jute.OpSync, &jute.SyncRequest{Path: "/"}
	case 6:
		return jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive}
	case 7:
		var m jute.MultiRequest
		for i := range 500 {
			m.Ops = append(m.Ops, jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprint(node, i), ACL: openACL, Mode: jute.ModeEphemeral})
		}
		return jute.OpMulti, &m
	case 8:
		return jute.OpExists, get(node, true)
	default:
		return jute.OpGetData, get(s.dir, s.rng.IntN(2) == 0)
	}
}

// run sends requests until stop is closed, and then closes the session, or lets it
// expire.
func (s *stormClient) run(t *testing.T, stop <-chan struct{}) {
	over := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	for !over() {
		if !s.connect(t) {
			time.Sleep(time.Duration(s.rng.IntN(200)) * time.Millisecond)
			continue
		}
		if s.rng.IntN(4) == 0 { // it reads nothing for a while
			s.flood(300)
			time.Sleep(time.Duration(s.rng.IntN(1000)) * time.Millisecond)
		}
		for range s.rng.IntN(10) {
			if n := s.flood(1 + s.rng.IntN(40)); !s.take(n) {
				break
			}
		}
	}
	if s.c != nil {
		if s.rng.IntN(2) == 0 {
			s.c.nc.Write(frameOf(requestFrame(1, jute.OpCloseSession, nil)))
			s.take(1)
		}
		s.c.nc.Close()
	}
}

// flood sends up to n requests, as many as the server accepts, and returns their number.
func (s *stormClient) flood(n int) (sent int) {
	s.c.nc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	defer s.c.nc.SetWriteDeadline(time.Time{})
	for range n {
		op, body := s.request()
		if _, err := s.c.nc.Write(frameOf(requestFrame(1, op, body))); err != nil {
			break
		}
		sent++
	}
	return sent
}

// take reads n replies, and the events before them, and reports whether they arrived.
func (s *stormClient) take(n int) bool {
	s.c.nc.SetReadDeadline(time.Now().Add(3 * time.Second))
	for n > 0 {
		r, err := s.c.next()
		if err != nil {
			return false
		}
		if r.Xid != jute.XidNotification {
			n--
		}
	}
	return true
}

// strike injects a fault into the ensemble.
func (e *testEnsemble) strike(rng *rand.Rand) {
	switch rng.IntN(5) {
	case 0:
		release := e.stallDisks()
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		release()
	case 1:
		id := 1 + rng.IntN(3)
		e.kill(id)
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		e.start(id)
	case 2:
		a, b := 1+rng.IntN(3), 1+rng.IntN(3)
		e.net.sever(a, b, true)
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		e.net.sever(a, b, false)
	case 3:
		a, b := 1+rng.IntN(3), 1+rng.IntN(3)
		release := e.net.hold(a, b)
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		release()
	case 4:
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
	}
}

// Clients flood the servers, stop reading, move and vanish, while disks and links stall
// and servers die: meanwhile no part exceeds its bound, and afterwards nothing is left.
// The limits are so small that they are reached.
func TestStormsLeaveNothingBehind(t *testing.T) {
	strikes := 5
	if testing.Short() {
		strikes = 3
	}
	for seed := range *storms {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { storm(t, seed, strikes) })
	}
}

var storms = flag.Uint64("storms", 2, "number of storms to run; every other one has local sessions")

func storm(t *testing.T, seed uint64, strikes int) {
	lines := []string{"globalOutstandingLimit=200", "maxSessionTimeout=12000"}
	if seed%2 == 1 {
		lines = append(lines, upgradable...)
	}
	inTunedBubble(t, 3, smallLimits, lines, func(t *testing.T, e *testEnsemble) {
		rng := rand.New(rand.NewPCG(seed, 0))
		keeper := e.servers[1].connect(t)
		const clients = 6
		var running sync.WaitGroup
		stop := make(chan struct{})
		for i := range clients {
			s := &stormClient{e: e, rng: rand.New(rand.NewPCG(seed, uint64(i+1))), dir: fmt.Sprint("/", i)}
			keeper.create(s.dir, "")
			running.Go(func() { s.run(t, stop) })
		}
		keeper.nc.Close()
		for range strikes {
			e.strike(rng)
			synctest.Wait()
			e.bounded()
		}
		close(stop)
		running.Wait()
		time.Sleep(20 * time.Second) // the remaining sessions expire
		e.idle()
		for id, s := range e.servers[1:] {
			if n := s.connections(); n != 0 {
				t.Errorf("server %d has %d connections", id+1, n)
			}
			if n := s.numSessions(); n != 0 {
				t.Errorf("server %d has %d sessions", id+1, n)
			}
			s.noErrors(t)
		}
	})
}

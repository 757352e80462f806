package server

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// resumeWith resumes the session at a server and asks for a timeout.
func (b *believer) resumeWith(t *testing.T, at int, timeoutMs int32) {
	t.Helper()
	b.nc.Close()
	b.timeout = timeoutMs
	b.move(t, at)
	if b.timeout != timeoutMs {
		t.Fatalf("asked for %d ms, got %d", timeoutMs, b.timeout)
	}
}

// Only the leader used to know the timeout that a client got when it resumed its session.
// After a change of the leader, or a restart of all servers, the session expired after
// its original timeout.
func TestARenegotiatedTimeoutOutlivesTheLeader(t *testing.T) {
	for name, lose := range map[string]func(e *testEnsemble){
		"leader killed": func(e *testEnsemble) {
			leader := e.leader()
			e.kill(leader)
			e.leader()
			e.start(leader)
		},
		"all restarted": func(e *testEnsemble) {
			for id := 1; id <= 3; id++ {
				e.kill(id)
			}
			for id := 1; id <= 3; id++ {
				e.start(id)
			}
		},
		"leadership handed over": func(e *testEnsemble) {
			leader := e.leader()
			e.stop(leader)
			e.start(leader)
		},
	} {
		for _, leads := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, resumed at the leader: %v", name, leads), func(t *testing.T) {
				inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
					b := e.believer(t, e.follower(), 4000)
					at := e.follower()
					if leads {
						at = e.leader()
					}
					b.resumeWith(t, at, 20_000)
					lose(e)
					e.settled()
					if b.mustExpire(20 * time.Second); b.t.Failed() {
						return
					}
					if time.Since(b.until) < 0 {
						t.Error("it expired early")
					}
				})
			})
		}
	}
}

// On every server the tree has the last timeout that was answered.
func TestEveryServerKnowsTheTimeout(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		b := e.believer(t, 1, 4000)
		for i, ms := range []int32{20_000, 6000, 6000, 12_000, 2000} {
			b.resumeWith(t, 1+i%3, ms)
			e.settled()
			for id, s := range e.servers[1:] {
				if got, ok := s.globalSession(b.session); !ok || got != ms {
					t.Errorf("resumption %d: server %d has a timeout of %d ms, want %d", i, id+1, got, ms)
				}
			}
		}
		// The last timeout is shorter than those before. The last touches on the old
		// connections may be reported later, and count with the timeouts that their
		// clients had.
		b.mustExpire(22 * time.Second)
	})
}

// Two overlapping resumptions: the one that is ordered last counts, and each client got
// the timeout in effect when it was answered.
func TestResumptionsThatCross(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader, at := e.leader(), e.follower()
		b := e.believer(t, leader, 4000)
		release := e.stallDisks()
		ask := func(at int, timeoutMs int32) *client {
			c := e.servers[at].dial(t, dialOptions{})
			c.sendFrame((&jute.ConnectRequest{TimeoutMs: timeoutMs, SessionID: b.session, Password: b.pass, HasReadOnly: true}).Append(nil))
			synctest.Wait()
			return c
		}
		first, second, third := ask(leader, 2000), ask(at, 20_000), ask(leader, 20_000)
		sent := time.Now()
		release()
		for _, c := range []*client{first, second} { // which may have been answered before the next one
			c.nc.SetReadDeadline(sent.Add(time.Second))
			_, err := c.frame()
			if err == nil {
				_, err = c.frame()
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("a connection from which the session moved: %v, want its end", err)
			}
		}
		if r := third.established(); r.SessionID != b.session || r.TimeoutMs != 20_000 {
			t.Errorf("got %+v", r)
		}
		b.client = third
		b.timeout = 20_000
		b.believe(sent)
		e.settled()
		b.mustExpire(3 * time.Second)
	})
}

// A full disk must not reject clients: their resumptions use the reserve, as deletes do.
func TestResumeOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connectFor(t, 4000)
		s.fillDisk(true)
		old := c.session
		if c = c.resume(t, 20_000); c.session != old || c.timeout != 20_000 {
			t.Errorf("resumed %v, got %v with a timeout of %d ms", old, c.session, c.timeout)
		}
		if r := c.call(jute.OpCreate, create("/a", "", 0)); r.Err != jute.ErrNotReadOnly {
			t.Errorf("create on a full disk: %v", r.Err)
		}
		s.fillDisk(false)
		c.create("/a", "")
		s.noErrors(t)
	})
}

// A session must not expire between its resumption with a longer timeout and the time
// when the leader applies that.
func TestAResumptionCountsFromItsOrder(t *testing.T) {
	inBubble(t, 3, []string{"minSessionTimeout=1000"}, func(t *testing.T, e *testEnsemble) {
		leader, at := e.leader(), e.follower()
		b := e.believer(t, at, 1000)
		well := make(chan struct{})
		e.disks[leader].SetHook(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpSync {
				<-well
			}
			return nil
		})
		b.resumeWith(t, at, 20_000) // the two others are a quorum; the leader applies it later
		for range 18 {
			time.Sleep(100 * time.Millisecond)
			if !b.lives() {
				t.Fatal("the session has expired")
			}
		}
		close(well)
		b.mustExpire(4 * time.Second)
	})
}

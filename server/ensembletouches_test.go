package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// believer is a client that computes until when its session lives: for its timeout,
// starting when it sent the last request that was answered.
type believer struct {
	*client
	e     *testEnsemble
	until time.Time
}

func (e *testEnsemble) believer(t *testing.T, at int, timeoutMs int32) *believer {
	t.Helper()
	b := &believer{e: e}
	sent := time.Now()
	b.client = e.servers[at].connectFor(t, timeoutMs)
	b.believe(sent)
	e.settled() // all servers know the session
	return b
}

func (b *believer) believe(sent time.Time) {
	b.until = sent.Add(time.Duration(b.timeout) * time.Millisecond)
}

// ask sends a ping and waits for its answer, at most for patience.
func (b *believer) ask(patience time.Duration) (answered bool) {
	b.t.Helper()
	sent := time.Now()
	if _, err := b.nc.Write(frameOf(requestFrame(jute.XidPing, jute.OpPing, nil))); err != nil {
		return false
	}
	b.nc.SetReadDeadline(sent.Add(patience))
	if _, err := b.next(); err != nil {
		return false
	}
	b.believe(sent)
	return true
}

// move resumes the session at another server.
func (b *believer) move(t *testing.T, to int) {
	t.Helper()
	b.nc.Close()
	sent := time.Now()
	b.client = b.client.resumeAt(t, b.e.servers[to])
	b.believe(sent)
}

// lives reports whether no server has closed the session.
func (b *believer) lives() bool {
	for _, s := range b.e.servers {
		if s == nil || !s.service.serving.Load() {
			continue
		}
		if _, ok := s.globalSession(b.session); !ok {
			return false
		}
	}
	return true
}

// mustExpire waits until the session has expired, which must happen neither earlier than
// the client believed, nor later than within after that.
func (b *believer) mustExpire(within time.Duration) {
	b.t.Helper()
	for b.lives() {
		if time.Since(b.until) > within {
			b.t.Fatalf("the session lives %v longer than its client believed", time.Since(b.until))
		}
		time.Sleep(time.Millisecond)
	}
	if early := time.Until(b.until); early > 0 {
		b.t.Errorf("the session expired %v before the time that its client was promised", early)
	}
}

// A server whose disk is stuck does not apply the end of a session. A client that was
// silent for too long must not get an answer that its session lives.
func TestASlowDiskDoesNotKeepADeadSessionAlive(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		at := e.follower()
		b := e.believer(t, at, 2000)
		well := make(chan struct{})
		e.disks[at].SetHook(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpSync {
				<-well
			}
			return nil
		})
		b.mustExpire(2 * time.Second)
		if _, ok := e.servers[at].globalSession(b.session); !ok {
			t.Fatal("the server has heard of the session's end")
		}
		b.sendFrame(requestFrame(jute.XidPing, jute.OpPing, nil))
		time.Sleep(time.Second)
		b.quiet("a server that can't know that the session has expired")
		close(well)
		b.eof("the connection of a session that has expired")
	})
}

// While a server's reports are delayed, its sessions do not expire, and its promises to
// their clients hold.
func TestReportsThatComeLate(t *testing.T) {
	for offset := range 10 {
		inBubble(t, 3, []string{"minSessionTimeout=900"}, func(t *testing.T, e *testEnsemble) {
			at, leader := e.follower(), e.leader()
			b := e.believer(t, at, 900)
			for until := time.Now().Add(time.Second + time.Duration(offset)*100*time.Millisecond); time.Now().Before(until); {
				b.ask(time.Second)
				time.Sleep(100 * time.Millisecond)
			}
			release := e.net.hold(at, leader)
			held := time.Now()
			for time.Since(held) < 600*time.Millisecond { // the guaranteed rest of its lease
				b.ask(time.Second)
				if !b.lives() {
					t.Fatalf("the session expired %v after the reports were held up", time.Since(held))
				}
				time.Sleep(50 * time.Millisecond)
			}
			release()
			for range 30 {
				if !b.ask(time.Second) {
					t.Fatal("a ping was not answered")
				}
				time.Sleep(100 * time.Millisecond)
			}
			b.mustExpire(3 * time.Second)
		})
	}
}

// A server from which the leader receives nothing stops answering in time.
func TestALinkThatWorksInOneDirection(t *testing.T) {
	for offset := range 10 {
		inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
			at, leader := e.follower(), e.leader()
			b := e.believer(t, at, 2000)
			time.Sleep(time.Duration(offset) * 100 * time.Millisecond)
			b.ask(time.Second)
			e.net.swallow(at, leader, true)
			for b.ask(time.Second) {
				time.Sleep(20 * time.Millisecond)
			}
			if !b.lives() {
				t.Error("the session had expired before the client could notice")
			}
			b.mustExpire(5 * time.Second)
		})
	}
}

// The client of a server that is cut off moves to another one, and keeps its session.
func TestMovingOnFromAServerThatIsCutOff(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		at, leader := e.follower(), e.leader()
		b := e.believer(t, at, 2000)
		e.net.swallow(at, leader, true)
		for b.ask(1300 * time.Millisecond) { // two thirds of the timeout, as client libraries do
			time.Sleep(600 * time.Millisecond)
		}
		b.move(t, leader)
		if !b.ask(time.Second) {
			t.Error("the session does not go on at the leader")
		}
		b.mustExpire(2 * time.Second)
	})
}

// Touches on a connection count even if it ends before they are reported.
func TestTouchesOfConnectionsThatEnd(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		b := e.believer(t, e.follower(), 2000)
		time.Sleep(1300 * time.Millisecond)
		if !b.ask(time.Second) {
			t.Fatal("a ping was not answered")
		}
		b.nc.Close()
		b.mustExpire(2 * time.Second)
	})
}

// Reports that were lost with their server are compensated.
func TestTouchesOfAServerThatDies(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		at := e.follower()
		b := e.believer(t, at, 2000)
		time.Sleep(1300 * time.Millisecond)
		if !b.ask(time.Second) {
			t.Fatal("a ping was not answered")
		}
		e.kill(at)
		e.start(at) // its new process knows nothing of the touches, and reports
		b.mustExpire(3 * time.Second)
	})
}

// A leader that was replaced and has not noticed promises nothing: its clients are
// answered while its lease lasts, and the next leader waits for the lease to end.
func TestPromisesOfALeaderThatIsReplaced(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		b := e.believer(t, leader, 2000)
		for id := 1; id <= 3; id++ {
			if id != leader {
				e.net.swallow(id, leader, true) // it receives nothing
			}
		}
		for b.ask(time.Second) {
			time.Sleep(20 * time.Millisecond)
		}
		b.mustExpire(6 * time.Second)
	})
}

// Requests that need the leader's confirmation are answered in their order too, including
// auth and watches.
func TestFencedRequestsAreAnsweredInOrder(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.follower()].connectFor(t, 6000)
		c.create("/a", "1")
		time.Sleep(5 * time.Second) // it is late
		c.sendFrame(requestFrame(jute.XidAuth, jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte("u:p")}))
		c.sendFrame(requestFrame(jute.XidPing, jute.OpPing, nil))
		c.sendFrame(requestFrame(1001, jute.OpGetData, get("/a", true)))
		c.sendFrame(requestFrame(1002, jute.OpSetData, set("/a", "2")))
		for _, want := range []int32{jute.XidAuth, jute.XidPing, 1001} {
			if r := c.must(); r.Xid != want || r.Err != 0 {
				t.Fatalf("reply to %d with code %v, want one to %d", r.Xid, r.Err, want)
			}
		}
		synctest.Wait()
	})
}

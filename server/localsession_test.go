package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/wal"
)

var upgradable = []string{"localSessionsEnabled=true", "localSessionsUpgradingEnabled=true"}

// fillDisk makes a server consider its disk full until its housekeeper checks again. In a
// bubble time stands still then, and it is not the time of a tick, at which a leader with
// a full disk hands over.
func (s *testServer) fillDisk(full bool) {
	if full {
		time.Sleep(time.Until(time.Now().Truncate(coreTick).Add(coreTick + 3*time.Millisecond)))
		synctest.Wait()
	}
	level := wal.SpaceOK
	if full {
		level = wal.SpaceStop
	}
	s.disk.level.Store(int32(level))
}

// expect sends requests in one piece and compares the codes of their replies.
func (c *client) expect(requests ...expected) {
	c.t.Helper()
	for i := range requests {
		requests[i].xid = c.send(requests[i].op, requests[i].body)
	}
	for i, want := range requests {
		if r := c.await(want.xid); r.Err != want.err {
			c.t.Errorf("request %d, %v: got %v, want %v", i, want.op, r.Err, want.err)
		}
	}
}

type expected struct {
	op   jute.OpCode
	body record
	err  jute.Code
	xid  int32
}

// A local session that is resumed on another connection leaves the first one, which is closed.
func TestALocalSessionHasOneConnection(t *testing.T) {
	inBubble(t, 3, []string{"localSessionsEnabled=true"}, func(t *testing.T, e *testEnsemble) {
		s := e.servers[e.leader()]
		first := s.connect(t)
		if len(s.clients.LocalBuckets()) == 0 {
			t.Fatalf("session %v is not local", first.session)
		}
		second := first.resume(t, first.timeout)
		if second.session != first.session {
			t.Fatalf("session %v is resumed as %v", first.session, second.session)
		}
		first.eof("the first connection")
		second.ping()
	})
}

// While the disk is full the session of an ephemeral can't be upgraded. The refusal used
// to replace another answer: replies were shifted by one, and afterwards the connection
// could not write, since its session was neither local nor global.
func TestARefusedUpgradeLeavesTheSessionLocal(t *testing.T) {
	inBubble(t, 3, upgradable, func(t *testing.T, e *testEnsemble) {
		for _, at := range []int{e.leader(), e.follower()} {
			leader, s := e.servers[e.leader()], e.servers[at]
			c := s.connect(t)
			dir := fmt.Sprint("/", at)
			c.create(dir, "")
			c.create(dir+"/a", "")
			leader.fillDisk(true)
			c.expect(
				expected{op: jute.OpCreate, body: create(dir+"/e", "", jute.ModeEphemeral), err: jute.ErrNotReadOnly},
				expected{op: jute.OpGetData, body: get(dir+"/a", false)},
				expected{op: jute.OpDelete, body: del(dir + "/a")},
				expected{op: jute.OpSync, body: &jute.SyncRequest{Path: "/"}},
				expected{op: jute.OpSetData, body: set(dir, "x"), err: jute.ErrNotReadOnly},
				expected{op: jute.OpCreate, body: create(dir+"/f", "", jute.ModeEphemeral), err: jute.ErrNotReadOnly},
				expected{op: jute.OpGetData, body: get(dir+"/a", false), err: jute.ErrNoNode},
			)
			leader.fillDisk(false)
			c.set(dir, "y")
			if _, global := s.globalSession(c.session); global {
				t.Error("the session became a global one")
			}
			// A second connection takes the local session over, as before.
			c = c.resume(t, 10_000)
			c.set(dir, "z")
			c.ephemeral(dir + "/e")
			c.set(dir, "global")
			if _, global := s.globalSession(c.session); !global {
				t.Error("the session was not upgraded when there was room")
			}
			c.ok(jute.OpCloseSession, nil)
			c.eof("a closed session")
			if d := s.connect(t); d.exists(dir + "/e") {
				t.Error("the ephemeral outlives its session")
			}
			s.noErrors(t)
		}
		for _, s := range e.servers[1:] {
			s.noErrors(t)
		}
	})
}

// A connection that resumes a session whose upgrade is not decided asks the leader, after that. It used to have
// the local session: its writes were done even if the client had the global session elsewhere by then, and had
// closed it (make sim SEED=5002594).
func TestResumptionDuringAnUpgrade(t *testing.T) {
	inBubble(t, 3, upgradable, func(t *testing.T, e *testEnsemble) {
		at := e.follower()
		s := e.servers[at]
		first := s.connectFor(t, 4000)
		release := e.net.hold(at, e.leader())
		first.send(jute.OpCreate, create("/e", "", jute.ModeEphemeral))
		synctest.Wait()
		first.nc.Close()
		second := s.dial(t, dialOptions{})
		second.sendFrame((&jute.ConnectRequest{TimeoutMs: 20_000, SessionID: first.session, Password: first.pass, HasReadOnly: true}).Append(nil))
		synctest.Wait()
		release()
		second.established()
		if ms, global := s.globalSession(first.session); second.session != first.session || !global || ms != 20_000 || second.timeout != 20_000 {
			t.Errorf("resumed %v as %v, global %v, with a timeout of %d ms, and %d are stored", first.session, second.session, global, second.timeout, ms)
		}
		second.ephemeral("/f")
		for _, s := range e.servers[1:] {
			s.noErrors(t)
		}
	})
}

// When the leader is lost while an upgrade is under way, the connection ends, and the
// outcome of the upgrade determines whether the session is known everywhere or only here.
func TestAnUpgradeUnderAChangeOfRole(t *testing.T) {
	for _, done := range []bool{false, true} {
		t.Run(fmt.Sprintf("done=%v", done), func(t *testing.T) {
			inBubble(t, 3, upgradable, func(t *testing.T, e *testEnsemble) {
				leader, at := e.leader(), e.follower()
				s := e.servers[at]
				c := s.connect(t)
				c.create("/a", "")
				from, to := at, leader // the leader does not receive the request
				if done {
					from, to = leader, at // the leader's answer is lost
				}
				release := e.net.hold(from, to)
				c.send(jute.OpCreate, create("/e", "", jute.ModeEphemeral))
				synctest.Wait()
				e.net.sever(leader, at, true)
				release()
				c.eof("the connection to a server that lost its leader")
				e.net.sever(leader, at, false)
				e.settled()
				c = c.resumeAt(t, s)
				if c.session == 0 {
					t.Fatal("the session is gone")
				}
				if _, global := s.globalSession(c.session); global != done {
					t.Errorf("the session is global: %v, want %v", global, done)
				}
				c.set("/a", "1")
				if !c.exists("/e") {
					c.ephemeral("/e")
				}
				for _, s := range e.servers[1:] {
					s.noErrors(t)
				}
			})
		})
	}
}

// Some numbers have a meaning only among servers. From a client they are ordinary
// numbers, also when its requests have to go to the leader.
func TestNumbersOfTheServersOwnFromAClient(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		for _, at := range []int{e.leader(), e.follower()} {
			s := e.servers[at]
			for _, op := range []jute.OpCode{jute.OpCreateSession, jute.OpDeleteContainer, 999} {
				c := s.connectFor(t, 6000)
				time.Sleep(5 * time.Second) // it is late: the leader has to answer
				c.sendFrame(requestFrame(7, op, nil))
				if r := c.must(); r.Xid != 7 || r.Err != jute.ErrUnimplemented {
					t.Errorf("%v: got %v, want Unimplemented", op, r)
				}
				c.eof("an unknown operation")
			}
			c := s.connect(t)
			path := fmt.Sprint("/", at)
			for _, xid := range []int32{replica.UpgradeXid, 0, jute.XidNotification} {
				c.sendFrame(requestFrame(xid, jute.OpSync, &jute.SyncRequest{Path: "/"}))
				if r := c.must(); r.Xid != xid || r.Err != 0 {
					t.Errorf("sync with xid %d: %v", xid, r)
				}
			}
			c.sendFrame(requestFrame(replica.UpgradeXid, jute.OpCreate, create(path, "", 0)))
			if r := c.must(); r.Xid != replica.UpgradeXid || r.Err != 0 {
				t.Errorf("create with xid %d: %v", replica.UpgradeXid, r)
			}
			c.set(path, "1")
			s.noErrors(t)
		}
	})
}

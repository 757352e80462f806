package sim

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
)

// following has servers with small histories of changes.
func following(cfg Config) Config {
	cfg.Clients, cfg.Feeds, cfg.FeedBytes = 0, 1, 2000
	return cfg
}

// follow connects a client to a server, and begins a feed of all changes after a zxid.
func (s *script) follow(n *node, after jute.Zxid) (*client, *clientFeed) {
	c := s.attach(n)
	c.feeds = s.newFeeds(0)
	f := c.feeds[0]
	f.request = jute.SubscribeRequest{Path: "/", Recursive: true, After: after, Credit: 100_000}
	s.request(c, request{kind: reqFeed, op: jute.OpSubscribe, body: f.request.Append(nil), feed: f})
	return c, f
}

// A feed that sends everything at once has to send several events for a transaction. Between two of them
// the client gets an answer, which must wait for the rest.
func TestReg_AnswerBetweenEvents(t *testing.T) {
	play(t, following(scriptConfig()), func(s *script) {
		leader := s.lead()
		n := s.others(leader)[0]
		c, f := s.follow(n, s.write(leader))
		s.everywhere()
		s.run(10)
		fed := n.conn(c.origin).fedOf(f.request.Feed)
		if !fed.level {
			t.Fatalf("the feed has not sent everything: %+v", fed)
		}
		before := fed.credit
		m := jute.MultiRequest{Ops: []jute.MultiOp{
			{Type: jute.OpCreate, Path: "/a", ACL: openACL}, {Type: jute.OpCreate, Path: "/b", ACL: openACL}, {Type: jute.OpCreate, Path: "/c", ACL: openACL},
		}}
		z := s.submitted(leader, evaluate.Request{Op: jute.OpMulti, Body: m.Append(nil)})
		s.wait("the first event", func() bool { return fed.credit < before })
		s.request(c, request{kind: reqPing})
		if f.after != z {
			t.Errorf("after the answer the feed is at %v, and not at %v", f.after, z)
		}
	})
}

// A client still reads nothing when a run ends. What its feed has sent counts once the client has read it.
func TestReg_FeedOfADeafClient(t *testing.T) {
	play(t, following(scriptConfig()), func(s *script) {
		leader := s.lead()
		c, f := s.follow(leader, s.write(leader))
		s.deafen(c)
		z := s.write(leader)
		s.everywhere()
		if s.run(10); f.after >= z {
			t.Fatalf("the client reads: its feed is at %v", f.after)
		}
		if s.checkFeedsSent(); f.after != z {
			t.Errorf("the feeds were checked when this one was at %v, and not at %v", f.after, z)
		}
	})
}

// The end of a session deletes more ephemerals than the history has room for, and is applied in parts. The client watches
// them, so its feed is looked at after each part: what is to come next has been forgotten, and the transaction is not over.
func TestReg_ForgottenWithinATransaction(t *testing.T) {
	play(t, following(scriptConfig()), forgottenWithinATransaction)
}

func forgottenWithinATransaction(s *script) {
	leader := s.lead()
	for i := range 10 { // the simulator applies half of them in parts
		id := jute.SessionID(1000 + i)
		s.submit(leader, replica.Write, evaluate.Request{
			Op: jute.OpCreateSession, Session: id, Origin: leader.newOrigin(), TimeoutMs: int32(s.cfg.SessionMs)})
		for j := range 40 {
			op := jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprintf("/e-%02d", j), ACL: openACL, Mode: jute.ModeEphemeral}
			s.submit(leader, replica.Write, evaluate.Request{Op: op.Type, Session: id, Body: op.Append(nil)})
		}
		s.takeOutputs(leader)
		s.wait("the ephemerals", func() bool { return leader.tree.Stats().Ephemerals == 40 })
		s.everywhere()
		c, f := s.follow(leader, leader.applied)
		for j := range 40 {
			s.request(c, request{kind: reqRead, op: jute.OpExists, path: fmt.Sprintf("/e-%02d", j), watch: true})
		}
		s.submitted(leader, evaluate.Request{Op: jute.OpCloseSession, Session: id})
		s.everywhere()
		s.wait("the client is told", func() bool { return f.state == feedGone })
	}
}

// A server that gets a snapshot lacks the changes before it, although it has earlier ones.
func TestFeedOverASnapshot(t *testing.T) { play(t, remembering(), feedOverASnapshot) }

// remembering has servers that keep all changes that they have had.
func remembering() Config {
	cfg := following(snapshotting())
	cfg.FeedBytes = 1 << 18
	return cfg
}

func feedOverASnapshot(s *script) {
	leader := s.lead()
	lag := s.others(leader)[0]
	from := s.write(leader)
	s.committed(from)
	s.everywhere()
	s.cut(lag)
	for writes := 0; leader.disk.durable.start <= from && writes < 300; writes++ {
		s.committed(s.write(leader))
	}
	s.join()
	s.everywhere()
	if s.stats.Installs == 0 {
		s.fail("script", "no snapshot was installed")
	}
	_, f := s.follow(lag, from)
	s.committed(s.write(leader))
	s.everywhere()
	s.run(10)
	if f.state != feedGone {
		s.fail("script", "the feed is not told that the server lacks changes: %+v", f)
	}
}

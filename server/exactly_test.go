package server

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// exactClient is a client of an exactly-once session, whose test controls numbers and frames.
type exactClient struct {
	*client
	number    int64 // of the last request
	confirmed int64
	ext       jute.ExtensionResponse
	replies   []reply // to writes of earlier connections
}

// connectExact opens or resumes an exactly-once session, with what old knows of it.
func (s *testServer) connectExact(t testing.TB, old *exactClient) *exactClient {
	t.Helper()
	c := &exactClient{client: s.dial(t, dialOptions{})}
	r := jute.ConnectRequest{TimeoutMs: 20_000, Password: make([]byte, 16), HasReadOnly: true}
	if old != nil {
		r.SessionID, r.Password, c.number, c.confirmed = old.session, old.pass, old.number, old.confirmed
	}
	ask := jute.ExtensionRequest{Features: jute.FeatureExactlyOnce, Confirmed: c.confirmed}
	c.sendFrame(ask.Append(r.Append(nil)))
	frame, err := c.frame()
	if err != nil {
		t.Fatalf("connect response: %v", err)
	}
	var resp jute.ConnectResponse
	d := jute.NewDecoder(frame)
	resp.Decode(&d)
	c.ext.Decode(&d)
	if d.Err() != nil {
		t.Fatalf("connect response % x: %v", frame, d.Err())
	}
	c.session, c.pass = resp.SessionID, resp.Password
	for range c.ext.Replies {
		c.replies = append(c.replies, c.must())
	}
	return c
}

// put sends a write with a number.
func (c *exactClient) put(number int64, path string) {
	c.t.Helper()
	b := requestFrame(int32(number), jute.OpSetData, set(path, fmt.Sprint(number)))
	c.sendFrame(jute.AppendInt64(b, c.confirmed))
	c.number = number
}

// done takes the reply to a write, and returns the version that it shows.
func (c *exactClient) done(number int64) (version int32) {
	c.t.Helper()
	return versionOf(c.t, c.await(int32(number)))
}

func versionOf(t testing.TB, r reply) int32 {
	t.Helper()
	var stat jute.Stat
	d := jute.NewDecoder(r.body)
	stat.Decode(&d)
	if r.Err != 0 || d.Err() != nil {
		t.Errorf("a set is answered by %v: %v", r, d.Err())
	}
	return stat.Version
}

// TestExactlyOnceSession resumes an exactly-once session on other servers. What its client has not
// confirmed is answered again by each of them, also after the leader has changed, and after a restart.
func TestExactlyOnceSession(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		c := e.servers[e.follower()].connectExact(t, nil)
		if c.ext != (jute.ExtensionResponse{Features: jute.FeatureExactlyOnce}) {
			t.Fatalf("a new session gets %+v", c.ext)
		}
		c.number = 1
		c.sendFrame(jute.AppendInt64(requestFrame(1, jute.OpCreate, create("/n", "", 0)), int64(0)))
		c.await(1)
		for n := int64(2); n <= 6; n++ {
			c.put(n, "/n")
		}
		for n := int64(2); n <= 6; n++ {
			if v := c.done(n); v != int32(n-1) {
				t.Errorf("version %d after %d sets", v, n-1)
			}
		}
		c.confirmed = 2 // as if the replies to the others were lost
		e.settled()
		check := func(what string, at *testServer) {
			t.Helper()
			next := at.connectExact(t, c)
			if next.ext.Done != 6 || len(next.replies) != 4 {
				t.Fatalf("%s: %+v, replies %v", what, next.ext, next.replies)
			}
			for i, r := range next.replies {
				if v := versionOf(t, r); r.Xid != int32(3+i) || v != int32(2+i) {
					t.Errorf("%s: reply %v shows version %d", what, r, v)
				}
			}
			c = next
		}
		check("another server", e.servers[leader])
		e.stop(leader)
		e.leader()
		check("after the leader", e.servers[e.leader()])
		e.start(leader)
		e.settled()
		check("a restarted server", e.servers[leader])
		for _, s := range e.servers[1:] {
			if s.loop.rules.historyNeeds() != datatree.FormatExact {
				t.Errorf("server %d needs format %d", s.id, s.loop.rules.historyNeeds())
			}
		}
		c.confirmed = 6
		c.put(7, "/n")
		if v := c.done(7); v != 6 {
			t.Errorf("version %d after six sets", v)
		}
		c.confirmed = 7
		if next := e.servers[e.follower()].connectExact(t, c); next.ext.Done != 7 || len(next.replies) > 0 {
			t.Errorf("all is confirmed: %+v, %v", next.ext, next.replies)
		}
	})
}

// TestExactlyOnceBounds checks that a server ends the connection of a client that does not follow the
// rules, and does nothing for it.
func TestExactlyOnceBounds(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		s := e.servers[e.follower()]
		plain := s.connect(t)
		plain.create("/n", "")
		cxid := int32(0)
		fresh := func() *exactClient {
			c := s.connectExact(t, nil)
			c.put(5, "/n")
			c.done(5)
			return c
		}
		for _, tt := range []struct {
			name  string
			frame []byte
		}{
			{"a number again", jute.AppendInt64(requestFrame(5, jute.OpSetData, set("/n", "bad")), int64(0))},
			{"an earlier number", jute.AppendInt64(requestFrame(4, jute.OpSetData, set("/n", "bad")), int64(0))},
			{"no xid", jute.AppendInt64(requestFrame(cxid, jute.OpSetData, set("/n", "bad")), int64(0))},
			{"an xid of the protocol", jute.AppendInt64(requestFrame(-2, jute.OpSetData, set("/n", "bad")), int64(0))},
			{"a negative number", jute.AppendInt64(requestFrame(6, jute.OpSetData, set("/n", "bad")), int64(-1))},
			{"a huge number", jute.AppendInt64(requestFrame(6, jute.OpSetData, set("/n", "bad")), int64(1<<62+1))},
			{"no number", requestFrame(6, jute.OpDelete, nil)},
		} {
			c := fresh()
			before, _ := plain.get("/n")
			c.sendFrame(tt.frame)
			c.eof(tt.name)
			e.settled()
			if after, _ := plain.get("/n"); after != before {
				t.Errorf("%s: the write was done: %q", tt.name, after)
			}
			if next := s.connectExact(t, c); next.ext.Done != 5 {
				t.Errorf("%s: then %+v", tt.name, next.ext)
			}
		}
		c := s.connectExact(t, nil)
		const most = 4096
		for n := range int64(most) {
			c.put(n+1, "/n")
			c.done(n + 1)
		}
		c.put(most+1, "/n")
		c.eof("more writes than outcomes are kept")
	})
}

// TestExactlyOnceForOthers checks that a client that does not ask for it writes in an exactly-once
// session as in any other.
func TestExactlyOnceForOthers(t *testing.T) {
	inBubble(t, 1, nil, func(t *testing.T, e *testEnsemble) {
		s := e.servers[1]
		c := s.connectExact(t, nil)
		other := c.client.resume(t, 20_000)
		other.create("/n", "x")
		c.eof("the connection that the session has left")
		if again := s.connectExact(t, c); again.ext.Features != jute.FeatureExactlyOnce || again.ext.Done != 0 {
			t.Errorf("resumed: %+v", again.ext)
		}
		stock := s.connect(t)
		if got := s.connectExact(t, &exactClient{client: stock}); got.ext != (jute.ExtensionResponse{}) {
			t.Errorf("a session that is not exactly-once is granted %+v", got.ext)
		}
	})
}

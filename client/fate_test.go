package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
)

// greetExactly takes the session, and grants exactly-once if the client asks. It returns what the client
// has confirmed.
func (c *fakeConn) greetExactly(done int64, replies ...outcome) (confirmed int64) {
	c.t.Helper()
	b, err := c.frame()
	if err != nil {
		c.t.Fatal(err)
	}
	d := jute.NewDecoder(b)
	var r jute.ConnectRequest
	var ask jute.ExtensionRequest
	r.Decode(&d)
	ask.Decode(&d)
	if d.Err() != nil || ask.Features&jute.FeatureExactlyOnce == 0 {
		c.t.Fatalf("the client asks for %v, %v", ask.Features, d.Err())
	}
	resp := jute.ConnectResponse{TimeoutMs: r.TimeoutMs, SessionID: fakeSession, Password: fakePassword, HasReadOnly: true}
	ext := jute.ExtensionResponse{Features: ask.Features, Done: done, Replies: int32(len(replies))}
	c.send(ext.Append(resp.Append(nil)))
	for _, o := range replies {
		c.send(append(o.ReplyHeader.Append(nil), o.body...))
	}
	return ask.Confirmed
}

// outcomeOf is the reply to a set.
func outcomeOf(number int64, version int32) outcome {
	stat := jute.Stat{Version: version}
	return outcome{ReplyHeader: jute.ReplyHeader{Xid: exact.Xid(number), Zxid: Zxid(number)}, body: stat.Append(nil)}
}

// expectNumber returns after a request with a number. A write ends with what the client has confirmed.
func (c *fakeConn) expectNumber(op jute.OpCode, number, confirmed int64) {
	c.t.Helper()
	r := c.expect(op)
	if r.xid != exact.Xid(number) {
		c.t.Errorf("%v has xid %d, want number %d", op, r.xid, number)
	}
	if !exact.Covers(op) {
		return
	}
	d := jute.NewDecoder(r.body[len(r.body)-8:])
	if got := d.Int64(); got != confirmed {
		c.t.Errorf("request %d confirms %d, want %d", number, got, confirmed)
	}
}

// lostCalls has two writes, each followed by a read, under way on a connection that is lost.
func lostCalls(t *testing.T, n *fakeNet) (a, b *Future[Stat], x, y *Future[Node], c *Client) {
	c = n.newClient("s1", Options{})
	s := n.accept()
	s.greetExactly(0)
	a = c.Async().Set("/a", []byte("1"), AnyVersion)
	x = c.Async().Get("/a")
	b = c.Async().Set("/a", []byte("2"), AnyVersion)
	y = c.Async().Get("/a")
	s.expectNumber(jute.OpSetData, 1, 0)
	s.expectNumber(jute.OpGetData, 2, 0)
	s.expectNumber(jute.OpSetData, 3, 0)
	s.expectNumber(jute.OpGetData, 4, 0)
	s.Close()
	return a, b, x, y, c
}

// TestFates checks what becomes of calls whose connection is lost, by what the next server says.
func TestFates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		a, b, x, y, c := lostCalls(t, n)
		s := n.accept()
		if confirmed := s.greetExactly(1, outcomeOf(1, 7)); confirmed != 0 {
			t.Errorf("the client has confirmed %d", confirmed)
		}
		s.expectNumber(jute.OpGetData, 2, 1)
		s.expectNumber(jute.OpSetData, 3, 1)
		s.expectNumber(jute.OpGetData, 4, 1)
		if stat, err := a.Wait(t.Context()); err != nil || stat.Version != 7 {
			t.Errorf("the first write: %+v, %v", stat, err)
		}
		s.Close()
		s = n.accept()
		if confirmed := s.greetExactly(3); confirmed != 1 {
			t.Errorf("the client has confirmed %d", confirmed)
		}
		s.expectNumber(jute.OpGetData, 4, 3)
		if _, err := b.Wait(t.Context()); !errors.Is(err, ErrThrottled) || IsAmbiguous(err) {
			t.Errorf("a write that was refused: %v", err)
		}
		if _, err := x.Wait(t.Context()); !errors.Is(err, ErrConnectionLoss) {
			t.Errorf("a read before a write that has an outcome: %v", err)
		}
		s.send(append((&jute.ReplyHeader{Xid: 4, Zxid: 9}).Append(nil), (&jute.GetDataResponse{Data: []byte("2")}).Append(nil)...))
		if node, err := y.Wait(t.Context()); err != nil || string(node.Data) != "2" {
			t.Errorf("the last read: %+v, %v", node, err)
		}
		go c.Set(t.Context(), "/a", nil, AnyVersion)
		s.expectNumber(jute.OpSetData, 5, 4)
	})
}

// TestFatesWithoutGrant checks that calls fail as in other sessions if the next server does not know
// what became of them, and that the client then makes no numbers.
func TestFatesWithoutGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		a, b, x, _, c := lostCalls(t, n)
		synctest.Wait() // the client has noticed
		late := c.Async().Set("/a", []byte("3"), AnyVersion)
		s := n.connect()
		for _, f := range []*Future[Stat]{a, b} {
			if _, err := f.Wait(t.Context()); !errors.Is(err, ErrConnectionLoss) || !IsAmbiguous(err) {
				t.Errorf("a write: %v", err)
			}
		}
		if _, err := x.Wait(t.Context()); !errors.Is(err, ErrConnectionLoss) || IsAmbiguous(err) {
			t.Errorf("a read: %v", err)
		}
		r := s.expect(jute.OpSetData)
		var set jute.SetDataRequest
		d := jute.NewDecoder(r.body)
		if set.Decode(&d); d.Err() != nil || len(d.Rest()) > 0 || string(set.Data) != "3" {
			t.Errorf("the write that had not been sent: %+v, rest %x", set, d.Rest())
		}
		s.Close()
		if _, err := late.Wait(t.Context()); !IsAmbiguous(err) {
			t.Errorf("the late write: %v", err)
		}
	})
}

// TestFatesOfAbandonedCalls checks that a call that was sent is ambiguous when its context or its
// session ends, and that one that was not is not.
func TestFatesOfAbandonedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		c := n.newClient("s1", Options{})
		s := n.accept()
		s.greetExactly(0)
		ctx, cancel := context.WithCancel(t.Context())
		sent, unsent := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := c.Set(ctx, "/sent", nil, AnyVersion)
			sent <- err
		}()
		s.expectNumber(jute.OpSetData, 1, 0)
		last := c.Async().Set("/last", nil, AnyVersion)
		s.expectNumber(jute.OpSetData, 2, 0)
		s.Close()
		synctest.Wait()
		go func() {
			_, err := c.Set(ctx, "/unsent", nil, AnyVersion)
			unsent <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-sent; !IsAmbiguous(err) || !errors.Is(err, context.Canceled) {
			t.Errorf("a write that was sent: %v", err)
		}
		if err := <-unsent; IsAmbiguous(err) || !errors.Is(err, context.Canceled) {
			t.Errorf("a write that was not sent: %v", err)
		}
		n.accept().expire()
		if _, err := last.Wait(t.Context()); !errors.Is(err, ErrSessionExpired) || !IsAmbiguous(err) {
			t.Errorf("a write of a session that has expired: %v", err)
		}
	})
}

// TestFullWindow checks that no more writes are under way than outcomes are kept.
func TestFullWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		c := n.newClient("s1", Options{})
		s := n.accept()
		s.greetExactly(0)
		synctest.Wait() // or the client sends a first batch only, and waits for an answer
		var writes []*Future[Stat]
		for range exact.MaxWrites + 10 {
			writes = append(writes, c.Async().Set("/a", nil, AnyVersion))
		}
		number := int64(0)
		for range exact.MaxWrites {
			number++
			s.expect(jute.OpSetData)
		}
		synctest.Wait()
		if more := s.pending(); len(more) > 0 {
			t.Errorf("%d more writes are under way than may be", len(more))
		}
		for i := range int64(exact.MaxWrites) {
			o := outcomeOf(i+1, 0)
			s.send(append(o.ReplyHeader.Append(nil), o.body...))
		}
		synctest.Wait()
		for range 10 {
			number++
			s.expect(jute.OpSetData)
			o := outcomeOf(number, 0)
			s.send(append(o.ReplyHeader.Append(nil), o.body...))
		}
		for i, f := range writes {
			if _, err := f.Wait(t.Context()); err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
		}
	})
}

package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/jute"
)

// Of what has gathered in an outage a new connection gets a part, and the rest with
// its first answer: so a connection that breaks at once leaves little in doubt, and
// what was not written waits for the next.
func TestFirstBatchOfAConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		n.connect().Close()
		waitState(t, c, StateSuspended)
		const calls, size = 100, 2000
		var sets []*Future[Stat]
		for range calls {
			sets = append(sets, c.Async().Set("/x", make([]byte, size), -1))
		}
		conn := n.connect()
		synctest.Wait()
		late := c.Async().Set("/late", nil, -1) // keeps its place behind the others
		synctest.Wait()
		ops := conn.pending()
		if len(ops) == 0 || len(ops) > firstBatch/size {
			t.Fatalf("%d requests before the first answer", len(ops))
		}
		conn.Close()
		waitState(t, c, StateSuspended)
		synctest.Wait() // the calls are told after that
		for i, f := range sets {
			_, done, err := f.Result()
			if sent := i < len(ops); done != sent || sent && !(errors.Is(err, ErrConnectionLoss) && IsAmbiguous(err)) {
				t.Fatalf("set %d of %d sent: %v, %v", i, len(ops), done, err)
			}
		}
		conn = n.connect()
		for range sets[len(ops):] {
			conn.reply(conn.expect(jute.OpSetData), 1, &Stat{})
		}
		r := conn.expect(jute.OpSetData)
		if r.path() != "/late" {
			t.Errorf("the last is of %s", r.path())
		}
		conn.reply(r, 1, &Stat{})
		for _, f := range append(sets[len(ops):], late) {
			if err := wait(f); err != nil {
				t.Fatal(err)
			}
		}
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		if c.s.waiting != 0 || c.s.calls.Len() != 0 {
			t.Errorf("%d bytes of %d calls wait still", c.s.waiting, c.s.calls.Len())
		}
	})
}

// What waits behind the first answer can be given up, as nothing of it was sent.
func TestGivingUpBehindTheFirstBatch(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		c.Async().Set("/x", make([]byte, firstBatch), -1)
		watch := c.Async().AddWatch("/x", WatchPersistent)
		conn := n.connect()
		first := conn.expect(jute.OpSetData)
		synctest.Wait()
		if ops := conn.pending(); len(ops) != 0 {
			t.Errorf("sent %v before the first answer", ops)
		}
		ctx, cancel := context.WithCancel(bg)
		set := goErr(func() error { _, err := c.Set(ctx, "/y", nil, -1); return err })
		synctest.Wait()
		get := c.Async().GetW("/x")
		cancel()
		if err := within(t, "set", set); IsAmbiguous(err) {
			t.Errorf("a set that was not sent: %v", err)
		}
		conn.reply(first, 1, &Stat{})
		conn.reply(conn.expect(jute.OpAddWatch), 1, &jute.ErrorResponse{})
		r := conn.expect(jute.OpGetData)
		if _, told := r.watched(); told {
			t.Error("a watch that is covered by the one before it is set")
		}
		conn.answerGet(r, 1, "")
		if err := wait(watch); err != nil {
			t.Error(err)
		}
		if err := wait(get); err != nil {
			t.Error(err)
		}
	})
}

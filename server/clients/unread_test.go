package clients

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line"
)

// TestThoseWhoHoldMostAreCutOff checks that clients which do not read are cut off when there is too much
// to read, whoever gets output then, and that watchers with a few events waiting are not.
func TestThoseWhoHoldMostAreCutOff(t *testing.T) {
	const (
		limit  = 50 << 20
		events = 100_000 // bytes of events of a watcher
	)
	for _, tt := range []struct {
		name            string
		silent          int
		address         func(i int) string // of those who do not read
		holds           int                // each of them
		watcher, leaves int                // bytes that watchers have; connections of the silent that are left
	}{
		{"five, beside watchers of the same address", 5, func(int) string { return "127.0.0.1" }, limit/5 - 1, 400_000, 4},
		{"many with little", 100, func(int) string { return "10.0.0.9" }, limit/100 - 1, 1 << 20, 92},
		{"many of one network", 100, func(i int) string { return fmt.Sprintf("fd00:1:2:3::%x", i) }, limit/100 - 1, 1 << 20, 92},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := newTestClients(t)
			s.writers.unread.limit = limit
			of := func(address string) *conn {
				c := newTestConn(t, s)
				c.identity.credentials.Store(auth.NewCredentials(jute.ID{Scheme: "ip", ID: address}))
				return c
			}
			fill := func(c *conn, bytes_ int) {
				for frame := bytes.Repeat([]byte{1}, events); bytes_ > 0; bytes_ -= len(frame) {
					if !c.send(frame[:min(bytes_, len(frame))]) {
						t.Fatal("a connection is over its own limit")
					}
					s.running.Wait()
				}
			}
			var silent, watchers []*conn
			for i := range tt.silent {
				silent = append(silent, of(tt.address(i)))
				fill(silent[i], tt.holds)
			}
			for range 4 {
				watchers = append(watchers, of("127.0.0.1"))
			}
			for range tt.watcher / events {
				for _, w := range watchers {
					fill(w, events)
				}
			}
			for i, w := range watchers {
				if w.line.isOver() {
					t.Errorf("watcher %d is cut off", i)
				}
			}
			left := 0
			for _, c := range silent {
				if !c.line.isOver() {
					left++
				}
			}
			if left != tt.leaves {
				t.Errorf("%d of those who do not read are left, want %d", left, tt.leaves)
			}
			if n := int(s.metrics.UnreadClosed.Load()); n != tt.silent-tt.leaves {
				t.Errorf("the metric says that %d were closed", n)
			}
			held := int64(0)
			for _, c := range append(silent, watchers...) {
				c.line.Lock()
				if c.line.Outbox.Unsent() != nil {
					held += int64(c.line.Outbox.Unsent().Counted)
				}
				c.line.Unlock()
			}
			if got := s.writers.unread.bytes(); got != held || got > limit {
				t.Errorf("%d bytes are counted, and the buffers have %d; the limit is %d", got, held, limit)
			}
		})
	}
}

// TestUnreadIsCountedUntilItIsWritten checks that what was taken to be written counts, that it no longer
// does afterwards, and that a connection which was cut off counts no more, whatever it still does.
func TestUnreadIsCountedUntilItIsWritten(t *testing.T) {
	s, _ := newTestClients(t)
	s.writers.unread.limit = 3 << 20
	c, other := newTestConn(t, s), newTestConn(t, s)
	want := func(bytes int64) {
		t.Helper()
		if got := s.writers.unread.bytes(); got != bytes {
			t.Errorf("%d bytes are counted, want %d", got, bytes)
		}
	}
	frame := make([]byte, 1<<20)
	c.send(frame)
	want(1 << 20)
	out := c.out.take()
	want(1 << 20)
	c.send(frame)
	want(2 << 20)
	c.out.release(out)
	want(1 << 20)
	out = c.out.next(nil)
	other.send(frame)
	c.send(frame)
	want(3 << 20)
	other.send(frame[:1]) // one too many: c gives way
	s.running.Wait()
	if !c.line.isOver() || other.line.isOver() {
		t.Errorf("the one with more is cut off: %v, the other: %v", c.line.isOver(), other.line.isOver())
	}
	want(1<<20 + 1)
	c.send(frame)
	c.out.release(out)
	want(1<<20 + 1)
}

// TestLongReplyIsNotTooMuch checks that a client may have one reply of any length beside its events, and
// not more of these than others.
func TestLongReplyIsNotTooMuch(t *testing.T) {
	s, _ := newTestClients(t)
	s.writers.unread.limit = 10 * line.UnreadLimit
	c := newTestConn(t, s)
	c.line.Lock()
	c.line.Outbox.Finish(append(c.line.Reply(1, 1, 0), make([]byte, 2*line.UnreadLimit)...))
	c.line.Unlock()
	for i := range 65 {
		if ok := c.send(make([]byte, 1<<20)); ok != (i < 65-1) {
			t.Fatalf("event %d of 1 MiB: %v", i, ok)
		}
	}
}

package client

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// What is issued after a connection has failed, but before the session knows, is not sent on it, so
// that nothing of it is in doubt.
func TestNothingIsSentOnAFailedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{}.withDefaults()
		s := newSession(nil, &o)
		ours, theirs := net.Pipe()
		defer theirs.Close()
		l := &link{s: s, nc: ours, open: true, timer: time.NewTimer(time.Hour), failed: make(chan struct{})}
		s.conn = l
		l.fail(io.EOF)
		s.mu.Lock()
		s.out, s.queued = []byte("request"), 1
		l.flushLocked()
		s.mu.Unlock()
		synctest.Wait()
		s.mu.Lock()
		if s.sent != 0 || len(s.out) == 0 {
			t.Error("it was taken to be sent")
		}
		s.mu.Unlock()
		l.close(io.EOF)
	})
}

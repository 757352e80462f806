package client

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
)

// What is issued after a connection has failed, but before the session knows, is not sent on it, so
// that nothing of it is in doubt.
func TestNothingIsSentOnAFailedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(nil, (&Options{}).withDefaults())
		ours, theirs := net.Pipe()
		defer theirs.Close()
		l := &link{s: s, nc: ours, wake: make(chan struct{}, 1), quit: make(chan struct{}), failed: make(chan struct{})}
		s.conn = l
		l.work.Go(l.writeLoop)
		l.fail(io.EOF)
		s.mu.Lock()
		s.out, s.queued = []byte("request"), 1
		s.mu.Unlock()
		l.wakeWriter()
		synctest.Wait()
		s.mu.Lock()
		if s.sent != 0 || len(s.out) == 0 {
			t.Error("it was taken to be sent")
		}
		s.mu.Unlock()
		l.close(io.EOF)
	})
}

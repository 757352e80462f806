package bench

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// FuzzStream gives the reader any bytes, in two pieces. It must not panic, and
// every error must be the end of the connection for a stated reason.
func FuzzStream(f *testing.F) {
	f.Add([]byte(noNode), 5)
	f.Add([]byte(pingReply+noNode+created), 30)
	f.Add([]byte("\xff\xff\xff\xff"), 2)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		h := hotPaths()["get"]
		h.fill(h.job.Load(), 3, 0)
		cut = min(max(cut, 0), len(b))
		in := newFrames(io.MultiReader(bytes.NewReader(b[:cut]), bytes.NewReader(b[cut:])), maxReply)
		for {
			if _, err := in.Fill(); err != nil {
				return
			}
			if err := h.handleAll(in); err != nil {
				if !errors.Is(err, ErrProtocol) {
					t.Fatalf("got %v, want an %v", err, ErrProtocol)
				}
				return
			}
		}
	})
}

// FuzzBodies gives any body to the check of each kind of reply.
func FuzzBodies(f *testing.F) {
	f.Add(make([]byte, statSize))
	f.Add(appendMultiEnd(nil))
	f.Add(jute.AppendString(jute.AppendInt32(nil, int32(1)), "0000000000"))
	f.Fuzz(func(t *testing.T, body []byte) {
		v := newValues(20, rand.New(rand.NewPCG(1, 1)))
		key := keyed{name: inDir("/a"), values: v, seen: make([]int32, 3)}
		for _, c := range []struct {
			s  source
			op jute.OpCode
		}{
			{&creates{name: inDir("/a"), values: v}, jute.OpCreate},
			{&churn{creates: creates{name: inDir("/a"), values: v}}, jute.OpDelete},
			{&key, jute.OpSetData}, {&key, jute.OpGetData}, {&key, jute.OpExists},
			{&batches{keyed: key, n: 2}, jute.OpMulti},
			{&children{path: "/a", n: 1}, jute.OpGetChildren},
			{&deletes{paths: []string{"/a", "/b"}, n: 2}, jute.OpMulti},
		} {
			_ = c.s.check(&pending{op: c.op}, 0, body) // it only must not panic
		}
	})
}

// FuzzConnectResponse gives any connect response to a new session.
func FuzzConnectResponse(f *testing.F) {
	f.Add([]byte(connectReply[4:]))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s session
		if err := s.established(b); err == nil && (s.id == 0 || s.timeout <= 0) {
			t.Errorf("session %s with timeout %v is established", s.id, s.timeout)
		}
	})
}

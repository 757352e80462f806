package shadow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// split is the Splitter's dumb twin: it has all bytes at once.
func split(p []byte) (frames [][]byte, err error) {
	for len(p) >= 4 {
		n := int64(int32(binary.BigEndian.Uint32(p)))
		if n < 0 || n > MaxFrame {
			return frames, ErrFrame
		}
		if int64(len(p)) < 4+n {
			break
		}
		frames = append(frames, p[4:4+n])
		p = p[4+n:]
	}
	return frames, nil
}

// FuzzSplitter cuts a stream into pieces: the frames are the same.
func FuzzSplitter(f *testing.F) {
	f.Add(jute.AppendBuffer(jute.AppendBuffer(nil, []byte("abc")), []byte{}), []byte{1, 3, 200})
	f.Add([]byte("ruok"), []byte{2})
	f.Add([]byte{0x16, 3, 1, 2, 0}, []byte{4})
	f.Add([]byte{0, 0, 0, 9, 1}, []byte{5})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		want, wantErr := split(stream)
		var s Splitter
		var got [][]byte
		var err error
		rest := stream
		for len(rest) > 0 && err == nil {
			n := len(rest)
			if len(cuts) > 0 {
				n = min(n, 1+int(cuts[0]))
				cuts = cuts[1:]
			}
			s.Write(bytes.Clone(rest[:n]))
			rest = rest[n:]
			for {
				frame, ok, failed := s.Next()
				if err = failed; !ok {
					break
				}
				got = append(got, frame)
			}
		}
		if !errors.Is(err, wantErr) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if len(got) != len(want) {
			t.Fatalf("%d frames, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("frame %d: %x, want %x", i, got[i], want[i])
			}
		}
	})
}

// FuzzEngine sends nonsense from all three sides: the Engine neither panics nor keeps anything
// of a connection that has ended.
func FuzzEngine(f *testing.F) {
	f.Add([]byte{0, 1, 2}, jute.AppendBuffer(nil, connectFrame(0)), jute.AppendBuffer(nil, connectedFrame(7)), []byte{})
	f.Fuzz(func(t *testing.T, steps, client, apache, zkd []byte) {
		e := New(DefaultConfig(0))
		e.Open(0, 1)
		feeds := [3][]byte{client, apache, zkd}
		for i, step := range steps {
			which, n := step%3, int(step/3)
			p := feeds[which]
			n = min(n, len(p))
			feeds[which] = p[n:]
			p = bytes.Clone(p[:n])
			switch which {
			case 0:
				e.FromClient(0, 1, p)
			case 1:
				e.FromApache(0, 1, p)
			default:
				e.FromZkd(0, 1, p)
			}
			if i%7 == 0 {
				e.Tick(0)
			}
		}
		e.FromClient(0, 1, feeds[0])
		e.FromApache(0, 1, feeds[1])
		e.FromZkd(0, 1, feeds[2])
		e.Closed(0, 1)
		e.ZkdLost(0, 1, false, "gone")
		e.Tick(time.Hour)
		if s := e.Summary(); s.Held != 0 || s.Waiting != 0 || len(e.conns)+e.all.Len()+e.asks.Len() != 0 {
			t.Fatalf("left: %+v, %d connections, %d and %d requests", s, len(e.conns), e.all.Len(), e.asks.Len())
		}
	})
}

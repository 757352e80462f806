package api

import (
	"bufio"
	"context"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// answering is a connection to a server that has one node, with 100 bytes.
func answering(context.Context, *Caller, bool) (Connection, error) {
	ours, theirs := net.Pipe()
	go func() {
		in := bufio.NewReader(theirs)
		if _, err := jute.ReadFrame(in, math.MaxInt32); err != nil {
			return
		}
		b, mark := jute.BeginFrame(nil)
		c := jute.ConnectResponse{TimeoutMs: 10000, SessionID: 1, Password: make([]byte, jute.PasswordLen)}
		_, _ = theirs.Write(jute.EndFrame(c.Append(b), mark))
		got := jute.GetDataResponse{Data: make([]byte, 100), Stat: jute.Stat{DataLength: 100}}
		for {
			frame, err := jute.ReadFrame(in, math.MaxInt32)
			if err != nil {
				return
			}
			var h jute.RequestHeader
			d := jute.NewAliasDecoder(frame)
			h.Decode(&d)
			b, mark = jute.BeginFrame(b[:0])
			r := jute.ReplyHeader{Xid: h.Xid, Zxid: 0x100000002}
			b = r.Append(b)
			if h.Type == jute.OpSetData {
				b = got.Stat.Append(b)
			} else {
				b = got.Append(b)
			}
			_, _ = theirs.Write(jute.EndFrame(b, mark))
		}
	}()
	return Connection{Conn: ours}, nil
}

type nowhere struct{ h http.Header }

func (n *nowhere) Header() http.Header       { return n.h }
func (*nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (*nowhere) WriteHeader(int)             {}

func BenchmarkRequest(b *testing.B) {
	h := Handler(Options{Connect: answering, MaxFrame: 1 << 20, Version: "1"})
	for _, method := range []string{"GET", "PUT"} {
		b.Run(method, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequestWithContext(context.Background(), method, "http://127.0.0.1:8080/v1/nodes/api", nil)
				h.ServeHTTP(&nowhere{http.Header{}}, r)
			}
		})
	}
	b.Run("nothing", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			httptest.NewRequestWithContext(context.Background(), "GET", "http://127.0.0.1:8080/v1/nodes/api", nil)
		}
	})
}

package shadow

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// BenchmarkEngine compares gets of 1 KiB from eight connections, of which each has 64 in a
// read.
func BenchmarkEngine(b *testing.B) {
	const conns, batch = 8, 64
	e := New(DefaultConfig(0))
	for id := range ConnID(conns) {
		e.Open(0, id)
		e.FromClient(0, id, jute.AppendBuffer(nil, connectFrame(0)))
		e.FromApache(0, id, jute.AppendBuffer(nil, connectedFrame(jute.SessionID(1+id))))
		e.FromZkd(0, id, jute.AppendBuffer(nil, connectedFrame(jute.SessionID(101+id))))
	}
	e.Actions()
	var requests, apache, zkd []byte
	body := append(jute.AppendBuffer(nil, make([]byte, 1024)), statBody(nil)...)
	for xid := range int32(batch) {
		requests = jute.AppendBuffer(requests, get(xid+1, "/zb/some-node-of-the-load"))
		apache = jute.AppendBuffer(apache, reply(xid+1, 50, 0, body))
		zkd = jute.AppendBuffer(zkd, reply(xid+1, 150, 0, body))
	}
	b.ReportAllocs()
	for b.Loop() {
		for id := range ConnID(conns) {
			e.FromClient(0, id, requests)
			e.FromApache(0, id, apache)
			e.FromZkd(0, id, zkd)
			e.Actions()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*conns*batch), "ns/request")
	if s := e.Summary(); s.Differences > 0 || s.Compared != b.N*conns*batch {
		b.Fatalf("%+v", s)
	}
}

// Package traceid computes the ids of the traces of requests.
//
// A client, its server and the leader all know the session and the xid of a request. The ids
// are functions of these, and whether a request is sampled is a function of its id. So they
// sample the same requests and agree on the ids of each other's spans, and no message has a
// byte for it.
package traceid

import (
	"encoding/binary"
	"math"
)

// Trace is the id of the trace of a request, as OpenTelemetry has it. It is never zero.
type Trace [16]byte

// Span is the id of a span within a trace. It is never zero.
type Span [8]byte

// Of returns the trace of the request with an xid in a session.
func Of(session int64, xid int32) (t Trace) {
	high, low := halves(session, xid)
	binary.BigEndian.PutUint64(t[:8], high)
	binary.BigEndian.PutUint64(t[8:], low)
	return t
}

// Client returns the id of the client's span.
func (t Trace) Client() Span { return t.span(0) }

// Server returns the id of the span of a server, by the server's id.
func (t Trace) Server(id uint8) Span { return t.span(1 + uint64(id)<<8) }

// Stage returns the id of the nth stage of a server's span, from 1.
func (t Trace) Stage(id, n uint8) Span { return t.span(1 + uint64(id)<<8 + uint64(n)<<16) }

func (t Trace) span(part uint64) (s Span) {
	id := mix(binary.BigEndian.Uint64(t[:8]) ^ mix(part+binary.BigEndian.Uint64(t[8:])))
	binary.BigEndian.PutUint64(s[:], max(id, 1))
	return s
}

// halves returns the two halves of a trace's id.
func halves(session int64, xid int32) (high, low uint64) {
	high = mix(uint64(session))
	low = mix(high + uint64(uint32(xid))*golden)
	return max(high, 1), low
}

// golden is 2^64 divided by the golden ratio, made odd. See mix.
const golden = 0x9e3779b97f4a7c15

// mix is a bijection in which each bit of the result depends on all bits of x: the generator
// SplitMix64 of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
func mix(x uint64) uint64 {
	x += golden
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Sampler chooses a part of the traces by their ids, as TraceIDRatioBased of OpenTelemetry's
// SDK does. What a sampler of a smaller ratio chooses, one of a larger ratio chooses too. The
// zero Sampler chooses none.
type Sampler uint64

// NewSampler returns the sampler of a ratio from 0 to 1.
func NewSampler(ratio float64) Sampler {
	return Sampler(math.Max(0, math.Min(ratio, 1)) * (1 << 63))
}

// Samples reports whether the trace of a request is sampled. Requests whose xid is not
// positive, such as pings, have none.
func (s Sampler) Samples(session int64, xid int32) bool {
	if s == 0 || xid <= 0 {
		return false
	}
	_, low := halves(session, xid)
	return low>>1 < uint64(s)
}

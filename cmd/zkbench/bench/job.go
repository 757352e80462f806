package bench

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/zkd-project/zkd/jute"
)

// job is a stream of requests on one connection. Its configuration does not
// change once it runs; the outcome belongs to the connection's reader until do
// has returned.
type job struct {
	src      source
	window   int
	count    int64           // requests to send; 0: until the deadline
	deadline int64           // clock time at which sending ends; 0: none
	stop     <-chan struct{} // closing it ends sending
	start    int64           // clock time when the first request is due
	interval int64           // ns between requests; 0: as fast as the window allows
	span     *span           // what is measured; nil: nothing

	outcome outcome
	done    chan struct{} // closed when all replies are in
}

// outcome is the result of a job.
type outcome struct {
	replies int64
	wrong   int64
	err     error // the first wrong reply
}

// over reports whether nothing more must be sent.
func (j *job) over(sent, now int64) bool {
	select {
	case <-j.stop:
		return true
	default:
	}
	return j.count > 0 && sent >= j.count || j.deadline > 0 && now >= j.deadline
}

// reply checks the reply to p. frame is its payload, with at least a header.
func (j *job) reply(p *pending, frame []byte, now int64) {
	code := jute.Code(binary.BigEndian.Uint32(frame[12:]))
	body := frame[replyHeader:]
	j.outcome.replies++
	err := j.src.check(p, code, body)
	if err == nil && code != 0 && len(body) != 0 {
		err = fmt.Errorf("%s: reply has error code %d and a body of %d bytes", p.op, code, len(body))
	}
	if err != nil {
		j.outcome.wrong++
		if j.outcome.err == nil {
			j.outcome.err = err
		}
		return
	}
	if j.span != nil {
		j.span.record(p.sent, now)
	}
}

// span measures the operations of a job.
type span struct {
	ops     int64
	last    int64 // clock time of the last reply
	latency *hdrhistogram.Histogram
}

// Latencies are kept in ns, exact to three digits, up to ten minutes.
const maxLatency = int64(600e9)

func newLatency() *hdrhistogram.Histogram { return hdrhistogram.New(100, maxLatency, 3) }

func newSpan() *span { return &span{latency: newLatency()} }

// record counts an operation that began at sent and ended now.
func (s *span) record(sent, now int64) {
	s.ops++
	s.last = max(s.last, now)
	// Can't fail: the value is within what the histogram tracks.
	_ = s.latency.RecordValue(min(max(now-sent, 0), maxLatency))
}

// add takes in the operations of o.
func (s *span) add(o *span) {
	s.ops += o.ops
	s.last = max(s.last, o.last)
	s.latency.Merge(o.latency)
}

// pacer spreads requests evenly over time.
type pacer struct {
	interval int64 // ns; 0: no pacing
	next     int64 // when the next request is due
	freed    int64 // when the sender could last begin to send
}

// due returns how many requests are due.
func (p *pacer) due(now int64) int64 {
	if p.interval == 0 {
		return math.MaxInt64
	}
	if now < p.next {
		return 0
	}
	return (now-p.next)/p.interval + 1
}

// take returns the time at which the latency of the next request starts. A
// request that the window or the socket held back starts when it was due, so
// that a stall of the server counts for all requests that it delayed
// (coordinated omission). One that is late because this process woke up late
// starts now.
func (p *pacer) take(now int64) int64 {
	if p.interval == 0 {
		return now
	}
	due := p.next
	p.next += p.interval
	if due <= p.freed {
		return due
	}
	return now
}

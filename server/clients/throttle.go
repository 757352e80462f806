package clients

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/monitor"
)

// throttler implements the back-pressure of globalOutstandingLimit: while more requests
// wait than the limit, a connection is not read that has its share of the limit waiting, or
// more. The subjects with waiting requests have parts of the limit by their weights, and the connections of
// a subject that have some have equal shares of its part. From twice the limit on, and
// beyond the limit in bytes, a share is one request. Each connection can always have one, so none
// is starved (semantics.md section 16), and no request is refused.
// request_throttle_max_requests is a second limit with the same effect.
type throttler struct {
	limit    atomic.Int64 // 0 means none
	maxBytes int64        // Limits.Requests
	waiting  atomic.Int64 // requests
	weights  atomic.Int64 // sum of those of the subjects that have them
	bytes    atomic.Int64 // of their bodies
	stalls   atomic.Int64 // times that a reader had to wait
	paused   atomic.Int64

	mu   sync.Mutex
	cond *sync.Cond

	crowdsMu sync.Mutex
	crowds   map[crowdKey]*crowd
}

// crowd has the connections of a subject.
type crowd struct {
	crowdKey
	connections int          // guarded by throttler.crowdsMu
	holders     atomic.Int64 // connections that have waiting requests
}

// crowdKey tells a crowd from others. If the weight of a subject changes, it has another crowd from then on.
type crowdKey struct {
	subject limits.Subject
	weight  int64
}

// newThrottler takes Limits.Requests.
func newThrottler(maxBytes int64) *throttler {
	t := &throttler{maxBytes: maxBytes, crowds: make(map[crowdKey]*crowd)}
	t.cond = sync.NewCond(&t.mu)
	return t
}

// setLimits sets the two limits of the configuration, of which 0 means no limit.
func (t *throttler) setLimits(outstanding, requests int) {
	if requests > 0 && (outstanding == 0 || requests < outstanding) {
		outstanding = requests
	}
	t.limit.Store(int64(outstanding))
	t.relax()
}

// join adds a connection to the crowd of a subject.
func (t *throttler) join(key crowdKey) *crowd {
	t.crowdsMu.Lock()
	defer t.crowdsMu.Unlock()
	c := t.crowds[key]
	if c == nil {
		c = &crowd{crowdKey: key}
		t.crowds[key] = c
	}
	c.connections++
	return c
}

// quit removes a connection without waiting requests from its crowd, which may be nil.
func (t *throttler) quit(c *crowd) {
	if c == nil {
		return
	}
	t.crowdsMu.Lock()
	defer t.crowdsMu.Unlock()
	if c.connections--; c.connections == 0 {
		delete(t.crowds, c.crowdKey)
	}
}

// hold counts one more connection of a crowd that has waiting requests, or with -1 one less.
func (t *throttler) hold(c *crowd, n int64) {
	if now := c.holders.Add(n); now == max(n, 0) {
		t.weights.Add(n * c.weight)
	}
}

// enter counts a request that waits; first says that it is the only one of its connection.
func (t *throttler) enter(of *crowd, size int64, first bool) {
	t.waiting.Add(1)
	t.bytes.Add(size)
	if first {
		t.hold(of, 1)
	}
}

// enterLast counts the request that a line itself has put into its queue.
func (t *throttler) enterLast(of *crowd, queued []line.Request) {
	t.enter(of, queued[len(queued)-1].Size(), len(queued) == 1)
}

// leave counts a request that no longer waits; last says that it was the only one left of its connection.
func (t *throttler) leave(of *crowd, size int64, last bool) {
	t.waiting.Add(-1)
	t.bytes.Add(-size)
	if last {
		t.hold(of, -1)
	}
}

// over reports whether a connection is not to be read. own is how many requests of it wait.
func (t *throttler) over(of *crowd, own int) bool {
	limit, waiting := t.limit.Load(), t.waiting.Load()
	switch {
	case own == 0:
		return false
	case t.bytes.Load() > t.maxBytes:
		return true
	case limit == 0 || waiting <= limit:
		return false
	}
	part := limit * of.weight / max(1, t.weights.Load())
	return waiting > 2*limit || int64(own) >= part/max(1, of.holders.Load())
}

// wait blocks a connection's reader until the server has less work, the connection has fewer waiting requests, or it is
// over, for which wait returns errHangUp.
func (t *throttler) wait(of *crowd, l *guardedLine) error {
	t.stalls.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused.Add(1)
	defer t.paused.Add(-1)
	for t.over(of, l.Waiting.Len()) {
		if l.isOver() {
			return errHangUp
		}
		t.cond.Wait()
	}
	return nil
}

// relax makes paused readers check again. It is called by the applier after each batch,
// by a connection when it is torn down, and by a server that stops.
func (t *throttler) relax() {
	if t.paused.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cond.Broadcast()
}

// tokenBucket limits the rate of new sessions (connection_throttle_*).
type tokenBucket struct {
	size   atomic.Int64 // 0 means no limit
	mu     sync.Mutex
	every  time.Duration
	count  int
	tokens int
	last   time.Duration
}

// set sets the size of the bucket and how it is filled. A bucket of another size is full.
func (b *tokenBucket) set(size int, every time.Duration, count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size.Swap(int64(size)) != int64(size) {
		b.tokens = size
	}
	b.every, b.count = every, count
}

// take takes a token if there is one.
func (b *tokenBucket) take(now time.Duration) bool {
	size := int(b.size.Load())
	if size <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := int((now - b.last) / b.every); n > 0 {
		b.tokens = min(size, b.tokens+n*b.count)
		b.last += time.Duration(n) * b.every
	}
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}

var errTooMuchInFlight = errors.New("large requests in flight exceed largeRequestMaxBytes")

// largeRequests bounds the memory that large requests hold until they are answered
// (largeRequestThreshold, off by default).
type largeRequests struct {
	bytes   atomic.Int64
	metrics *monitor.Metrics
}

// admit counts a request if it is large. One that exceeds the bound ends its connection.
func (r *largeRequests) admit(req *line.Request, cfg *config.Config) error {
	size := int64(len(req.Body) + 8)
	if cfg.LargeRequestThreshold < 0 || size <= int64(cfg.LargeRequestThreshold) {
		return nil
	}
	if r.bytes.Add(size) > int64(cfg.LargeRequestMaxBytes) {
		r.bytes.Add(-size)
		r.metrics.LargeRejected.Add(1)
		return fmt.Errorf("%v of %d bytes: %w", req.Op, size, errTooMuchInFlight)
	}
	req.Large = size
	return nil
}

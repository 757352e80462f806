package clients

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkd-project/zkd/server/clients/line"
)

// refusals log why clients are turned away. There may be thousands of them in a second, when a
// server has no leader, so of each reason a line is logged once in a while.
type refusals struct {
	log *zap.Logger
	now func() time.Duration
	of  [len(refusalReasons)]struct {
		next    atomic.Int64 // when the next line may be logged
		skipped atomic.Int64 // since the last one
	}
}

var refusalReasons = [...]error{errNotServing, line.ErrClientAhead, errBadConnect, errSessionless, errTooManyOpened, errNoRoom, errNoDescriptor}

// refusalPace is the time between two lines with the same reason.
const refusalPace = 10 * time.Second

// note logs why a connection is closed.
func (s *refusals) note(level zapcore.Level, text string, err error, fields ...zap.Field) {
	fields = append(fields, zap.Error(err))
	for i, reason := range refusalReasons {
		if !errors.Is(err, reason) {
			continue
		}
		r, now := &s.of[i], int64(s.now())
		if next := r.next.Load(); next > now || !r.next.CompareAndSwap(next, now+int64(refusalPace)) {
			r.skipped.Add(1)
			level = zap.DebugLevel
			break
		}
		if n := r.skipped.Swap(0); n > 0 {
			fields = append(fields, zap.Int64("others_before", n))
		}
	}
	s.log.Log(level, text, fields...)
}

// complaints bounds the rate of log lines that clients can cause.
type complaints struct {
	log *zap.Logger
	now func() time.Duration

	mu       sync.Mutex
	bucket   tokenBucket
	unlogged int
}

// refused logs the end of a connection that did not get past its first bytes, and returns
// the error that ends it. A flood of such connections does not flood the log.
func (c *complaints) refused(remote net.Addr, err error) error {
	if more, ok := c.allow(); ok {
		c.log.Warn("closing a connection of a client", zap.Stringer("remote", remote), zap.Error(err), zap.Int("unlogged", more))
	}
	return errHangUp
}

// allow reports whether a line may be logged, and how many were not since the last one.
func (c *complaints) allow() (unlogged int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.bucket.take(c.now()) {
		c.unlogged++
		return 0, false
	}
	unlogged, c.unlogged = c.unlogged, 0
	return unlogged, true
}

package clients

import (
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkd-project/zkd/server/clients/line"
)

// refusals log why clients are turned away. There may be thousands of them in a second, when a
// server has no leader, so of each reason a line is logged once in a while.
type refusals [len(refusalReasons)]struct {
	next    atomic.Int64 // when the next line may be logged
	skipped atomic.Int64 // since the last one
}

var refusalReasons = [...]error{errNotServing, line.ErrClientAhead, errBadConnect, errSessionless, errTooManyOpened, errNoRoom}

// refusalPace is the time between two lines with the same reason.
const refusalPace = 10 * time.Second

// logEnd logs why a connection is closed.
func (s *Clients) logEnd(level zapcore.Level, text string, err error, fields ...zap.Field) {
	fields = append(fields, zap.Error(err))
	for i, reason := range refusalReasons {
		if !errors.Is(err, reason) {
			continue
		}
		r, now := &s.refusals[i], int64(s.now())
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

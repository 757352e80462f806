package edge

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// calm is a handler of what is logged about single clients. A server that dies is a line for each of thousands: of those with one message about one
// server, one in a while is passed on, and says how many there were before it.
type calm struct {
	slog.Handler
	seen *seen
}

// seen counts lines.
type seen struct {
	mu    sync.Mutex
	lines map[calmKey]*repeated
}

type calmKey struct{ message, server string }

type repeated struct {
	last   time.Time // when one was passed on
	others int       // since then
}

// calmFor is how long lines are held back after one.
const calmFor = 10 * time.Second

func newCalm(log *slog.Logger) *slog.Logger {
	return slog.New(&calm{log.Handler(), &seen{lines: map[calmKey]*repeated{}}})
}

// Handle passes the line on, unless one like it was lately.
func (c *calm) Handle(ctx context.Context, r slog.Record) error {
	if c.Enabled(ctx, slog.LevelDebug) {
		return c.Handler.Handle(ctx, r)
	}
	key := calmKey{message: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "server" {
			key.server = a.Value.String()
		}
		return true
	})
	others, passes := c.seen.add(key, r.Time)
	if !passes {
		return nil
	}
	if others > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("others_before", others))
	}
	return c.Handler.Handle(ctx, r)
}

// add counts a line. If it passes, others is how many did not since the last one.
func (s *seen) add(key calmKey, now time.Time) (others int, passes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[key]
	if l == nil {
		l = new(repeated)
		s.lines[key] = l
	}
	if now.Sub(l.last) < calmFor {
		l.others++
		return 0, false
	}
	others, l.others, l.last = l.others, 0, now
	return others, true
}

// WithAttrs returns a handler that adds attributes.
func (c *calm) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &calm{c.Handler.WithAttrs(attrs), c.seen}
}

// WithGroup returns a handler that begins a group.
func (c *calm) WithGroup(name string) slog.Handler { return &calm{c.Handler.WithGroup(name), c.seen} }

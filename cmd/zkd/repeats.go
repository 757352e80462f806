package main

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A message may be logged maxRepeats times in repeatsPeriod. Further lines with it are
// counted, and the first line of a later period says how many there were: a thousand clients
// that all fail must not fill the disk that the server needs.
const (
	maxRepeats    = 100
	repeatsPeriod = 10 * time.Second
)

// limitRepeats limits how often a message is logged. The audit log, debug messages and what
// ends the process are not limited.
func limitRepeats(c zapcore.Core) zapcore.Core {
	return &repeats{Core: c, counts: &repeatCounts{byMessage: make(map[string]*repeat)}}
}

type repeats struct {
	zapcore.Core
	counts *repeatCounts
}

type repeatCounts struct {
	mu        sync.Mutex
	byMessage map[string]*repeat
}

type repeat struct {
	since time.Time
	lines int
}

// maxMessages bounds the messages that are counted. There are fewer in the program, but some
// are composed.
const maxMessages = 1000

// count counts a line, and returns whether to log it, and how many were left out before it.
func (r *repeatCounts) count(message string, now time.Time) (log bool, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.byMessage[message]
	if m == nil {
		if len(r.byMessage) >= maxMessages {
			clear(r.byMessage)
		}
		m = &repeat{since: now}
		r.byMessage[message] = m
	}
	if now.Sub(m.since) >= repeatsPeriod {
		left = max(0, m.lines-maxRepeats)
		m.since, m.lines = now, 0
	}
	m.lines++
	return m.lines <= maxRepeats, left
}

// With is part of zapcore.Core.
func (r *repeats) With(fields []zapcore.Field) zapcore.Core {
	return &repeats{r.Core.With(fields), r.counts}
}

// Check is part of zapcore.Core.
func (r *repeats) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !r.Enabled(e.Level) || e.LoggerName == "audit" || e.Level < zapcore.InfoLevel || e.Level > zapcore.ErrorLevel {
		return r.Core.Check(e, to)
	}
	log, left := r.counts.count(e.Message, e.Time)
	if left > 0 {
		said := e
		said.Message = "lines left out"
		r.Core.Write(said, []zapcore.Field{zap.String("message", e.Message), zap.Int("lines", left)})
	}
	if !log {
		return to
	}
	return r.Core.Check(e, to)
}

package main

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

type fixedClock struct{ at time.Time }

func (c *fixedClock) Now() time.Time                       { return c.at }
func (c *fixedClock) NewTicker(time.Duration) *time.Ticker { return nil }

func TestRepeatedLinesAreLimited(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	clock := &fixedClock{time.Unix(1, 0)}
	log := zap.New(limitRepeats(core), zap.WithClock(clock))
	for i := range 1000 {
		log.With(zap.Int("client", i)).Info("closing connection")
		log.Named("audit").Info("entry")
	}
	log.Info("another message")
	if n := logs.FilterMessage("closing connection").Len(); n != maxRepeats {
		t.Errorf("%d lines, want %d", n, maxRepeats)
	}
	if n := logs.FilterMessage("entry").Len(); n != 1000 {
		t.Errorf("%d entries of the audit log, want all 1000", n)
	}
	if n := logs.FilterMessage("another message").Len(); n != 1 {
		t.Errorf("another message was logged %d times", n)
	}

	clock.at = clock.at.Add(repeatsPeriod)
	logs.TakeAll()
	log.Info("closing connection")
	log.Info("closing connection")
	got := logs.TakeAll()
	if len(got) != 3 || got[0].Message != "lines left out" {
		t.Fatalf("in the next period: %v, want how many lines were left out, and the two lines", got)
	}
	if f := got[0].ContextMap(); f["message"] != "closing connection" || f["lines"] != int64(900) {
		t.Errorf("left out: %v, want 900 of closing connection", f)
	}
}

// However many messages there are, few are counted.
func TestRepeatsAreBounded(t *testing.T) {
	r := &repeatCounts{byMessage: make(map[string]*repeat)}
	for i := range 10 * maxMessages {
		r.count(string(rune(i)), time.Time{})
	}
	if n := len(r.byMessage); n > maxMessages {
		t.Errorf("%d messages are counted", n)
	}
}

package audit

import (
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestAuditInTheLog checks the level of entries in the server's own log: an operation that
// failed is an error, whatever the names of znodes are.
func TestAuditInTheLog(t *testing.T) {
	for _, json := range []bool{false, true} {
		core, logs := observer.New(zap.InfoLevel)
		l := Open(Options{Sink: logSink{log: zap.New(core), json: json}, JSON: json, Bare: true})
		for _, e := range []Entry{
			{Operation: Create, Znode: "/result=failure"},
			{Operation: Create, Znode: "/a", Result: Failure},
			{Operation: ServerStop, Result: Invoked},
		} {
			l.Put(&e)
		}
		l.Close()
		var levels []zapcore.Level
		for _, e := range logs.All() {
			levels = append(levels, e.Level)
		}
		if want := []zapcore.Level{zap.InfoLevel, zap.ErrorLevel, zap.InfoLevel}; !slices.Equal(levels, want) {
			t.Errorf("levels %v, want %v", levels, want)
		}
	}
}

package zktest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// testLog writes to a test while that runs. It is a client.Logger, and the writer of a
// server's log.
type testLog struct {
	mu sync.Mutex
	t  testing.TB // nil when it has ended
}

// Log writes a line.
func (l *testLog) Log(_ context.Context, level slog.Level, msg string, args ...any) {
	var b strings.Builder
	fmt.Fprintf(&b, "client: %v: %s", level, msg)
	for i := 0; i+1 < len(args); i += 2 {
		fmt.Fprintf(&b, " %v=%v", args[i], args[i+1])
	}
	l.line(b.String())
}

func (l *testLog) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.t != nil {
		l.t.Log(text)
	}
}

// Write writes a line.
func (l *testLog) Write(p []byte) (int, error) {
	l.line(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// end drops later lines.
func (l *testLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t = nil
}

// serverLog returns the log of a named server, with warnings and errors only.
func serverLog(t testing.TB, name string) *zap.Logger {
	l := &testLog{t: t}
	t.Cleanup(l.end)
	form := zap.NewDevelopmentEncoderConfig()
	form.TimeKey, form.CallerKey, form.StacktraceKey = "", "", ""
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(form), zapcore.AddSync(l), zap.WarnLevel)).Named(name)
}

package zktest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
)

// Client returns a client of the proxy's servers that is connected. It is closed
// at the end of t, and logs to t. The functions may change its options.
func (p *Proxy) Client(t testing.TB, opts ...func(*client.Options)) *client.Client {
	t.Helper()
	log := &testLog{t: t}
	o := client.Options{Logger: log}
	for _, opt := range opts {
		opt(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := client.Connect(ctx, p.ConnectString(), o)
	if err != nil {
		t.Fatalf("zktest: client: %v", err)
	}
	t.Cleanup(func() {
		// At servers that don't answer the session is left to expire.
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		c.Close(ctx)
		log.end()
	})
	return c
}

// goodbye is how long a client waits at the end for servers that don't answer.
const goodbye = 2 * time.Second

// testLog is a client.Logger that writes to a test, as long as that runs.
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.t != nil {
		l.t.Log(b.String())
	}
}

// end drops what comes later.
func (l *testLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t = nil
}

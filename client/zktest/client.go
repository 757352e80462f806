package zktest

import (
	"context"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
)

// Plain is an option for clients whose writes are to fail when their connection is lost, as with
// Apache's servers: see client.Options.PlainSession.
func Plain(o *client.Options) { o.PlainSession = true }

// Client returns a connected client of the proxy's servers. It is closed at the end of t, and
// logs to t. Its session lasts for longer than by default, since a busy machine may be silent for
// seconds. The functions may change its options.
func (p *Proxy) Client(t testing.TB, opts ...func(*client.Options)) *client.Client {
	t.Helper()
	log := &testLog{t: t}
	o := client.Options{Logger: log, Timeout: 3 * client.DefaultTimeout}
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
		// If the servers do not answer, the session is left to expire.
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		c.Close(ctx)
		log.end()
	})
	return c
}

// goodbye is how long a client waits at the end of a test for servers that do not answer.
const goodbye = 2 * time.Second

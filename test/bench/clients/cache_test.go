package clients

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
)

// BenchmarkCache has a cache of 10,000 nodes of 100 bytes, kept up to date by a feed and by a watch, and
// none. It reports what filling it takes, and what 1,000 changes take with it. With none that is the
// price of the changes.
func BenchmarkCache(b *testing.B) {
	const nodes, changes = 10_000, 1_000
	addr, pid := startServer(b, b.TempDir())
	ctx := context.Background()
	writer := ours(b, addr)
	path := func(i int) string { return fmt.Sprintf("/bench/n%05d", i) }
	inFlight(b, nodes, func() func() error {
		var next atomic.Int64
		return func() error {
			_, err := writer.Create(ctx, path(int(next.Add(1)-1)), make([]byte, 100), client.CreateOptions{})
			return err
		}
	}())
	for _, by := range []string{"none", "feed", "watch"} {
		b.Run("by="+by, func(b *testing.B) {
			var fill, change usage
			for b.Loop() {
				var m meter
				m.begin(b, pid)
				c, err := client.Connect(ctx, addr, client.Options{Logger: client.NoLog, Dial: m.dial, Trace: client.Trace{Request: m.request}})
				if err != nil {
					b.Fatal(err)
				}
				var k *cache.Cache
				if by != "none" {
					k = open(b, c, by == "watch")
				}
				fill.add(m.end(b, pid))
				m.begin(b, pid)
				var next atomic.Int64
				inFlight(b, changes, func() error {
					_, err := writer.Set(ctx, path(int(next.Add(7)%nodes)), make([]byte, 100), client.AnyVersion)
					return err
				})
				if k != nil {
					if err := k.Sync(ctx); err != nil {
						b.Fatal(err)
					}
				}
				change.add(m.end(b, pid))
				c.Close(ctx)
			}
			fill.report(b, "fill")
			change.report(b, "changes")
		})
	}
}

// open fills a cache of /bench.
func open(b *testing.B, c *client.Client, watch bool) *cache.Cache {
	var o cache.Options
	if watch {
		o.Filter = func(string) bool { return true } // with which a cache uses no feed
	}
	k, err := cache.Open(context.Background(), c, "/bench", o)
	if err == nil {
		err = k.WaitReady(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	return k
}

// usage is what a client has cost.
type usage struct{ requests, sent, received, server, client float64 }

func (u *usage) add(v usage) {
	u.requests += v.requests
	u.sent += v.sent
	u.received += v.received
	u.server += v.server
	u.client += v.client
}

func (u *usage) report(b *testing.B, of string) {
	n := float64(b.N)
	b.ReportMetric(u.requests/n, of+"-requests")
	b.ReportMetric(u.sent/n/1e3, of+"-kB-sent")
	b.ReportMetric(u.received/n/1e3, of+"-kB-received")
	b.ReportMetric(u.server/n, of+"-server-ms")
	b.ReportMetric(u.client/n, of+"-client-ms")
}

// meter counts what a client sends and receives.
type meter struct {
	requests, sent, received atomic.Int64
	start                    usage
}

func (m *meter) now(b *testing.B, pid int) usage {
	return usage{
		requests: float64(m.requests.Load()), sent: float64(m.sent.Load()), received: float64(m.received.Load()),
		server: float64(cpu(b, pid).Microseconds()) / 1e3, client: float64(cpu(b, os.Getpid()).Microseconds()) / 1e3,
	}
}

func (m *meter) begin(b *testing.B, pid int) { m.start = m.now(b, pid) }

func (m *meter) end(b *testing.B, pid int) usage {
	u, s := m.now(b, pid), m.start
	return usage{u.requests - s.requests, u.sent - s.sent, u.received - s.received, u.server - s.server, u.client - s.client}
}

func (m *meter) request(context.Context, client.TracedRequest) { m.requests.Add(1) }

func (m *meter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	return &metered{c, m}, err
}

type metered struct {
	net.Conn
	m *meter
}

func (c *metered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.m.received.Add(int64(n))
	return n, err
}

func (c *metered) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.m.sent.Add(int64(n))
	return n, err
}

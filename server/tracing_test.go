package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/traceid"
	"github.com/zkd-project/zkd/jute"
)

// collected are the spans of a trace, with their children.
type collected struct {
	children map[trace.SpanID][]tracetest.SpanStub
}

// spansOf waits until the servers have sent their spans, and returns those of a request of c.
func spansOf(exporter *tracetest.InMemoryExporter, c *client, xid int32) collected {
	time.Sleep(2 * sdktrace.DefaultScheduleDelay * time.Millisecond)
	synctest.Wait()
	list := collected{make(map[trace.SpanID][]tracetest.SpanStub)}
	for _, s := range exporter.GetSpans() {
		if s.SpanContext.TraceID() == trace.TraceID(traceid.Of(int64(c.session), xid)) {
			list.children[s.Parent.SpanID()] = append(list.children[s.Parent.SpanID()], s)
		}
	}
	return list
}

// tree writes the spans below a parent, ordered by their names.
func (l collected) tree(b *strings.Builder, parent traceid.Span, indent string) {
	list := l.children[trace.SpanID(parent)]
	slices.SortFunc(list, func(x, y tracetest.SpanStub) int { return strings.Compare(x.Name, y.Name) })
	for _, s := range list {
		fmt.Fprintf(b, "%s%s", indent, s.Name)
		for _, a := range s.Attributes {
			if a.Key == "zk.path" || a.Key == "zk.result" {
				fmt.Fprintf(b, " %s", a.Value.AsString())
			}
		}
		if d := s.EndTime.Sub(s.StartTime); d > 0 {
			fmt.Fprintf(b, " %v", d)
		}
		b.WriteString("\n")
		l.tree(b, traceid.Span(s.SpanContext.SpanID()), indent+"  ")
	}
}

func (l collected) String() string {
	var b strings.Builder
	l.tree(&b, traceid.Span{}, "")
	return b.String()
}

// Each server sends its part of a sampled write, and the server of the client that of a read.
// Together they are a tree that shows which disk was slow.
func TestTraces(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tune := func(s *Server) { s.opts.TraceExporter = exporter }
	inTunedBubble(t, 3, tune, []string{"zkd.traces.ratio=1"}, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.follower()].connect(t)
		e.settled()
		slow := func(server int) { // at each fsync
			e.disks[server].SetHook(func(op crashfs.Op) error {
				if op.Kind == crashfs.OpSync {
					time.Sleep(50 * time.Millisecond)
				}
				return nil
			})
		}
		slow(e.leader())
		c.create("/a", "x")
		if got, want := spansOf(exporter, c, c.xid).String(), `
create /a
  apply
  disk
  follower /a
    apply
    disk
    quorum
  leader /a 50ms
    apply
    disk 50ms
    quorum
  queue
  quorum
`; got != want[1:] {
			t.Errorf("a write while the leader's disk is slow:\n%s", got)
		}
		c.get("/a")
		if got := spansOf(exporter, c, c.xid).String(); got != "getData /a\n" {
			t.Errorf("a read:\n%s", got)
		}
		c.call(jute.OpDelete, del("/none"))
		if got := spansOf(exporter, c, c.xid).String(); !strings.HasPrefix(got, "delete /none node does not exist\n") {
			t.Errorf("a write that is refused:\n%s", got)
		}
		c.ping()
		if n := len(spansOf(exporter, c, jute.XidPing).children); n > 0 {
			t.Errorf("%d spans of a ping", n)
		}
	})
}

// With clients that make spans, theirs are the parents.
func TestTracesOfClientsSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exporter := tracetest.NewInMemoryExporter()
		s := startWith(t, Options{
			Config: parseConfig(t, "/data", "zkd.traces.ratio=1", "zkd.traces.clientSpans=true"), FS: crashfs.New(1), TraceExporter: exporter,
		})
		c := s.connect(t)
		time.Sleep(time.Second) // 0 stands for a time that is not known
		c.create("/a", "")
		var b strings.Builder
		spansOf(exporter, c, c.xid).tree(&b, traceid.Of(int64(c.session), c.xid).Client(), "")
		if got, want := b.String(), "create /a\n  apply\n  disk\n  queue\n  quorum\n"; got != want {
			t.Errorf("below the client's span:\n%s", got)
		}
	})
}

// A collector that takes nothing makes neither requests nor the end of a server wait.
func TestDeafCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWith(t, Options{Config: parseConfig(t, "/data", "zkd.traces.ratio=1"), FS: crashfs.New(1), TraceExporter: deafCollector{}})
		c := s.connectFor(t, 20_000)
		began := time.Now()
		for range 5000 {
			c.set("/", "x")
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("5000 writes took %v", took)
		}
		if s.metrics.Traced.Load() != 5000 || s.metrics.TracesDropped.Load() == 0 {
			t.Errorf("%d requests are traced, %d of these are dropped", s.metrics.Traced.Load(), s.metrics.TracesDropped.Load())
		}
		check(t, s.Close())
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

type deafCollector struct{}

func (deafCollector) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}

func (deafCollector) Shutdown(context.Context) error { return nil }

package traces

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deaf is a collector that takes nothing.
type deaf struct{ exports, spans int }

func (d *deaf) ExportSpans(ctx context.Context, list []sdktrace.ReadOnlySpan) error {
	d.exports++
	d.spans += len(list)
	<-ctx.Done()
	return ctx.Err()
}

func (d *deaf) Shutdown(context.Context) error { return nil }

// A collector that does not answer costs a bounded number of requests, and Close a bounded time.
func TestDeafCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 0
		var sampled, dropped atomic.Int64
		collector := new(deaf)
		tracer := Start(Options{
			Exporter: collector, Ratio: 1, Server: 1, Now: func() time.Duration { return time.Minute }, Role: func() string { return "leader" },
			Lost: func(spans int, _ error) { lost += spans }, Sampled: &sampled, Dropped: &dropped,
		})
		const requests = 10_000
		for xid := range int32(requests) {
			if !tracer.Samples(1, xid+1) {
				t.Fatalf("xid %d is not sampled", xid+1)
			}
			tracer.Add(Request{Session: 1, Xid: xid + 1, Logged: 1, Durable: 2, Committed: 3, Applied: 4})
			synctest.Wait() // the processor takes what it has room for
		}
		const most = queued + 2*sdktrace.DefaultMaxQueueSize/5 // a request has five spans
		if kept := requests - dropped.Load(); sampled.Load() != requests || kept < queued || kept > most {
			t.Errorf("of %d requests %d wait, want from %d to %d", sampled.Load(), kept, queued, most)
		}
		began := time.Now()
		tracer.Close()
		if took := time.Since(began); took > goodbye {
			t.Errorf("Close took %v", took)
		}
		tracer.Close()
		tracer.Add(Request{})
		if collector.exports == 0 || lost != collector.spans {
			t.Errorf("%d exports with %d spans failed, of which %d were reported", collector.exports, collector.spans, lost)
		}
	})
}

func TestNil(t *testing.T) {
	var tracer *Tracer
	tracer.SetRatio(1)
	if tracer.Samples(1, 1) {
		t.Error("it samples")
	}
	tracer.Close()
}

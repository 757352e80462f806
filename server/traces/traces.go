package traces

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkd-project/zkd/internal/spans"
	"github.com/zkd-project/zkd/internal/traceid"
	"github.com/zkd-project/zkd/jute"
)

// queued is how many requests may wait to become spans.
const queued = 1024

// goodbye is how long Close waits for a collector.
const goodbye = 2 * time.Second

// Options configure a Tracer.
type Options struct {
	// Exporter takes the spans.
	Exporter sdktrace.SpanExporter
	// Ratio is the part of the requests that is sampled, from 0 to 1.
	Ratio float64
	// ClientSpans means that clients make spans, too: theirs are the parents.
	ClientSpans bool
	// Server is the id of this server, and Version what it runs. Role returns what it is at
	// the moment: leader, follower, observer or standalone.
	Server  uint8
	Version string
	Role    func() string
	// Now is the clock of the times in a Request.
	Now func() time.Duration
	// Lost is called when the collector did not take spans.
	Lost func(spans int, err error)
	// Sampled and Dropped count requests: all that are sampled, and those of them that found
	// the queue full.
	Sampled, Dropped *atomic.Int64
}

// Request is a sampled request, as one server has seen it.
type Request struct {
	Session jute.SessionID
	Xid     int32
	Other   uint8       // id of the client's server, if that is another one
	Op      jute.OpCode // unless Other is set
	Path    string
	Zxid    jute.Zxid // 0 for none
	Code    jute.Code

	// When it arrived, when its transaction was handed to the log, was durable, was known to
	// be committed, and when it was applied and answered. What does not apply is 0.
	Received, Logged, Durable, Committed, Applied time.Duration
}

// Tracer makes spans of requests. A nil Tracer samples none.
type Tracer struct {
	o        Options
	sampler  atomic.Uint64 // traceid.Sampler
	requests chan Request
	maker    *spans.Maker

	stopping chan struct{}
	stop     sync.Once
	running  sync.WaitGroup
	abandon  context.CancelFunc // ends exports
}

// Start returns a Tracer that runs until Close.
func Start(o Options) *Tracer {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Tracer{o: o, requests: make(chan Request, queued), stopping: make(chan struct{}), abandon: cancel}
	t.SetRatio(o.Ratio)
	t.maker = spans.NewMaker(
		// The processor blocks when it is full, so that what is dropped is counted in one place.
		sdktrace.WithBatcher(&guarded{o.Exporter, ctx, o.Lost}, sdktrace.WithBlocking()),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "zkd"),
			attribute.String("service.instance.id", fmt.Sprint(o.Server)),
			attribute.String("service.version", o.Version),
		)),
	)
	t.running.Go(t.run)
	return t
}

// SetRatio changes the part of the requests that is sampled.
func (t *Tracer) SetRatio(ratio float64) {
	if t != nil {
		t.sampler.Store(uint64(traceid.NewSampler(ratio)))
	}
}

// Samples reports whether a request is sampled.
func (t *Tracer) Samples(session jute.SessionID, xid int32) bool {
	return t != nil && traceid.Sampler(t.sampler.Load()).Samples(int64(session), xid)
}

// Add makes spans of a request that is sampled. It does not block: if too many wait already,
// the request is dropped and counted.
func (t *Tracer) Add(r Request) {
	t.o.Sampled.Add(1)
	select {
	case t.requests <- r:
	default:
		t.o.Dropped.Add(1)
	}
}

// Close sends what waits, unless that takes too long, and ends the Tracer's goroutines. Add may
// still be called, but has no effect.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	t.stop.Do(func() {
		close(t.stopping)
		late := time.AfterFunc(goodbye, t.abandon)
		defer late.Stop()
		t.running.Wait()
		if err := t.maker.Shutdown(context.Background()); err != nil {
			t.o.Lost(0, err)
		}
		t.abandon()
	})
}

func (t *Tracer) run() {
	for {
		select {
		case r := <-t.requests:
			t.make(&r)
		case <-t.stopping:
			for {
				select {
				case r := <-t.requests:
					t.make(&r)
				default:
					return
				}
			}
		}
	}
}

// make makes the spans of a request.
func (t *Tracer) make(r *Request) {
	id, at := traceid.Of(int64(r.Session), r.Xid), t.wall()
	role := t.o.Role()
	s := spans.Span{
		Trace: id, ID: id.Server(t.o.Server), Name: r.Op.String(), Kind: trace.SpanKindServer,
		Began: at(r.Received), Ended: at(r.Applied), Attributes: append(r.attributes(), attribute.String("zkd.role", role)),
	}
	switch {
	case r.Other != 0:
		s.Parent, s.Name, s.Kind, s.Began = id.Server(r.Other), role, trace.SpanKindInternal, at(r.Logged)
	case t.o.ClientSpans:
		s.Parent = id.Client()
	}
	t.maker.Add(&s)
	for i, stage := range r.stages() {
		if stage.from == 0 || stage.to < stage.from {
			continue
		}
		t.maker.Add(&spans.Span{
			Trace: id, ID: id.Stage(t.o.Server, uint8(i)+1), Parent: s.ID, Name: stage.name, Kind: trace.SpanKindInternal,
			Began: at(stage.from), Ended: at(stage.to),
		})
	}
}

// wall returns a function from the server's clock to the time of day.
func (t *Tracer) wall() func(time.Duration) time.Time {
	start := time.Now().Add(-t.o.Now())
	return func(d time.Duration) time.Time { return start.Add(d) }
}

func (r *Request) attributes() []attribute.KeyValue {
	list := []attribute.KeyValue{spans.Session.String(r.Session.String()), spans.Xid.Int(int(r.Xid))}
	if r.Zxid != 0 {
		list = append(list, spans.Zxid.String(r.Zxid.String()))
	}
	if r.Path != "" {
		list = append(list, spans.Path.String(r.Path))
	}
	if r.Code != 0 {
		list = append(list, attribute.String("zk.result", r.Code.Error()))
	}
	return list
}

// stage is a part of a server's work for a request.
type stage struct {
	name     string
	from, to time.Duration // from is 0 if there was none
}

// stages returns what a server did for a write, one after the other. What is durable here only
// after the commit was waited for by the others.
func (r *Request) stages() [4]stage {
	stored := r.Durable
	if stored == 0 || stored > r.Committed {
		stored = r.Logged
	}
	return [4]stage{
		{"queue", r.Received, r.Logged},
		{"disk", r.Logged, stored},
		{"quorum", stored, r.Committed},
		{"apply", r.Committed, r.Applied},
	}
}

// guarded is an exporter whose exports end with a context, and whose errors are reported. The SDK
// would print them.
type guarded struct {
	sdktrace.SpanExporter
	ctx  context.Context // ends when the Tracer stops waiting for the collector
	lost func(spans int, err error)
}

// ExportSpans implements sdktrace.SpanExporter.
func (g *guarded) ExportSpans(ctx context.Context, list []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	if err := g.SpanExporter.ExportSpans(ctx, list); err != nil {
		g.lost(len(list), err)
	}
	return nil
}

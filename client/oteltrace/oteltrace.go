// Package oteltrace makes OpenTelemetry spans of a client's requests.
//
// A Tracer makes a span of each sampled request, from its issue to its reply. Servers of zkd
// with zkd.traces.endpoint make theirs in the same trace: the client's server, the leader and
// the followers, each with the time at its disk. The trace is a function of the session and
// the xid of the request, which they all know, so no server is sent anything for it, and
// requests to servers of Apache work alike.
//
//	exporter, err := otlptracehttp.New(ctx)
//	…
//	tracer := oteltrace.New(0.01, sdktrace.WithBatcher(exporter))
//	defer tracer.Shutdown(ctx)
//	c, err := client.Connect(ctx, servers, client.Options{Trace: client.Trace{Request: tracer.Request}})
//
// The trace of a request is not that of the program's own span, whose id the servers cannot
// know. If the context of a call has such a span, and it is sampled, each of the two has a
// link to the other.
package oteltrace

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/spans"
	"github.com/zkd-project/zkd/internal/traceid"
)

// Tracer makes spans. It may be used by several clients.
type Tracer struct {
	sampler traceid.Sampler
	maker   *spans.Maker
}

// New returns a Tracer for a ratio of the requests from 0 to 1. Requests that are to be seen
// at the servers need the ratio that these have as zkd.traces.ratio. The options say where
// the spans go, and name the program: sdktrace.WithBatcher, sdktrace.WithResource. A sampler
// or generator of ids among them has no effect.
func New(ratio float64, options ...sdktrace.TracerProviderOption) *Tracer {
	return &Tracer{traceid.NewSampler(ratio), spans.NewMaker(options...)}
}

// Request makes a span of a request if it is sampled. It is for client.Trace.
func (t *Tracer) Request(ctx context.Context, r client.TracedRequest) {
	if !t.sampler.Samples(int64(r.Session), r.Xid) {
		return
	}
	id := traceid.Of(int64(r.Session), r.Xid)
	s := spans.Span{
		Trace: id, ID: id.Client(), Name: r.Op.String(), Kind: trace.SpanKindClient, Began: r.Began, Ended: r.Began.Add(r.Took),
		Attributes: []attribute.KeyValue{spans.Session.String(r.Session.String()), spans.Xid.Int(int(r.Xid))}, Err: r.Err,
	}
	if r.Zxid != 0 {
		s.Attributes = append(s.Attributes, spans.Zxid.String(r.Zxid.String()))
	}
	if r.Path != "" {
		s.Attributes = append(s.Attributes, spans.Path.String(r.Path))
	}
	if program := trace.SpanFromContext(ctx); program.SpanContext().IsSampled() {
		s.Links = []trace.Link{{SpanContext: program.SpanContext()}}
		program.AddLink(trace.Link{SpanContext: s.Context()})
	}
	t.maker.Add(&s)
}

// Shutdown exports the spans that wait, and ends the goroutines of the exporter. The Tracer
// makes no spans afterwards.
func (t *Tracer) Shutdown(ctx context.Context) error { return t.maker.Shutdown(ctx) }

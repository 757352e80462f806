// Package spans makes OpenTelemetry spans with given ids. Package traceid computes these ids,
// so that processes which have not spoken about a trace agree on it.
package spans

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkd-project/zkd/internal/traceid"
)

// The keys of attributes that spans of clients and of servers have.
const (
	Session = attribute.Key("zk.session")
	Xid     = attribute.Key("zk.xid")
	Zxid    = attribute.Key("zk.zxid")
	Path    = attribute.Key("zk.path")
)

// Span is a span that has ended.
type Span struct {
	Trace        traceid.Trace
	ID           traceid.Span
	Parent       traceid.Span // zero for none
	Name         string
	Kind         trace.SpanKind
	Began, Ended time.Time
	Attributes   []attribute.KeyValue
	Links        []trace.Link
	Err          error
}

// Context returns the names by which other spans refer to s.
func (s *Span) Context() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(s.Trace), SpanID: trace.SpanID(s.ID), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// Maker makes spans. It may be used from any goroutine.
type Maker struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// NewMaker returns a Maker with options that say where the spans go. It determines ids and
// sampling itself: each span added is exported.
func NewMaker(options ...sdktrace.TracerProviderOption) *Maker {
	p := sdktrace.NewTracerProvider(append(options, sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithIDGenerator(givenIDs{}))...)
	return &Maker{p, p.Tracer("github.com/zkd-project/zkd")}
}

// Add makes a span.
func (m *Maker) Add(s *Span) {
	ctx := context.WithValue(context.Background(), idsKey{}, s)
	if s.Parent != (traceid.Span{}) {
		parent := Span{Trace: s.Trace, ID: s.Parent}
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent.Context())
	}
	_, span := m.tracer.Start(ctx, s.Name, trace.WithSpanKind(s.Kind), trace.WithTimestamp(s.Began),
		trace.WithAttributes(s.Attributes...), trace.WithLinks(s.Links...))
	if s.Err != nil {
		span.SetStatus(codes.Error, s.Err.Error())
	}
	span.End(trace.WithTimestamp(s.Ended))
}

// Shutdown exports the spans that wait, and ends the provider's goroutines.
func (m *Maker) Shutdown(ctx context.Context) error { return m.provider.Shutdown(ctx) }

// idsKey is the context's key of the *Span whose ids a new span gets.
type idsKey struct{}

// givenIDs is an IDGenerator that takes the ids from the context.
type givenIDs struct{}

func (givenIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	s := ctx.Value(idsKey{}).(*Span)
	return trace.TraceID(s.Trace), trace.SpanID(s.ID)
}

func (givenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return trace.SpanID(ctx.Value(idsKey{}).(*Span).ID)
}

package spans

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkd-project/zkd/internal/traceid"
)

// A span has the ids and times that it was given.
func TestSpan(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	m := NewMaker(sdktrace.WithSyncer(exporter), sdktrace.WithSampler(sdktrace.NeverSample()))
	id, at := traceid.Of(1, 2), time.Unix(1000, 0)
	m.Add(&Span{Trace: id, ID: id.Client(), Name: "a", Kind: trace.SpanKindClient, Began: at, Ended: at.Add(time.Second), Err: errors.New("e")})
	m.Add(&Span{Trace: id, ID: id.Server(1), Parent: id.Client(), Name: "b", Began: at, Ended: at})
	list := exporter.GetSpans()
	if len(list) != 2 {
		t.Fatalf("%d spans", len(list))
	}
	a, b := list[0], list[1]
	if a.SpanContext.TraceID() != trace.TraceID(id) || a.SpanContext.SpanID() != trace.SpanID(id.Client()) || a.Parent.IsValid() ||
		a.EndTime.Sub(a.StartTime) != time.Second || a.Status.Code != codes.Error {
		t.Errorf("the first: %+v", a)
	}
	if b.SpanContext.TraceID() != trace.TraceID(id) || b.SpanContext.SpanID() != trace.SpanID(id.Server(1)) ||
		b.Parent.SpanID() != trace.SpanID(id.Client()) || b.Status.Code != codes.Unset {
		t.Errorf("the second: %+v", b)
	}
}

// A sampler decides as OpenTelemetry's for the same trace.
func TestSamplesLikeTheSDK(t *testing.T) {
	for _, ratio := range []float64{0.001, 0.1, 0.5} {
		ours, theirs := traceid.NewSampler(ratio), sdktrace.TraceIDRatioBased(ratio)
		for xid := int32(1); xid < 10_000; xid++ {
			id := traceid.Of(5, xid)
			result := theirs.ShouldSample(sdktrace.SamplingParameters{TraceID: trace.TraceID(id)})
			if got, want := ours.Samples(5, xid), result.Decision == sdktrace.RecordAndSample; got != want {
				t.Fatalf("ratio %v, %x (%d): %t, the SDK says %t", ratio, id, binary.BigEndian.Uint64(id[8:]), got, want)
			}
		}
	}
}

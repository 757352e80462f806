package oteltrace_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/oteltrace"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/traceid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collect is a collector of OpenTelemetry that keeps the spans.
type collect struct {
	mu   sync.Mutex
	news chan struct{} // closed and replaced when spans arrive
	// traces are the spans by trace and id.
	traces map[string]map[string]*tracepb.Span
}

func (c *collect) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var req collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &req)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "not traces", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range req.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				spans := c.traces[string(s.TraceId)]
				if spans == nil {
					spans = make(map[string]*tracepb.Span)
					c.traces[string(s.TraceId)] = spans
				}
				spans[string(s.SpanId)] = s
			}
		}
	}
	close(c.news)
	c.news = make(chan struct{})
}

// await waits for a trace that is complete by a function.
func (c *collect) await(t *testing.T, complete func(traceid.Trace, map[string]*tracepb.Span) bool) {
	t.Helper()
	for {
		c.mu.Lock()
		news := c.news
		for id, spans := range c.traces {
			if complete(traceid.Trace([]byte(id)), spans) {
				c.mu.Unlock()
				return
			}
		}
		c.mu.Unlock()
		select {
		case <-news:
		case <-t.Context().Done():
			t.Fatal("no such trace has arrived")
		}
	}
}

// The spans of the client, of its server and of the leader of one write arrive at a collector as
// one trace, although no message between them names it.
func TestTraceOfAWrite(t *testing.T) {
	t.Parallel()
	c := &collect{news: make(chan struct{}), traces: make(map[string]map[string]*tracepb.Span)}
	server := httptest.NewServer(c)
	defer server.Close()
	open := func() (sdktrace.SpanExporter, error) {
		return otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(server.URL+"/v1/traces"))
	}
	e := zktest.StartEnsemble(t, 3, zktest.Patient(), zktest.Traces(open), zktest.Config("zkd.traces.ratio=1", "zkd.traces.clientSpans=true"))
	exporter, err := open()
	if err != nil {
		t.Fatal(err)
	}
	tracer := oteltrace.New(1, sdktrace.WithBatcher(exporter))
	defer tracer.Shutdown(context.Background())
	leader := e.Leader()
	follower := e.Followers()[0]
	zk := e.At(follower-1).Client(t, func(o *client.Options) { o.Trace.Request = tracer.Request })
	if _, err := zk.Create(t.Context(), "/a", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.await(t, func(id traceid.Trace, spans map[string]*tracepb.Span) bool {
		of := func(id traceid.Span) *tracepb.Span { return spans[string(id[:])] }
		atClient, atServer, atLeader := of(id.Client()), of(id.Server(uint8(follower))), of(id.Server(uint8(leader)))
		if atClient == nil || atServer == nil || atLeader == nil || of(id.Stage(uint8(leader), 2)) == nil {
			return false
		}
		if len(atClient.ParentSpanId) != 0 || string(atServer.ParentSpanId) != string(atClient.SpanId) || string(atLeader.ParentSpanId) != string(atServer.SpanId) {
			t.Errorf("the parents are %x, %x and %x", atClient.ParentSpanId, atServer.ParentSpanId, atLeader.ParentSpanId)
		}
		if atClient.Name != "create" || atServer.Name != "create" || atLeader.Name != "leader" || of(id.Stage(uint8(leader), 2)).Name != "disk" {
			t.Errorf("the names are %s, %s and %s", atClient.Name, atServer.Name, atLeader.Name)
		}
		return true
	})
}

// The span of a program and that of a request have links to each other.
func TestLinks(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	program := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	tracer := oteltrace.New(1, sdktrace.WithSyncer(exporter))
	ctx, span := program.Tracer("program").Start(t.Context(), "work")
	began := time.Unix(1000, 0)
	tracer.Request(ctx, client.TracedRequest{Session: 7, Xid: 3, Path: "/a", Began: began, Took: time.Second, Err: errors.New("lost")})
	tracer.Request(ctx, client.TracedRequest{Session: 7, Err: errors.New("was never issued")})
	span.End()
	list := exporter.GetSpans()
	if len(list) != 2 {
		t.Fatalf("%d spans", len(list))
	}
	request, work := list[0], list[1]
	if request.SpanContext.TraceID() != trace.TraceID(traceid.Of(7, 3)) || request.EndTime.Sub(began) != time.Second || request.Status.Description != "lost" {
		t.Errorf("the request: %+v", request)
	}
	if len(request.Links) != 1 || request.Links[0].SpanContext.SpanID() != work.SpanContext.SpanID() ||
		len(work.Links) != 1 || work.Links[0].SpanContext.SpanID() != request.SpanContext.SpanID() {
		t.Errorf("links: %v and %v", request.Links, work.Links)
	}
}

// With a ratio of 0, and for requests that are not sampled, there is nothing.
func TestNotSampled(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	tracer := oteltrace.New(0, sdktrace.WithSyncer(exporter))
	for xid := range int32(1000) {
		tracer.Request(t.Context(), client.TracedRequest{Session: 7, Xid: xid})
	}
	if n := len(exporter.GetSpans()); n > 0 {
		t.Errorf("%d spans", n)
	}
}

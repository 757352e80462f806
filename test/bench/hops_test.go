package main

import (
	"bytes"
	"net/http/httptest"
	"slices"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/zkd-project/zkd/internal/traceid"
)

// TestHops has the spans of a write through server 2 arrive, and of one whose client's span is missing.
func TestHops(t *testing.T) {
	h := &hops{spans: make(map[traceid.Trace]map[traceid.Span]period)}
	id, lost := traceid.Of(7, 1), traceid.Of(7, 2)
	h.add(id, id.Client(), period{1_000_000, 1_500_000})
	span := func(id traceid.Trace, s traceid.Span, from, to uint64) *tracepb.Span {
		return &tracepb.Span{TraceId: id[:], SpanId: s[:], StartTimeUnixNano: from, EndTimeUnixNano: to}
	}
	body, err := proto.Marshal(&collector.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{
		span(id, id.Server(2), 1_020_000, 1_480_000),
		span(id, id.Stage(1, stageDisk), 1_060_000, 1_200_000),
		span(id, id.Stage(3, stageDisk), 1_090_000, 1_090_000), // its disk was not waited for
		span(lost, lost.Server(2), 1, 2),
	}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest("POST", "/v1/traces", bytes.NewReader(body)))
	if answer.Code != 200 {
		t.Fatal(answer.Code)
	}
	got := map[string][]float64{}
	for _, e := range hopsOf(2, 1, 3) {
		if list := h.offsets(e); len(list) > 0 {
			got[e.name] = list
		}
	}
	for name, want := range map[string]float64{
		"the client's server has read the request":            20,
		"the leader has proposed it, and gives it to its log": 60,
		"it is durable at the leader":                         200,
		"a follower has received the proposal":                90,
	} {
		if !slices.Equal(got[name], []float64{want}) {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("besides: %v", got)
	}
	answer = httptest.NewRecorder()
	if h.ServeHTTP(answer, httptest.NewRequest("POST", "/v1/traces", bytes.NewReader([]byte("no spans")))); answer.Code != 400 {
		t.Errorf("garbage: %d", answer.Code)
	}
}

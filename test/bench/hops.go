package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/internal/traceid"
)

const (
	// hopsRatio is the part of the writes that is traced, so few that it does not matter for the others.
	hopsRatio = 0.05
	// hopBytes is the size of the values, and of what is measured of the disk and of the loopback interface.
	hopBytes = 1 << 10
	bareRuns = 2000
)

// period is what a span says, in ns since the Unix epoch.
type period struct{ began, ended int64 }

// hops gathers the spans of lone writes, of their client and of the servers.
type hops struct {
	mu    sync.Mutex
	spans map[traceid.Trace]map[traceid.Span]period
	total []float64 // of each write, in us
}

func (h *hops) add(trace traceid.Trace, span traceid.Span, p period) {
	if h.spans[trace] == nil {
		h.spans[trace] = make(map[traceid.Span]period)
	}
	h.spans[trace][span] = p
}

// request notes a write of the client.
func (h *hops) request(_ context.Context, r client.TracedRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total = append(h.total, float64(r.Took.Nanoseconds())/1e3)
	if traceid.NewSampler(hopsRatio).Samples(int64(r.Session), r.Xid) {
		id, began := traceid.Of(int64(r.Session), r.Xid), r.Began.UnixNano()
		h.add(id, id.Client(), period{began, began + r.Took.Nanoseconds()})
	}
}

// ServeHTTP takes the spans of servers, as OpenTelemetry's protocol has them.
func (h *hops) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var sent collector.ExportTraceServiceRequest
	if err = errors.Join(err, proto.Unmarshal(body, &sent)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, of := range sent.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				if len(s.TraceId) == len(traceid.Trace{}) && len(s.SpanId) == len(traceid.Span{}) {
					h.add(traceid.Trace(s.TraceId), traceid.Span(s.SpanId), period{int64(s.StartTimeUnixNano), int64(s.EndTimeUnixNano)})
				}
			}
		}
	}
}

// The numbers of stages in a server's trace of a write.
const (
	stageDisk = 2 + iota
	stageQuorum
	stageApply
)

// hop is an event on the way of a write.
type hop struct {
	name  string
	span  func(traceid.Trace) traceid.Span
	ended bool // it is the end of the span
}

// hopsOf are the events of a write through a server, by the servers' ids; other is one that has no other part than to follow.
func hopsOf(via, leader, other uint8) []hop {
	stage := func(id, n uint8) func(traceid.Trace) traceid.Span {
		return func(t traceid.Trace) traceid.Span { return t.Stage(id, n) }
	}
	own := func(t traceid.Trace) traceid.Span { return t.Server(via) }
	list := []hop{
		{"the client's server has read the request", own, false},
		{"the leader has proposed it, and gives it to its log", stage(leader, stageDisk), false},
		{"it is durable at the leader", stage(leader, stageDisk), true},
		{"the leader knows that a quorum has it", stage(leader, stageQuorum), true},
		{"a follower has received the proposal", stage(other, stageDisk), false},
		{"it is durable there", stage(other, stageDisk), true},
	}
	if via != leader {
		list = append(list, hop{"the client's server knows that it is committed", stage(via, stageQuorum), true})
	}
	return append(list,
		hop{"the client's server has applied it, and answers", stage(via, stageApply), true})
}

// offsets returns the times of an event since the clients' calls, in us.
func (h *hops) offsets(e hop) []float64 {
	var list []float64
	for id, spans := range h.spans {
		call, p := spans[id.Client()], spans[e.span(id)]
		at := p.began
		if e.ended {
			at = p.ended
		}
		if call.began != 0 && at != 0 && (!e.ended || at > p.began) { // a stage without an end was not waited for
			list = append(list, float64(at-call.began)/1e3)
		}
	}
	return list
}

// hopRow is a line of the table.
type hopRow struct {
	name string
	at   bench.Spread
	n    int
}

// drawHops writes tables of where a lone write is when, on its way through an ensemble of the second program.
func (c *campaign) drawHops(w io.Writer) error {
	sync, trip, err := c.bare()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "A bare fdatasync of %d bytes: %.0f us; there and back over the loopback interface: %.0f us (medians of %d)\n", hopBytes, sync, trip, bareRuns)
	for _, follower := range []bool{false, true} {
		if err := c.hopsThrough(w, follower); err != nil {
			return err
		}
	}
	return nil
}

// hopsThrough measures writes through the leader, or through a follower.
func (c *campaign) hopsThrough(w io.Writer, follower bool) error {
	h := &hops{spans: make(map[traceid.Trace]map[traceid.Span]period)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	receiver := &http.Server{Handler: h}
	go func() { _ = receiver.Serve(listener) }() // until Close
	defer receiver.Close()
	e, err := startEnsemble(c.ctx, c.b, c.dir, shape{servers: c.servers},
		"zkd.traces.endpoint=http://"+listener.Addr().String(), fmt.Sprint("zkd.traces.ratio=", hopsRatio))
	if err != nil {
		return err
	}
	defer e.remove()
	leader, followers, err := e.roles(c.ctx)
	if err != nil {
		return err
	}
	via, title := leader, "the leader"
	other := followers[0]
	if follower {
		via, title, other = followers[0], "a follower", followers[1]
	}
	if err := h.write(c.ctx, via.addr, c.warmup, c.duration); err != nil {
		return err
	}
	for _, s := range e.servers { // at its end, a server sends the spans that wait
		s.signal(syscall.SIGTERM)
		<-s.gone
	}
	id := func(s *server) uint8 { return uint8(slices.Index(e.servers, s) + 1) }
	var rows []hopRow
	for _, e := range hopsOf(id(via), id(leader), id(other)) {
		if list := h.offsets(e); len(list) > 0 {
			rows = append(rows, hopRow{e.name, bench.NewSpread(list), len(list)})
		}
	}
	// To make spans takes time at the end of a traced write, so the answers are those to all writes.
	rows = append(rows, hopRow{"the client has the answer", bench.NewSpread(h.total), len(h.total)})
	slices.SortStableFunc(rows, func(a, b hopRow) int { return cmp.Compare(a.at.Median, b.at.Median) })
	fmt.Fprintf(w, "\nA write of %d bytes through %s, medians\n\n| event | us since the call | us since the event before | writes |\n|---|---|---|---|\n", hopBytes, title)
	before := 0.0
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %d |\n", r.name, r.at.Median, r.at.Median-before, r.n)
		before = r.at.Median
	}
	return nil
}

// write makes writes one after the other, and keeps those after a warm-up.
func (h *hops) write(ctx context.Context, addr string, warmup, duration time.Duration) error {
	c, err := client.Connect(ctx, addr, client.Options{Logger: client.NoLog, Trace: client.Trace{Request: h.request}})
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Create(ctx, "/hops", nil, client.CreateOptions{}); err != nil {
		return err
	}
	data := make([]byte, hopBytes)
	for began, warm := time.Now(), false; time.Since(began) < warmup+duration; {
		if !warm && time.Since(began) >= warmup {
			warm = true
			h.mu.Lock()
			clear(h.spans)
			h.total = nil
			h.mu.Unlock()
		}
		if _, err := c.Set(ctx, "/hops", data, -1); err != nil {
			return err
		}
	}
	return nil
}

// bare measures what the disk and the loopback interface take for a write by themselves, in us.
func (c *campaign) bare() (sync, trip float64, err error) {
	f, err := os.Create(filepath.Join(c.dir, "bare"))
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	data := make([]byte, hopBytes)
	if _, err := f.Write(make([]byte, bareRuns*hopBytes)); err != nil {
		return 0, 0, err
	}
	if err := errors.Join(f.Sync(), rewind(f)); err != nil {
		return 0, 0, err
	}
	sync, err = timed(func() error {
		_, err := f.Write(data)
		return errors.Join(err, syscall.Fdatasync(int(f.Fd())))
	})
	if err != nil {
		return 0, 0, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	defer listener.Close()
	go func() {
		if nc, err := listener.Accept(); err == nil {
			_, _ = io.Copy(nc, nc) // until the other side closes
			nc.Close()
		}
	}()
	nc, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return 0, 0, err
	}
	defer nc.Close()
	back := make([]byte, hopBytes)
	trip, err = timed(func() error {
		_, err := nc.Write(data)
		if err == nil {
			_, err = io.ReadFull(nc, back)
		}
		if err == nil && !bytes.Equal(back, data) {
			err = errors.New("other bytes came back")
		}
		return err
	})
	return sync, trip, err
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// timed returns the median time of calls of f, in us.
func timed(f func() error) (float64, error) {
	var took []float64
	for range bareRuns {
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e3)
	}
	return bench.NewSpread(took).Median, nil
}

package clients

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/replica"
)

func TestSlowRequestTellsWhereTheTimeWent(t *testing.T) {
	s, _ := newTestClients(t)
	s.tallies.slow.threshold.Store(int64(time.Second))
	if s.tallies.slow.is(time.Second-1) || !s.tallies.slow.is(time.Second) || (&slowLog{}).is(time.Hour) {
		t.Error("the threshold is not one second, or a threshold of 0 is one")
	}
	c := newTestConn(t, s)
	body := (&jute.SetDataRequest{Path: "/a/b", Data: []byte("x"), Version: -1}).Append(nil)
	req := &line.Request{Op: jute.OpSetData, Body: body, Auth: []jute.ID{{Scheme: "ip", ID: "1.2.3.4"}, {Scheme: "digest", ID: "ann:hash"}}, Received: 10 * time.Second}
	o := &replica.Order{Logged: 11 * time.Second, Durable: 13 * time.Second, Committed: 16 * time.Second}
	s.tallies.slow.note(c.line.SessionID(), c.socket.remote(), req, slowRequest{took: 10 * time.Second, stages: stagesOf(o, req.Received, 20*time.Second)})

	core, logs := observer.New(zapcore.InfoLevel)
	s.tallies.slow.report(zap.New(core), time.Second)
	got := logs.TakeAll()
	if len(got) != 1 {
		t.Fatalf("%d lines, want one", len(got))
	}
	fields := got[0].ContextMap()
	for name, want := range map[string]any{
		"op": "setData", "path": "/a/b", "took": 10 * time.Second, "identity": "digest:ann",
		"queue": time.Second, "disk": 2 * time.Second, "quorum": 3 * time.Second, "apply": 4 * time.Second,
	} {
		if fields[name] != want {
			t.Errorf("%s is %v, want %v", name, fields[name], want)
		}
	}
	clear(body) // the line must have kept nothing of it
	if fields["path"] != "/a/b" {
		t.Errorf("the path became %q with the buffer", fields["path"])
	}
}

func TestSlowStages(t *testing.T) {
	for name, x := range map[string]struct {
		o    replica.Order
		want slowStages
	}{
		"unknown, as of a barrier":                 {replica.Order{}, slowStages{}},
		"of an older request with the same stamps": {replica.Order{Logged: 50, Durable: 60, Committed: 70}, slowStages{}},
		"durable after the commit":                 {replica.Order{Logged: 110, Committed: 150}, slowStages{queue: 10, quorum: 40, apply: 50}},
	} {
		if got := stagesOf(&x.o, 100, 200); got != x.want {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
	}
}

// Of many slow requests the slowest are logged, and how many there were.
func TestSlowRequestsAreLimited(t *testing.T) {
	s, _ := newTestClients(t)
	c := newTestConn(t, s)
	for i := range 100 {
		s.tallies.slow.note(c.line.SessionID(), c.socket.remote(), &line.Request{Op: jute.OpPing}, slowRequest{took: time.Duration(i*37%100) * time.Second})
	}
	core, logs := observer.New(zapcore.InfoLevel)
	s.tallies.slow.report(zap.New(core), time.Second)
	lines := logs.TakeAll()
	if len(lines) != maxSlow+1 {
		t.Fatalf("%d lines, want %d", len(lines), maxSlow+1)
	}
	for _, line := range lines[:maxSlow] {
		if took := line.ContextMap()["took"].(time.Duration); took < 95*time.Second {
			t.Errorf("logged one of %v, want those of 95 s and more", took)
		}
	}
	if got := lines[maxSlow].ContextMap()["requests"]; got != int64(95) {
		t.Errorf("the last line counts %v more, want 95", got)
	}

	s.tallies.slow.note(c.line.SessionID(), c.socket.remote(), &line.Request{Op: jute.OpPing}, slowRequest{took: time.Second})
	s.tallies.slow.report(zap.New(core), slowPeriod)
	if n := logs.Len(); n != 0 {
		t.Errorf("%d lines soon after the last ones", n)
	}
	s.tallies.slow.report(zap.New(core), slowPeriod+time.Second)
	if n := logs.Len(); n != 1 {
		t.Errorf("%d lines after %v, want one", n, slowPeriod)
	}
}

func TestPathsOfRequests(t *testing.T) {
	multi := (&jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpCheck, Path: "/x", Version: 1}, {Type: jute.OpDelete, Path: "/y", Version: -1}}}).Append(nil)
	for _, x := range []struct {
		req  line.Request
		path string
		ops  int
	}{
		{line.Request{Op: jute.OpMulti, Body: multi}, "/x", 2},
		{line.Request{Op: jute.OpMulti, Body: []byte{1}}, "", 0},
		{line.Request{Op: jute.OpGetData, Body: []byte{0, 0, 0, 9}}, "", 0},
		{line.Request{Op: jute.OpPing}, "", 0},
	} {
		if path, ops := pathOf(&x.req); path != x.path || ops != x.ops {
			t.Errorf("%v: %q, %d; want %q, %d", x.req.Op, path, ops, x.path, x.ops)
		}
	}
}

package barrier_test

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes/barrier"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// The watch on "ready" is set before the own node is there, and the
// opening is one wake-up.
func TestDoubleTraceEnter(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/b", client.CreateOptions{}))
	rec := w.Record()
	done := enter(w.Ctx, double(t, w.C, 2))
	w.Must(rec.Await(w.Ctx, "list", listed))
	w.Must(w.C.Sync(w.Ctx, "/b")) // after the list, which does not contain the other one
	other, err := double(t, w.Other(), 2).Enter(w.Ctx)
	w.Must(err)
	e := <-done
	w.Must(e.err)
	w.Must(rec.Await(w.Ctx, "watch over the own node", func(r zktest.Traced) bool { return r.Op == jute.OpGetData }))
	want := []string{
		"exists /b/ready watch",
		"create2 /b/GUID",
		"getChildren2 /b",
		"sync /b",
		"event NodeCreated /b/ready",
		"getData /b/GUID watch",
	}
	if got := w.Trace(rec); !slices.Equal(got, want) {
		t.Errorf("first participant: trace is %q\nwant %q", got, want)
	}
	leaveAll(w, e.in, other)
}

func listed(r zktest.Traced) bool { return r.Op == jute.OpGetChildren || r.Op == jute.OpGetChildren2 }

// The last one finds that they are enough, and opens the barrier with one change.
func TestDoubleTraceOpen(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	other, others := w.Other(), w.RecordOthers()
	done := enter(w.Ctx, double(t, other, 2))
	w.Must(others.Await(w.Ctx, "list", listed))
	w.Must(other.Sync(w.Ctx, "/b")) // after the list, which contains it alone
	rec := w.Record()
	in, err := double(t, w.C, 2).Enter(w.Ctx)
	w.Must(err)
	w.Must(rec.Await(w.Ctx, "watch over the own node", func(r zktest.Traced) bool { return r.Op == jute.OpGetData }))
	want := []string{
		"exists /b/ready watch",
		"create2 /b/GUID",
		"getChildren2 /b",
		"multi /b/GUID", // both are there,
		"multi /b/GUID",
		"multi /b/ready", // so that is made
		"event NodeCreated /b/ready",
		"getData /b/GUID watch",
	}
	if got := w.Trace(rec); !slices.Equal(got, want) {
		t.Errorf("last participant: trace is %q\nwant %q", got, want)
	}
	e := <-done
	w.Must(e.err)
	leaveAll(w, e.in, in)
}

// Release asks the leader who is inside: a participant that has entered may be unknown to the
// own server.
func TestDoubleTraceLeaveAlone(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	in, err := double(t, w.C, 1).Enter(w.Ctx)
	w.Must(err)
	rec := w.Record()
	w.Must(in.Release(w.Ctx))
	var got []string
	for _, line := range w.Trace(rec) { // without those of the watch over the own node
		if !strings.HasPrefix(line, "event ") && !strings.HasPrefix(line, "getData ") {
			got = append(got, line)
		}
	}
	want := []string{"sync /b", "exists /b/ready", "getChildren2 /b", "multi /b/GUID", "multi /b/ready"}
	if !slices.Equal(got, want) {
		t.Errorf("trace is %q\nwant %q", got, want)
	}
}

// Each deletion wakes one participant, the lowest, and the last one all others. The record
// has the requests and events of all participants. The watch of a participant's own node fires,
// too, which does not count.
func TestDoubleTraceLeave(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	const n = 5
	in := map[string]*barrier.Inside{}
	var waiting []<-chan entered
	var names []string
	rec := w.Record()
	for i := range n {
		c := w.Proxy.Client(t).WithRetry(trial.Quick()).Namespace(w.Dir())
		waiting = append(waiting, enter(w.Ctx, double(t, c, n)))
		for _, name := range w.AwaitChildren("/b", i+1+i/(n-1))[:i+1] { // with the last comes "ready"
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for i, done := range waiting {
		e := <-done
		w.Must(e.err)
		in[names[i]] = e.in
	}
	slices.Sort(names)
	watches := func(name string) {
		w.Must(rec.Await(w.Ctx, "watch of "+name, func(r zktest.Traced) bool { return r.Watch && strings.HasSuffix(r.Path, name) }))
	}
	for _, name := range names {
		watches(name) // each its own
	}
	rec.Take()
	left := []<-chan error{leave(w.Ctx, in[names[0]])}
	for i := n - 1; i > 0; i-- {
		watches(names[i]) // the lowest watches the highest, which goes
		left = append(left, leave(w.Ctx, in[names[i]]))
	}
	for _, done := range left {
		w.Must(<-done)
	}
	events := map[string]int{}
	for _, r := range rec.All() {
		if r.Event != 0 {
			events[r.Path[strings.LastIndexByte(r.Path, '/')+1:]]++
		}
	}
	for i, name := range names[1:] {
		if most := 1 + 1; events[name] > most { // the own one, and the lowest if his watch was in time
			t.Errorf("the end of participant %d made %d events, want %d at most", i+1, events[name], most)
		}
	}
	if most := 1 + n - 1; events[names[0]] > most { // some may come only when it has gone
		t.Errorf("the end of the lowest made %d events, want %d at most", events[names[0]], most)
	}
	if events["ready"] != 0 {
		t.Errorf("the end of ready made %d events", events["ready"])
	}
	mustBeEmpty(w)
}

// gate holds back a client's writes that fit, from the time that it is shut.
type gate struct {
	net.Conn
	fits  func(frame []byte) bool
	held  chan struct{} // closed when a write is held back
	until <-chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	if g.fits(p) {
		select {
		case <-g.held:
		default:
			close(g.held)
		}
		<-g.until
	}
	return g.Conn.Write(p)
}

// A participant that enters while a round begins and ends is not part of it, though its watch,
// which was set before, has fired.
func TestDoubleOpenedBeforeTheOwnNode(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	held, until := make(chan struct{}), make(chan struct{})
	slow := w.Other(func(o *client.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			isCreate := func(frame []byte) bool {
				return bytes.Contains(frame, []byte("/b/")) && !bytes.Contains(frame, []byte("/b/ready"))
			}
			return &gate{Conn: conn, fits: isCreate, held: held, until: until}, err
		}
	})
	done := enter(w.Ctx, double(t, slow, 2))
	<-held
	leaveAll(w, enterAll(w, 2, w.C, w.Other())...)
	close(until)
	w.AwaitChildren("/b", 1)
	for range 20 { // it has time to go wrong
		_, err := slow.Exists(w.Ctx, "/")
		w.Must(err)
	}
	if len(done) > 0 {
		t.Error("one has entered a barrier of two")
	}
	late, err := double(t, w.Other(), 2).Enter(w.Ctx)
	w.Must(err)
	e := <-done
	w.Must(e.err)
	leaveAll(w, e.in, late)
}

// The last participant enters and leaves while the connection of the first is down, which learns
// of it when the connection is back.
func TestDoubleOpenedWhileCutOff(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/b", client.CreateOptions{}))
	cut := w.Proxy.CutAfter(zktest.Op(jute.OpCreate2))
	w.Proxy.Refuse()
	done := enter(w.Ctx, double(t, w.C, 2))
	<-cut.Done()
	other, err := double(t, w.Other(), 2).Enter(w.Ctx)
	w.Must(err)
	left := leave(w.Ctx, other)
	w.Proxy.Accept()
	e := <-done
	w.Must(e.err)
	w.Must(e.in.Release(w.Ctx))
	w.Must(<-left)
	mustBeEmpty(w)
}

package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ours "github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

var exactlyRounds = flag.Int("exactly", 1, "TestExactlyOnce: times that each fault happens")

// exactWriter writes in an exactly-once session, with several requests under way.
type exactWriter struct {
	*ours.Client
	proxy     *zktest.Proxy
	path      string
	done      atomic.Int64 // writes of each kind that succeeded
	unknown   atomic.Int64 // writes that may have been done: the session has expired
	ambiguous atomic.Int64 // likewise, and it has not
}

// newExactWriters returns three.
func newExactWriters(t testing.TB, e *ensemble, timeout time.Duration) []*exactWriter {
	t.Helper()
	writers := make([]*exactWriter, 3)
	for i := range writers {
		w := &exactWriter{proxy: zktest.NewProxy(t, e.addrs()...), path: fmt.Sprintf("/exact%d", i)}
		w.Client = w.proxy.Client(t, func(o *ours.Options) {
			o.KeepSession, o.Timeout, o.Logger = true, timeout, ours.NoLog
		})
		writers[i] = w
		if f := w.Status().Features; f&jute.FeatureExactlyOnce == 0 {
			t.Fatalf("the servers grant %v", f)
		}
		if _, err := w.Create(t.Context(), w.path, nil, ours.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return writers
}

// keepSetting sets one node until ctx ends, and waits after what is refused.
func (w *exactWriter) keepSetting(ctx context.Context) {
	for ctx.Err() == nil {
		_, err := w.Set(context.Background(), w.path, []byte("x"), ours.AnyVersion)
		w.count(nil, err)
		if err != nil {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// check compares the version of the node that keepSetting sets with what succeeded. One more set may be under way.
func (w *exactWriter) check(t testing.TB) {
	t.Helper()
	before := w.done.Load()
	node, err := w.Exists(context.Background(), w.path)
	if err != nil {
		t.Errorf("%s: %v", w.path, err)
		return
	}
	got, after := int64(node.Stat.Version), w.done.Load()+w.unknown.Load()+1
	if w.ambiguous.Load() > 0 || got < before || got > after {
		t.Errorf("%s has version %d after %d to %d sets that succeeded; %d are ambiguous", w.path, got, before, after, w.ambiguous.Load())
	}
	t.Logf("%s: %d sets, each done once", w.path, got)
}

// run sets one node and creates others until ctx ends.
func (w *exactWriter) run(ctx context.Context, writers int) {
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for ctx.Err() == nil {
				w.count(w.Set(context.Background(), w.path, []byte("x"), ours.AnyVersion))
				w.count(w.Create(context.Background(), w.path+"/n-", nil, ours.CreateOptions{Mode: ours.PersistentSequential}))
			}
		})
	}
	all.Wait()
}

func (w *exactWriter) count(_ any, err error) {
	switch {
	case err == nil:
		w.done.Add(1)
	case errors.Is(err, ours.ErrSessionExpired):
		w.unknown.Add(1)
	case ours.IsAmbiguous(err) || errors.Is(err, ours.ErrConnectionLoss):
		w.ambiguous.Add(1)
	}
}

// TestExactlyOnce kills the leader and the clients' own servers, has the leader hand over, and cuts connections while clients
// write in exactly-once sessions. No write is ambiguous, and those that succeeded are those that
// are there.
func TestExactlyOnce(t *testing.T) {
	if testing.Short() || apache() {
		return
	}
	t.Parallel()
	e := newEnsemble(t, shape{voters: 3})
	e.start()
	e.awaitAll()
	writers := newExactWriters(t, e, sessionTimeout)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, w := range writers {
		all.Go(func() { w.run(ctx, 8) })
	}
	written := func(n int64) {
		for _, w := range writers {
			before := w.done.Load()
			if !process.Poll(func() bool { return w.done.Load() >= before+n || w.unknown.Load() > 0 }) {
				t.Errorf("%s: %d writes, and no more", w.path, w.done.Load())
			}
		}
	}
	restart := func(s *server) {
		s.Kill()
		written(20)
		s.start()
		e.awaitAll()
	}
	for range *exactlyRounds {
		for _, fault := range []func(){
			func() { restart(e.awaitLeader()) },
			func() { restart(e.followers()[0]) },
			func() {
				leader := e.awaitLeader()
				if !process.Poll(func() bool { leader.Signal(syscall.SIGUSR1); return leader.mode() != "leader" }) {
					t.Error("the leader does not hand over")
				}
			},
			func() {
				for _, w := range writers {
					w.proxy.CutConnections()
				}
			},
			func() {
				for i, w := range writers {
					w.proxy.CutAfter(zktest.Nth(1+5*i, zktest.Writes()))
				}
			},
		} {
			written(20)
			fault()
		}
	}
	written(20)
	stop()
	all.Wait()
	for _, w := range writers {
		node, err := w.Exists(t.Context(), w.path)
		if errors.Is(err, ours.ErrSessionExpired) {
			continue // this machine was too slow to keep the session
		}
		if err != nil {
			t.Fatal(err)
		}
		got := int64(node.Stat.Version + node.Stat.Cversion)
		if w.ambiguous.Load() > 0 || got < w.done.Load() || got > w.done.Load()+w.unknown.Load() {
			t.Errorf("%s: %d writes succeeded, %d were done, %d are ambiguous, %d lost with the session",
				w.path, w.done.Load(), got, w.ambiguous.Load(), w.unknown.Load())
		}
		t.Logf("%s: %d writes", w.path, w.done.Load())
	}
}

package lock_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// The locks of go-zookeeper/zk, whose names are as Curator's, wait for ours, and ours for
// them.
func TestGoZookeeper(t *testing.T) {
	for _, layout := range []lock.Layout{lock.Curator, lock.Kazoo} {
		t.Run(layout.String(), func(t *testing.T) {
			w := trial.New(t)
			conn, events, err := zk.Connect([]string{w.Proxy.Addr()}, 10*time.Second, zk.WithLogger(silent{}))
			w.Must(err)
			defer conn.Close()
			for e := range events {
				if e.State == zk.StateHasSession {
					break
				}
			}
			go func() {
				for range events { // they have to be read
				}
			}()
			theirs := zk.NewLock(conn, w.Dir()+"/l", zk.WorldACL(zk.PermAll))

			first := held(w, w.C, lock.Options{Layout: layout})
			locked := make(chan error, 1)
			go func() { locked <- theirs.Lock() }()
			names := w.AwaitChildren("/l", 2)
			ours := locking(w.Ctx, mutex(t, w.C, lock.Options{Layout: layout}))
			w.AwaitChildren("/l", 3)
			if len(locked) != 0 || len(ours) != 0 {
				t.Errorf("somebody has the lock that is held; places are %q", names)
			}
			w.Must(first.Release(w.Ctx))
			w.Must(<-locked)
			got, err := mutex(t, w.C, lock.Options{Layout: layout}).Contenders(w.Ctx)
			w.Must(err)
			if len(got) != 2 || !got[0].Holds || len(ours) != 0 {
				t.Errorf("contenders are %+v, want theirs, and then ours", got)
			}
			w.Must(theirs.Unlock())
			last := <-ours
			w.Must(last.err)
			w.Must(last.held.Release(w.Ctx))
			w.AwaitChildren("/l", 0)
		})
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

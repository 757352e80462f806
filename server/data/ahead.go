package data

import (
	"context"
	"sync"
	"time"

	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/zab"
)

// loadAhead is the newest snapshot in the store, which is loaded while the log is read. Usually the
// log refers to it. Otherwise, or if it can't be loaded, nothing of it counts, and it is as if it
// had not been tried: the snapshot that the log refers to is loaded then, and the errors are those
// of that. A nil *loadAhead has no snapshot. It belongs to one goroutine.
type loadAhead struct {
	name   string
	cancel context.CancelFunc
	ended  sync.WaitGroup

	// What was loaded, when ended is done.
	ref   snapshot.Ref
	tree  *datatree.Tree // nil: nothing
	state zab.State
	took  time.Duration
}

// startLoadAhead starts a goroutine that loads the snapshot, and that stop ends.
func startLoadAhead(ctx context.Context, store *snapshot.Store) *loadAhead {
	files, err := store.List()
	if err != nil || len(files) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &loadAhead{name: files[0].Name, cancel: cancel}
	a.ended.Go(func() {
		began := time.Now()
		a.ref, a.tree, a.state, _ = history.LoadFile(ctx, store, a.name)
		a.took = time.Since(began)
	})
	return a
}

// take returns what was loaded, once, if it is the snapshot of ref; otherwise it drops it and
// returns nil.
func (a *loadAhead) take(ref snapshot.Ref) *loaded {
	if a != nil && a.name == ref.Name {
		a.ended.Wait()
		if a.tree != nil && a.ref.Equal(&ref) {
			st := &loaded{tree: a.tree, base: a.state, took: a.took}
			a.tree = nil
			return st
		}
	}
	a.stop()
	return nil
}

// stop ends the loading, and drops what was loaded.
func (a *loadAhead) stop() {
	if a == nil {
		return
	}
	a.cancel()
	a.ended.Wait()
	a.tree = nil
}

package presence

import (
	"testing"
	"time"

	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// A follower that is slow to look does not take what it shows for newer than it is.
func TestGroupAsOfIsWhenTheConnectionWasLost(t *testing.T) {
	w := trial.New(t)
	k, err := cache.Open(w.Ctx, w.C, "/g", cache.Options{Depth: cache.ChildrenOnly})
	w.Must(err)
	defer k.Close()
	w.Must(k.WaitReady(w.Ctx))
	events := k.Events(w.Ctx)
	w.Proxy.Refuse()
	w.Proxy.CutConnections()
	e := <-events
	for e.Type != cache.Stale {
		e = <-events
	}
	f := &follower{g: &Group{path: "/g"}, cache: k}
	looked := time.Now()
	w.Must(f.take(e))
	if v := f.view(); !v.Stale || !v.AsOf.Before(looked) {
		t.Errorf("it is stale (%t) as of %v, want a time before %v", v.Stale, v.AsOf, looked)
	}
}

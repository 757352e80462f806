package idempotent_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/idempotent"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// A broken connection is hidden, and the request is done once. When the session ends, the
// caller repeats the request with another client.
func TestEveryFault(t *testing.T) { everyFault(t, false) }

// With RenewSession the end of a session is hidden too.
func TestEveryFaultRenewed(t *testing.T) { everyFault(t, true) }

func everyFault(t *testing.T, renew bool) {
	trial.Every(t, renew, func(w *trial.World) {
		items(w)
		r, next := open(w.T, w.C), open(w.T, w.Look)
		for i := range 3 {
			id := fmt.Sprint(i)
			o, err := r.Do(w.Ctx, id, enqueue())
			switch {
			case err == nil:
				if o.Before {
					w.Errorf("request %s was done before: %+v", id, o)
				}
			case !w.Expires || renew:
				w.Errorf("request %s = %v", id, err)
			case !trial.Passing(err):
				w.Errorf("request %s = %v", id, err)
			}
			again, err2 := next.Do(w.Ctx, id, enqueue())
			if err2 != nil || err == nil && !again.Before {
				w.Errorf("request %s again: %+v, %v", id, again, err2)
			}
			if err != nil && !client.IsAmbiguous(err) && again.Before {
				w.Errorf("request %s was done, but the error was %v", id, err)
			}
		}
		if got := w.Children("/items"); len(got) != 3 {
			w.Errorf("there are %q, want three", got)
		}
	})
}

// A Prune that was interrupted is completed by the next one.
func TestEveryFaultPrune(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		next := open(w.T, w.Look)
		for i := range 3 {
			_, err := next.Do(w.Ctx, fmt.Sprint(i))
			w.Must(err)
		}
		n, err := open(w.T, w.C).Prune(w.Ctx, 0)
		if err != nil && !trial.Passing(err) || err == nil && n != 3 {
			w.Errorf("prune = %d, %v", n, err)
		}
		if _, err := next.Prune(w.Ctx, 0); err != nil {
			w.Errorf("the next prune = %v", err)
		}
		w.AwaitChildren("/app/requests", 0)
	})
}

// A queue: each item is put in once, though producers lose connections and sessions, repeat
// their requests, and compete with others that make the same requests.
func TestStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{Seeds: 2}, func(s *trial.Storm) {
		if err := settle.Ensure(s.Ctx, s.Look, "/items", client.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
		var mu sync.Mutex
		firsts := make(map[string]int) // how often a call reported that it was the first
		last := 0
		var work sync.WaitGroup
		for i := range s.Clients() {
			work.Go(func() {
				for n := 0; n <= horizon(&mu, &last, n, s); n++ {
					id := fmt.Sprint(n)
					if !persist(s, i, id) {
						continue
					}
					mu.Lock()
					firsts[id]++
					mu.Unlock()
				}
			})
		}
		work.Wait()
		list, err := s.Look.Children(s.Ctx, "/items")
		if err != nil {
			s.Fatal(err)
		}
		if len(list.Names) != last+1 {
			s.Errorf("there are %d items, want %d", len(list.Names), last+1)
		}
		for id, n := range firsts {
			if n > 1 {
				s.Errorf("%d were told to be the first of request %s", n, id)
			}
		}
		s.Logf("%d requests", last+1)
	})
}

// horizon returns the last request to make: the last one that any client had begun when the
// storm was over.
func horizon(mu *sync.Mutex, last *int, n int, s *trial.Storm) int {
	mu.Lock()
	defer mu.Unlock()
	if n > *last && !s.Over() {
		*last = n
	}
	return *last
}

// persist repeats the request until it is done, and reports whether the last call did it.
func persist(s *trial.Storm, i int, id string) (first bool) {
	for s.Ctx.Err() == nil {
		r, err := idempotent.New(s.Client(i), "/app/requests", idempotent.Options{})
		if err != nil {
			s.Fatal(err)
		}
		o, err := r.Do(s.Ctx, id, enqueue())
		if err == nil {
			return !o.Before
		}
		if !trial.Passing(err) && !client.IsAmbiguous(err) {
			s.Errorf("request %s = %v", id, err)
			return false
		}
	}
	return false
}

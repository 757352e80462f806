package presence_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/presence"
)

var kinds = map[string]presence.NodeOptions{"fixed": {}, "sequential": {Sequential: true}}

// Whatever breaks in the life of a node, and in whichever session: each step of it
// comes to pass, there are never two, and none is left.
func TestNodeEveryFaultWithRenewal(t *testing.T) {
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			trial.Every(t, true, func(w *trial.World) {
				n, err := presence.NewNode(w.C, "/d/a", o)
				w.Must(err)
				w.Must(n.Start([]byte("1")))
				w.Must(n.WaitThere(w.Ctx))
				w.Must(n.SetData(w.Ctx, []byte("2")))
				w.Must(n.SetData(w.Ctx, []byte("3")))
				s := n.State()
				if s.There { // else the session has just ended
					last := awaitData(w, s.Path, "3")
					w.Must(w.Look.Delete(w.Ctx, s.Path, last.Version))
					awaitAnother(w, s.Path, last.Czxid)
					awaitData(w, s.Path, "3")
				}
				if got := w.Children("/d"); len(got) > 1 {
					w.Errorf("%s: nodes are %q", w.Fault, got)
				}
				w.Must(n.Close(w.Ctx))
				if got := w.Children("/d"); len(got) != 0 {
					w.Errorf("%s: after Close nodes are %q", w.Fault, got)
				}
			})
		})
	}
}

// awaitData waits until the node at path has that data.
func awaitData(w *trial.World, path, data string) client.Stat {
	w.Helper()
	for v, err := range typed.New(w.Look, path, typed.String{}).Follow(w.Ctx) {
		w.Must(err)
		if v.Exists && v.Value == data {
			return v.Stat
		}
	}
	panic("unreachable")
}

// Without renewal the end of the session is that of the Node, and a broken connection
// is nothing.
func TestNodeEveryFaultWithoutRenewal(t *testing.T) {
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			trial.Every(t, false, func(w *trial.World) {
				n, err := presence.NewNode(w.C, "/d/a", o)
				w.Must(err)
				w.Must(n.Start([]byte("1")))
				err = n.WaitThere(w.Ctx)
				if err == nil {
					err = n.SetData(w.Ctx, []byte("2"))
				}
				if err != nil && !(w.Expires && errors.Is(err, recipes.ErrLost)) {
					w.Errorf("%s: error is %v", w.Fault, err)
				}
				w.Must(n.Close(w.Ctx))
				if got := w.AwaitChildren("/d", 0); len(got) != 0 {
					w.Errorf("%s: after Close nodes are %q", w.Fault, got)
				}
			})
		})
	}
}

// Clients count in the data of their nodes, in storms. An observer sees at most one node of each,
// and counts that never decrease; after the storm all are there with the last count, and
// none after Close.
func TestNodeStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{Renew: true}, func(s *trial.Storm) {
		settle.Ensure(s.Ctx, s.Look, "/d", client.CreateOptions{})
		var nodes []*presence.Node
		for i := range s.Clients() {
			n, err := presence.NewNode(s.Client(i), fmt.Sprintf("/d/%d", i), presence.NodeOptions{Sequential: i%2 == 0})
			if err != nil {
				s.Fatal(err)
			}
			if err := n.Start([]byte("0")); err != nil {
				s.Fatal(err)
			}
			nodes = append(nodes, n)
		}
		w := &witness{s: s, done: make(chan struct{})}
		var watching, work sync.WaitGroup
		watching.Go(w.run)
		counts := make([]int, len(nodes))
		for i, n := range nodes {
			work.Go(func() {
				for !s.Over() {
					counts[i]++
					if err := n.SetData(s.Ctx, []byte(strconv.Itoa(counts[i]))); err != nil {
						s.Errorf("set data: %v", err)
						return
					}
				}
			})
		}
		work.Wait()
		for i, n := range nodes {
			if err := n.SetData(s.Ctx, []byte(strconv.Itoa(counts[i]+1))); err != nil {
				s.Errorf("set data: %v", err)
			}
		}
		close(w.done)
		watching.Wait()
		got := w.look()
		for i := range nodes {
			if got[i] != counts[i]+1 {
				s.Errorf("count of %d is %d, want %d", i, got[i], counts[i]+1)
			}
		}
		for _, n := range nodes {
			if err := n.Close(s.Ctx); err != nil {
				s.Errorf("close: %v", err)
			}
		}
		if got := w.look(); len(got) != 0 {
			s.Errorf("after Close there are %v", got)
		}
	})
}

// witness looks at the nodes again and again.
type witness struct {
	s    *trial.Storm
	last [16]int
	done chan struct{}
}

func (w *witness) run() {
	for {
		select {
		case <-w.done:
			return
		default:
			w.look()
		}
	}
}

// look returns the counts of the nodes that are there.
func (w *witness) look() map[int]int {
	counts := map[int]int{}
	if err := w.s.Look.Sync(w.s.Ctx, "/d"); err != nil {
		return nil // another look follows
	}
	list, err := w.s.Look.Children(w.s.Ctx, "/d")
	if err != nil {
		w.s.Errorf("list: %v", err)
	}
	for _, name := range list.Names {
		plain, _, _ := settle.ProtectedName(name)
		i, err := strconv.Atoi(plain[:1])
		if err != nil || slices.ContainsFunc(list.Names, func(n string) bool {
			p, _, _ := settle.ProtectedName(n)
			return n != name && strings.HasPrefix(p, plain[:1])
		}) {
			w.s.Errorf("two of a kind: %q", list.Names)
		}
		node, err := w.s.Look.Get(w.s.Ctx, "/d/"+name)
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		n, err := strconv.Atoi(string(node.Data))
		if err != nil || n < w.last[i] {
			w.s.Errorf("%s has %q, after %d", name, node.Data, w.last[i])
		}
		w.last[i], counts[i] = n, n
	}
	return counts
}

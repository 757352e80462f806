package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// watchKind is one of the five ways to watch /a, the node, in the tests below.
type watchKind struct {
	name string
	set  func(context.Context, api) (*client.Watch, error)
	wt   client.WatchType // as removeWatches of all servers knows it
	// persistent watches stay, and learn that the connection is back.
	persistent bool
	hears      []client.EventType // of what happens at /a
	below      []client.EventType // of what happens at /a/b
}

const (
	created  = client.EventCreated
	changed  = client.EventDataChanged
	deleted  = client.EventDeleted
	children = client.EventChildrenChanged
	rearmed  = client.EventRearmed
)

var watchKinds = []watchKind{
	{"data", func(ctx context.Context, c api) (*client.Watch, error) {
		v, err := c.GetW(ctx, "/a")
		return v.Watch, err
	},
		client.DataWatches, false, []client.EventType{changed, deleted}, nil},
	{"exist", func(ctx context.Context, c api) (*client.Watch, error) {
		v, err := c.ExistsW(ctx, "/a")
		return v.Watch, err
	},
		client.DataWatches, false, []client.EventType{created, changed, deleted}, nil},
	{"child", func(ctx context.Context, c api) (*client.Watch, error) {
		v, err := c.ChildrenW(ctx, "/a")
		return v.Watch, err
	},
		client.ChildWatches, false, []client.EventType{children, deleted}, nil},
	{"persistent", func(ctx context.Context, c api) (*client.Watch, error) {
		return c.AddWatch(ctx, "/a", client.WatchPersistent)
	}, client.AnyWatches, true, []client.EventType{created, changed, deleted, children}, nil},
	{"recursive", func(ctx context.Context, c api) (*client.Watch, error) {
		return c.AddWatch(ctx, "/a", client.WatchRecursive)
	}, client.AnyWatches, true, []client.EventType{created, changed, deleted}, []client.EventType{created, changed, deleted}},
}

// change is something that happens at /a.
type change struct {
	name  string
	event client.EventType // at /a
	below client.EventType // at /a/b; 0 for none
	fresh bool             // /a does not exist before
	do    func(context.Context, *client.Client) error
}

var changes = []change{
	{"create", created, 0, true, func(ctx context.Context, c *client.Client) error {
		_, err := c.Create(ctx, "/a", nil, client.CreateOptions{})
		return err
	}},
	{"set", changed, 0, false, func(ctx context.Context, c *client.Client) error {
		_, err := c.Set(ctx, "/a", []byte("new"), client.AnyVersion)
		return err
	}},
	{"create child", children, created, false, func(ctx context.Context, c *client.Client) error {
		_, err := c.Create(ctx, "/a/b", nil, client.CreateOptions{})
		return err
	}},
	{"delete", deleted, 0, false, func(ctx context.Context, c *client.Client) error {
		return c.Delete(ctx, "/a", client.AnyVersion)
	}},
}

// expected returns the events that a change brings to a watch.
func (k watchKind) expected(ch change) []string {
	var events []string
	if ch.below != 0 && slices.Contains(k.below, ch.below) {
		events = append(events, fmt.Sprintf("%v /a/b", ch.below))
	}
	if slices.Contains(k.hears, ch.event) {
		events = append(events, fmt.Sprintf("%v /a", ch.event))
	}
	return events
}

// settable reports whether the watch can be set before the change.
func (k watchKind) settable(ch change) bool {
	return !ch.fresh || k.name != "data" && k.name != "child"
}

// waiting returns what is in a watch's channel once all that the server has sent
// before now is there.
func waiting(t *testing.T, c *client.Client, w *client.Watch) []string {
	t.Helper()
	ok(t, c.Sync(deadline(t), "/"))
	var events []string
	for {
		select {
		case ev, open := <-w.Events():
			if !open {
				return events
			}
			events = append(events, fmt.Sprintf("%v %s", ev.Type, ev.Path))
		default:
			return events
		}
	}
}

// forAllWatches runs a test for each kind of watch and each change.
func forAllWatches(t *testing.T, test func(t *testing.T, w *world, c api, k watchKind, ch change)) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		for _, k := range watchKinds {
			for _, ch := range changes {
				if !k.settable(ch) {
					continue
				}
				t.Run(k.name+"/"+ch.name, func(t *testing.T) {
					place := *w
					place.Root = fmt.Sprintf("%s/%s-%s", w.Root, k.name, ch.name)
					makeNode(t, c.Namespace("/"), fmt.Sprintf("/%s-%s", k.name, ch.name), "")
					mine := apiOf(t, &place, c.async)
					if !ch.fresh {
						makeNode(t, mine.Client, "/a", "")
					}
					test(t, &place, mine, k, ch)
				})
			}
		}
	})
}

// TestSuiteWatches shows which watch hears of what, and how often.
func TestSuiteWatches(t *testing.T) {
	forAllWatches(t, func(t *testing.T, w *world, c api, k watchKind, ch change) {
		ctx := deadline(t)
		watch, err := k.set(ctx, c)
		ok(t, err)
		if watch.Path() != "/a" {
			t.Errorf("the watch's path is %q", watch.Path())
		}
		ok(t, ch.do(ctx, c.Client))
		if got, want := waiting(t, c.Client, watch), k.expected(ch); !slices.Equal(got, want) {
			t.Errorf("%s heard of %q: %q, want %q", k.name, ch.name, got, want)
		}
		if len(k.expected(ch)) == 0 {
			ok(t, watch.Close(ctx))
			if _, err := watch.Next(ctx); err != client.ErrWatchClosed {
				t.Errorf("a closed watch ends with %v", err)
			}
			return
		}
		if !k.persistent {
			if _, err := watch.Next(ctx); err != client.ErrWatchFired || watch.Err() != nil {
				t.Errorf("a watch that has fired ends with %v, %v", err, watch.Err())
			}
		}
	})
}

// TestSuiteWatchesMissNothing makes the change while the watcher is cut off.
func TestSuiteWatchesMissNothing(t *testing.T) {
	forAllWatches(t, func(t *testing.T, w *world, c api, k watchKind, ch change) {
		ctx := deadline(t)
		other := w.Client(t)
		watch, err := k.set(ctx, c)
		ok(t, err)
		states := c.Session().States(ctx)
		id := c.Session().ID()
		w.Refuse()
		w.CutSession(id)
		ended(t, states, client.StateSuspended)
		ok(t, ch.do(ctx, other))
		w.Accept()
		ended(t, states, client.StateConnected)
		want := k.expected(ch)
		if k.persistent {
			want = []string{fmt.Sprintf("%v /a", rearmed)}
		}
		if got := waiting(t, c.Client, watch); !slices.Equal(got, want) {
			t.Errorf("%s heard of %q: %q, want %q", k.name, ch.name, got, want)
		}
	})
}

// TestSuiteWatchesAreSetAgain makes the change when the watcher is back.
func TestSuiteWatchesAreSetAgain(t *testing.T) {
	forAllWatches(t, func(t *testing.T, w *world, c api, k watchKind, ch change) {
		ctx := deadline(t)
		watch, err := k.set(ctx, c)
		ok(t, err)
		states := c.Session().States(ctx)
		id := c.Session().ID()
		w.CutSession(id)
		ended(t, states, client.StateConnected)
		var want []string
		if k.persistent {
			want = append(want, fmt.Sprintf("%v /a", rearmed))
		}
		want = append(want, k.expected(ch)...)
		ok(t, ch.do(ctx, c.Client))
		if got := waiting(t, c.Client, watch); !slices.Equal(got, want) {
			t.Errorf("%s heard of %q: %q, want %q", k.name, ch.name, got, want)
		}
	})
}

// TestSuiteEventBeforeReply reads a change and then looks into the channel of the
// watch that it fired: the event must be there.
func TestSuiteEventBeforeReply(t *testing.T) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		ctx := deadline(t)
		writer := w.Client(t)
		makeNode(t, c.Client, "/a", "")
		for i := range 50 {
			node, err := c.GetW(ctx, "/a")
			ok(t, err)
			want := fmt.Sprint(i)
			write := writer.Async().Set("/a", []byte(want), client.AnyVersion)
			for {
				node2, err := c.Get(ctx, "/a")
				ok(t, err)
				if string(node2.Data) == want {
					break
				}
			}
			select {
			case ev := <-node.Watch.Events():
				if ev.Type != changed {
					t.Errorf("event %v", ev)
				}
			default:
				t.Fatalf("read change %d before its event", i)
			}
			_, err = write.Wait(ctx)
			ok(t, err)
		}
	})
}

// TestSuiteCheckAndRemoveWatches looks for watches at the server, and takes them
// away.
func TestSuiteCheckAndRemoveWatches(t *testing.T) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		ctx := deadline(t)
		makeNode(t, c.Client, "/a", "")
		for _, k := range watchKinds {
			t.Run(k.name, func(t *testing.T) {
				watch, err := k.set(ctx, c)
				ok(t, err)
				ok(t, c.CheckWatches(ctx, "/a", k.wt))
				ok(t, c.RemoveWatches(ctx, "/a", k.wt))
				failsWith(t, c.CheckWatches(ctx, "/a", k.wt), client.ErrNoWatcher, "checkWatches /a: ")
				if _, err := watch.Next(ctx); err != client.ErrWatchClosed {
					t.Errorf("the watch ends with %v", err)
				}
				again, err := k.set(ctx, c)
				ok(t, err)
				ok(t, again.Close(ctx))
				ok(t, again.Close(ctx))
				failsWith(t, c.CheckWatches(ctx, "/a", k.wt), client.ErrNoWatcher, "checkWatches /a: ")
			})
		}
	})
}

// TestSuiteSharedWatches sets several watches of one client at one path: closing
// one leaves the others in force, and the persistent ones stay whatever one-shot
// watches come and go there.
func TestSuiteSharedWatches(t *testing.T) {
	for _, first := range watchKinds {
		for _, second := range watchKinds {
			t.Run(first.name+"/"+second.name, func(t *testing.T) {
				w := newWorld(t, 1)
				c := apiOf(t, w, false)
				ctx := deadline(t)
				makeNode(t, c.Client, "/a", "")
				one, err := first.set(ctx, c)
				ok(t, err)
				two, err := second.set(ctx, c)
				ok(t, err)
				for _, ch := range changes[1:3] {
					ok(t, ch.do(ctx, c.Client))
				}
				wantOf := func(k watchKind) []string {
					var want []string
					for _, ch := range changes[1:3] {
						if k.persistent || len(want) == 0 {
							want = append(want, k.expected(ch)...)
						}
					}
					return want
				}
				if got, want := waiting(t, c.Client, one), wantOf(first); !slices.Equal(got, want) {
					t.Errorf("%s heard %q, want %q", first.name, got, want)
				}
				if got, want := waiting(t, c.Client, two), wantOf(second); !slices.Equal(got, want) {
					t.Errorf("%s heard %q, want %q", second.name, got, want)
				}
			})
		}
	}
}

// TestSuiteWideWatchGoes closes a recursive watch, or a persistent one, that shares
// its path with another kind: that must go on, and so after a break.
func TestSuiteWideWatchGoes(t *testing.T) {
	for i, wide := range watchKinds[3:] {
		for _, k := range watchKinds[:3+i] {
			for _, broken := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/break=%v", wide.name, k.name, broken), func(t *testing.T) {
					w := newWorld(t, 1)
					c := apiOf(t, w, false)
					ctx := deadline(t)
					makeNode(t, c.Client, "/a", "")
					narrow, err := k.set(ctx, c)
					ok(t, err)
					over, err := wide.set(ctx, c)
					ok(t, err)
					ok(t, over.Close(ctx))
					if broken {
						states := c.Session().States(ctx)
						id := c.Session().ID()
						w.CutSession(id)
						ended(t, states, client.StateConnected)
					}
					ch := changes[1]
					if k.name == "child" || k.name == "persistent" {
						ch = changes[2]
					}
					ok(t, ch.do(ctx, c.Client))
					got := slices.DeleteFunc(waiting(t, c.Client, narrow), func(ev string) bool { return ev == fmt.Sprintf("%v /a", rearmed) })
					if want := k.expected(ch); !slices.Equal(got, want) {
						t.Errorf("%s heard %q, want %q", k.name, got, want)
					}
				})
			}
		}
	}
}

// TestSuiteNarrowWatchGoes removes the one-shot watches at the path of a persistent
// or a recursive one: that must go on.
func TestSuiteNarrowWatchGoes(t *testing.T) {
	for _, wide := range watchKinds[3:] {
		for _, k := range watchKinds[:3] {
			t.Run(wide.name+"/"+k.name, func(t *testing.T) {
				w := newWorld(t, 1)
				c := apiOf(t, w, false)
				ctx := deadline(t)
				makeNode(t, c.Client, "/a", "")
				stays, err := wide.set(ctx, c)
				ok(t, err)
				goes, err := k.set(ctx, c)
				ok(t, err)
				ok(t, c.RemoveWatches(ctx, "/a", k.wt))
				if _, err := goes.Next(ctx); err != client.ErrWatchClosed {
					t.Errorf("the removed one ends with %v", err)
				}
				for _, ch := range changes[1:3] {
					ok(t, ch.do(ctx, c.Client))
				}
				want := append(wide.expected(changes[1]), wide.expected(changes[2])...)
				if got := waiting(t, c.Client, stays); !slices.Equal(got, want) {
					t.Errorf("%s heard %q, want %q", wide.name, got, want)
				}
			})
		}
	}
}

// TestSuiteCloseOneWatch closes one of two watches of a kind.
func TestSuiteCloseOneWatch(t *testing.T) {
	for _, k := range watchKinds {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 1)
			c := apiOf(t, w, false)
			ctx := deadline(t)
			makeNode(t, c.Client, "/a", "")
			one, err := k.set(ctx, c)
			ok(t, err)
			two, err := k.set(ctx, c)
			ok(t, err)
			ok(t, one.Close(ctx))
			ch := changes[3]
			ok(t, ch.do(ctx, c.Client))
			if got, want := waiting(t, c.Client, two), k.expected(ch); !slices.Equal(got, want) {
				t.Errorf("the other one heard %q, want %q", got, want)
			}
			if _, err := one.Next(ctx); err != client.ErrWatchClosed {
				t.Errorf("the closed one ends with %v", err)
			}
		})
	}
}

// TestSuiteFailedReadSetsNoWatch has a read that sets a watch be cut: no watch is
// returned, and none is left at the server after the return.
func TestSuiteFailedReadSetsNoWatch(t *testing.T) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		c = apiOf(t, w, c.async, zktest.Plain)
		ctx := deadline(t)
		makeNode(t, c.Client, "/a", "")
		cut := w.CutAfter(func(op client.OpCode, _ string) bool { return op == jute.OpGetData })
		node, err := c.GetW(ctx, "/a")
		<-cut.Done()
		failsWith(t, err, client.ErrConnectionLoss, "getData /a: ")
		if node.Watch != nil {
			t.Error("a watch came with an error")
		}
		failsWith(t, c.CheckWatches(ctx, "/a", client.AnyWatches), client.ErrNoWatcher)
	})
}

// TestSuiteManyWatches sets more watches than one request may have paths, and gets
// each of them back at the next connection.
func TestSuiteManyWatches(t *testing.T) {
	w := newWorld(t, 1)
	c := w.Client(t)
	ctx := deadline(t)
	const nodes = 3000
	long := fmt.Sprintf("/%0400d-", 0)
	var futures []*client.Future[client.Presence]
	for i := range nodes {
		futures = append(futures, c.Async().ExistsW(fmt.Sprintf("%s%d", long, i)))
	}
	var all []*client.Watch
	for _, f := range futures {
		v, err := f.Wait(ctx)
		ok(t, err)
		all = append(all, v.Watch)
	}
	states := c.Session().States(ctx)
	id := c.Session().ID()
	w.CutSession(id)
	ended(t, states, client.StateConnected)
	var creates []*client.Future[client.Created]
	for i := range nodes {
		creates = append(creates, c.Async().Create(fmt.Sprintf("%s%d", long, i), nil, client.CreateOptions{}))
	}
	for i, f := range creates {
		_, err := f.Wait(ctx)
		ok(t, err)
		if ev, err := all[i].Next(ctx); err != nil || ev.Type != created {
			t.Fatalf("watch %d: %v, %v", i, ev, err)
		}
	}
	if n := w.Requests().Of(jute.OpSetWatches, jute.OpSetWatches2); n < 2 {
		t.Errorf("%d requests set the watches again", n)
	}
}

// TestSuiteWatchesEnd has sessions end under all kinds of watches.
func TestSuiteWatchesEnd(t *testing.T) {
	ends := map[string]struct {
		end func(*world, *client.Client)
		err error
	}{
		"expire": {func(w *world, c *client.Client) {
			id := c.Session().ID()
			w.ExpireSession(id)
		}, client.ErrSessionExpired},
		"close": {func(_ *world, c *client.Client) { c.Close(context.Background()) }, client.ErrClosed},
	}
	for name, e := range ends {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			c := apiOf(t, w, false)
			ctx := deadline(t)
			makeNode(t, c.Client, "/a", "")
			var all []*client.Watch
			for _, k := range watchKinds {
				watch, err := k.set(ctx, c)
				ok(t, err)
				all = append(all, watch)
			}
			e.end(w, c.Client)
			for i, watch := range all {
				ev, err := watch.Next(ctx)
				if !errors.Is(err, e.err) {
					t.Errorf("%s: %v, %v; want %v", watchKinds[i].name, ev, err, e.err)
				}
			}
		})
	}
}

package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// digestID is the identity of user:password in the digest scheme.
func (s *testServer) digestID(t *testing.T, userPassword string) jute.ID {
	t.Helper()
	creds, err := s.identities.Schemes.Authenticate("digest", []byte(userPassword), nil)
	if err != nil {
		t.Fatal(err)
	}
	return creds.IDs()[0]
}

func (c *client) auth(userPassword string) {
	c.t.Helper()
	c.ok(jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte(userPassword)})
}

// mirror is a client that follows a few nodes only through watches: it reads a node again
// when it gets an event for it, and only then assumes that it has changed.
type mirror struct {
	*client
	rng   *rand.Rand
	paths []string
	known map[string]jute.Zxid // mzxid, 0 for an absent node
	armed map[string]bool      // a watch is on the node
	asked map[int32]question   // under way
	last  jute.Zxid            // seen
	over  bool                 // the last path was created
}

type question struct {
	path string
	kind rune // w: exists with a watch, p: without one (a peek), s: setWatches
}

func newMirror(c *client, rng *rand.Rand, paths []string) *mirror {
	r := &mirror{client: c, rng: rng, paths: paths, known: map[string]jute.Zxid{}, armed: map[string]bool{}, asked: map[int32]question{}}
	for _, p := range paths {
		r.look(p)
	}
	return r
}

func (r *mirror) look(path string) {
	r.asked[r.send(jute.OpExists, get(path, true))] = question{path, 'w'}
}
func (r *mirror) peek(path string) {
	r.asked[r.send(jute.OpExists, get(path, false))] = question{path, 'p'}
}

// follow reads frames until the last path has been created and all requests are answered.
// From time to time it reconnects.
func (r *mirror) follow() error {
	for !r.over || len(r.asked) > 0 {
		if r.rng.IntN(300) == 0 {
			r.reconnect()
		}
		f, err := r.next()
		if err != nil {
			return err
		}
		if err := r.take(f); err != nil {
			return err
		}
	}
	return nil
}

func (r *mirror) take(f reply) error {
	if f.Zxid >= 0 && f.Zxid < r.last {
		return fmt.Errorf("%v after something of %v", f, r.last)
	}
	r.last = max(r.last, f.Zxid)
	if f.Xid == jute.XidNotification {
		path := f.event().Path
		if !r.armed[path] {
			return fmt.Errorf("%v, but there was no watch", f)
		}
		r.armed[path] = false
		r.over = r.over || path == r.paths[len(r.paths)-1]
		r.look(path)
		r.peek(r.paths[r.rng.IntN(len(r.paths))])
		return nil
	}
	q, ok := r.asked[f.Xid]
	delete(r.asked, f.Xid)
	if !ok || f.Err != 0 && f.Err != jute.ErrNoNode {
		return fmt.Errorf("%v for %v", f, q)
	}
	var stat jute.Stat
	if f.Err == 0 && q.kind != 's' {
		d := jute.NewDecoder(f.body)
		stat.Decode(&d)
	}
	switch {
	case q.kind == 'w':
		r.known[q.path], r.armed[q.path] = stat.Mzxid, true
	case q.kind == 'p' && r.armed[q.path] && stat.Mzxid != r.known[q.path]:
		return fmt.Errorf("%s has mzxid %v, its watch is from %v and has not fired", q.path, stat.Mzxid, r.known[q.path])
	}
	return nil
}

// reconnect resumes the session on another connection, and restores the watches that have
// not fired.
func (r *mirror) reconnect() {
	c := r.resume(r.t, 10_000)
	r.nc.Close()
	c.xid = r.xid
	c.nc.SetReadDeadline(time.Now().Add(30 * time.Second))
	r.client = c
	clear(r.asked)
	w := &jute.SetWatchesRequest{RelativeZxid: r.last}
	var again []string
	for _, p := range r.paths {
		switch {
		case !r.armed[p]:
			again = append(again, p)
		case r.known[p] == 0:
			w.Exist = append(w.Exist, p)
		default:
			w.Data = append(w.Data, p)
		}
	}
	r.asked[r.send(jute.OpSetWatches, w)] = question{kind: 's'} // first, before there are newer zxids
	for _, p := range again {
		r.look(p)
	}
}

// TestWatchersMissNoChange checks that clients that see nodes only through their watches,
// and reconnect from time to time, end with the actual nodes, whatever the writers do.
// They see no change before its event, and everything in the order of zxids.
func TestWatchersMissNoChange(t *testing.T) {
	s := startServer(t)
	seed := seeds.First(t)
	var paths []string
	for i := range 6 {
		paths = append(paths, "/w"+strconv.Itoa(i))
	}
	var writers, watchers sync.WaitGroup
	for n := range 8 {
		r := newMirror(s.connect(t), rand.New(rand.NewPCG(seed, uint64(100+n))), append(slices.Clone(paths), "/end"))
		r.nc.SetReadDeadline(time.Now().Add(30 * time.Second))
		watchers.Go(func() {
			if err := r.follow(); err != nil {
				t.Errorf("watcher %d: %v", n, err)
				return
			}
			s.state.RLock()
			defer s.state.RUnlock()
			for _, p := range r.paths {
				if node, _ := s.state.Tree.Get(p); node.Mzxid != r.known[p] || !r.armed[p] {
					t.Errorf("watcher %d: %s has mzxid %v, known is %v, watched %v", n, p, node.Mzxid, r.known[p], r.armed[p])
				}
			}
		})
	}
	for n := range 3 {
		c := s.connect(t)
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		writers.Go(func() {
			for i := range 1500 {
				switch p := paths[rng.IntN(len(paths))]; rng.IntN(3) {
				case 0:
					c.send(jute.OpCreate, create(p, "", 0))
				case 1:
					c.send(jute.OpSetData, set(p, ""))
				case 2:
					c.send(jute.OpDelete, del(p))
				}
				if i%7 == 0 || i == 1499 {
					for c.must().Xid != c.xid {
					}
				}
			}
		})
	}
	writers.Wait()
	s.connect(t).create("/end", "")
	watchers.Wait()
	s.noErrors(t)
}

// TestOwnEventComesBeforeOwnReply also checks that in a multi the events come in the
// order of its operations, those of a one-shot watch once.
func TestOwnEventComesBeforeOwnReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		c.create("/a", "")
		c.ok(jute.OpGetData, get("/a", true))
		c.call(jute.OpExists, get("/b", true)) // absent: sets a watch
		c.ok(jute.OpGetChildren, get("/", true))
		c.call(jute.OpGetData, get("/c", true)) // absent: sets no watch
		r := c.ok(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{
			{Type: jute.OpSetData, Path: "/a", Version: -1},
			{Type: jute.OpCreate, Path: "/b", ACL: openACL},
			{Type: jute.OpSetData, Path: "/a", Version: -1},
			{Type: jute.OpCreate, Path: "/c", ACL: openACL},
			{Type: jute.OpDelete, Path: "/b", Version: -1},
		}})
		var got []string
		for _, e := range c.events {
			got = append(got, e.String())
		}
		want := fmt.Sprintf("[NodeDataChanged /a at %[1]v NodeCreated /b at %[1]v NodeChildrenChanged / at %[1]v]", r.Zxid)
		if fmt.Sprint(got) != want {
			t.Errorf("events before the reply:\n%v, want\n%v", got, want)
		}
		c.quiet("after the reply")
	})
}

// TestEventsAreFilteredByTheNodesACL checks that a client that may not read a node gets
// no event of it, and that a one-shot watch is consumed nevertheless.
func TestEventsAreFilteredByTheNodesACL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		owner, other := s.connect(t), s.connect(t)
		owner.auth("owner:pw")
		private := []jute.ACL{{Perms: jute.PermAll, ID: s.digestID(t, "owner:pw")}}
		for _, c := range []*client{owner, other} {
			c.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive})
			c.call(jute.OpExists, get("/secret", true))
		}
		owner.ok(jute.OpCreate, &jute.CreateRequest{Path: "/secret", ACL: private})
		owner.create("/secret/open", "")
		owner.ok(jute.OpDelete, del("/secret/open"))
		owner.set("/secret", "x")
		owner.ok(jute.OpSetACL, &jute.SetACLRequest{Path: "/secret", ACL: openACL, Version: -1})
		owner.set("/secret", "y")
		owner.ok(jute.OpDelete, del("/secret"))
		other.ping()
		if got, want := fmt.Sprint(eventsOf(owner)), "[NodeCreated /secret NodeCreated /secret/open NodeDeleted /secret/open "+
			"NodeDataChanged /secret NodeDataChanged /secret NodeDeleted /secret]"; got != want {
			t.Errorf("owner got\n%v, want\n%v", got, want)
		}
		if got, want := fmt.Sprint(eventsOf(other)), "[NodeCreated /secret/open NodeDeleted /secret/open "+
			"NodeDataChanged /secret NodeDeleted /secret]"; got != want {
			t.Errorf("other got\n%v, want\n%v", got, want)
		}

		third := s.connect(t)
		third.call(jute.OpExists, get("/one", true))
		owner.ok(jute.OpCreate, &jute.CreateRequest{Path: "/one", ACL: private})
		owner.ok(jute.OpSetACL, &jute.SetACLRequest{Path: "/one", ACL: openACL, Version: -1})
		owner.set("/one", "")
		third.ping()
		if len(third.events) != 0 {
			t.Errorf("a watch used up by an event that may not be seen fired again: %v", third.events)
		}
	})
}

func eventsOf(c *client) (list []string) {
	for _, e := range c.events {
		list = append(list, fmt.Sprintf("%v %s", e.event().Type, e.event().Path))
	}
	return list
}

// TestSetWatchesMatrix tests each list against a node that is absent, unchanged, or
// changed since.
func TestSetWatchesMatrix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		w := s.connect(t)
		w.create("/same", "")
		w.create("/data", "")
		w.create("/child", "")
		since := w.set("/same", "").Zxid
		w.set("/data", "x")
		w.create("/child/c", "")
		all := []string{"/same", "/data", "/child", "/absent"}

		c := s.connect(t)
		r := c.ok(jute.OpSetWatches2, setWatches2{&jute.SetWatchesRequest{RelativeZxid: since,
			Data: all, Exist: all, Child: all, Persistent: all, PersistentRecursive: all}})
		if r.Err != 0 || len(r.body) != 0 {
			t.Errorf("reply %v", r)
		}
		want := "[NodeDataChanged /data NodeDeleted /absent " + // data
			"NodeCreated /same NodeCreated /data NodeCreated /child " + // exist
			"NodeChildrenChanged /child NodeDeleted /absent]" // child
		if got := fmt.Sprint(eventsOf(c)); got != want {
			t.Errorf("events before the reply:\n%v, want\n%v", got, want)
		}
		for _, e := range c.events {
			if e.Zxid != -1 {
				t.Errorf("%v: zxid is not -1", e)
			}
		}
		c.events = nil
		for _, x := range []jute.WatchType{jute.WatchData, jute.WatchChildren, jute.WatchPersistent, jute.WatchPersistentRecursive} {
			line := ""
			for _, p := range all {
				if c.call(jute.OpCheckWatches, &jute.RemoveWatchesRequest{Path: p, Type: x}).Err == 0 {
					line += p + " "
				}
			}
			if want := map[jute.WatchType]string{
				jute.WatchData: "/same /child /absent ", jute.WatchChildren: "/same /data ",
				jute.WatchPersistent: "/same /data /child /absent ", jute.WatchPersistentRecursive: "/same /data /child /absent ",
			}[x]; line != want {
				t.Errorf("watches of type %d are on %q, want %q", x, line, want)
			}
		}
	})
}

// setWatches2 is a SetWatchesRequest with all of its lists.
type setWatches2 struct{ *jute.SetWatchesRequest }

func (r setWatches2) Append(b []byte) []byte { return r.Append2(b) }

// TestRemovedWatchesAreSilent checks that a removal removes the watches that the type
// names, of this connection only, and returns NoWatcher if there are none.
func TestRemovedWatchesAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		other := s.connect(t)
		other.ok(jute.OpGetData, get("/", true))
		for typ := jute.WatchChildren; typ <= jute.WatchPersistentRecursive; typ++ {
			c := s.connect(t)
			if r := c.call(jute.OpRemoveWatches, &jute.RemoveWatchesRequest{Path: "/", Type: typ}); r.Err != jute.ErrNoWatcher {
				t.Errorf("type %d without watches: %v", typ, r)
			}
			c.ok(jute.OpGetData, get("/", true))
			c.ok(jute.OpGetChildren, get("/", true))
			c.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistent})
			c.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive})
			c.ok(jute.OpRemoveWatches, &jute.RemoveWatchesRequest{Path: "/", Type: typ})
			if r := c.call(jute.OpRemoveWatches, &jute.RemoveWatchesRequest{Path: "/", Type: typ}); r.Err != jute.ErrNoWatcher {
				t.Errorf("type %d removed twice: %v", typ, r)
			}
			kept := ""
			for k := jute.WatchChildren; k <= jute.WatchPersistentRecursive; k++ {
				if c.call(jute.OpCheckWatches, &jute.RemoveWatchesRequest{Path: "/", Type: k}).Err == 0 {
					kept += strconv.Itoa(int(k))
				}
			}
			if want := map[jute.WatchType]string{1: "2345", 2: "1345", 3: "", 4: "1235", 5: "1234"}[typ]; kept != want {
				t.Errorf("after removing type %d types %q are there, want %q", typ, kept, want)
			}
		}
		s.connect(t).set("/", "")
		other.ping()
		if len(other.events) != 1 {
			t.Errorf("another connection's watch: %v", other.events)
		}
	})
}

// TestWatchesGoWithTheirConnection checks that a resumed session gets no events until it
// sets its watches again.
func TestWatchesGoWithTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		for range 50 {
			c := s.connect(t)
			c.ok(jute.OpGetData, get("/", true))
			c.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive})
			c = c.resume(t, 10_000)
			synctest.Wait()
			if n := s.state.Watches.Count(); n != 0 {
				t.Fatalf("%d watches are left", n)
			}
			c.set("/", "")
			if len(c.events) > 0 {
				t.Fatalf("resumed session got %v", c.events)
			}
			c.ok(jute.OpCloseSession, nil)
		}
	})
}

// TestClientThatTakesNoEventsIsCutOff checks that its unread events are bounded, and that
// no other client waits for it.
func TestClientThatTakesNoEventsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startOn(t, fastFS{}, t.TempDir(), "forceSync=no")
		path := "/" + strings.Repeat("p", 400_000)
		w := s.connect(t)
		w.create(path, "")
		deaf := s.dial(t, dialOptions{window: 1000})
		deaf.establish(&jute.ConnectRequest{TimeoutMs: 20_000})
		deaf.sendFrame(requestFrame(1, jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive}))
		deaf.must()
		const outLimit = 64 << 20 // of one client
		n := 0
		for ; n < outLimit/400_000+10 && s.connections() == 2; n++ {
			w.set(path, "")
			synctest.Wait()
		}
		if n < outLimit/400_000 || s.connections() != 1 {
			t.Errorf("after %d events of 400 kB not taken, %d connections are left; want the watcher cut off at %d MB",
				n, s.connections(), outLimit>>20)
		}
	})
}

// Very many watches are restored in parts, at once and after a write, and each is set or its change is told.
func TestManyWatchesAreRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		const watches = 2500 // more than two parts
		other := s.connect(t)
		other.create("/there", "")
		for _, pipelined := range []bool{false, true} {
			c := s.connect(t)
			request := &jute.SetWatchesRequest{RelativeZxid: 1 << 40, Data: []string{"/gone"}}
			for i := range watches {
				request.Exist = append(request.Exist, fmt.Sprint("/none-", i))
			}
			request.Child = []string{"/there"}
			var xids []int32
			if pipelined {
				xids = append(xids, c.send(jute.OpSetData, set("/there", "x")))
			}
			xids = append(xids, c.send(jute.OpSetWatches, request), c.send(jute.OpExists, get("/there", false)))
			events := 0
			for _, xid := range xids {
				r := c.must()
				for ; r.Xid == jute.XidNotification; r = c.must() {
					if e := r.event(); e.Path != "/gone" || e.Type != jute.EventDeleted {
						t.Fatalf("%v", r)
					}
					events++
				}
				if r.Xid != xid || r.Err != 0 {
					t.Fatalf("%v, want the reply to %d", r, xid)
				}
			}
			if events != 1 {
				t.Errorf("%d events of a node that is gone", events)
			}
			for _, path := range []string{"/none-0", "/none-1024", fmt.Sprint("/none-", watches-1), "/there/child"} {
				other.create(path, "")
				if e := c.must().event(); e.Path != path && path != "/there/child" || path == "/there/child" && e.Type != jute.EventChildrenChanged {
					t.Errorf("the event of %s: %v %s", path, e.Type, e.Path)
				}
				other.ok(jute.OpDelete, del(path))
			}
		}
	})
}

package server

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// subtree reads a page of a subtree.
func (c *client) subtree(r jute.SubtreePageRequest) (page jute.SubtreePageResponse) {
	c.t.Helper()
	got := c.ok(jute.OpSubtreePage, &r)
	d := jute.NewDecoder(got.body)
	page.Decode(&d)
	if d.Err() != nil || len(d.Rest()) > 0 {
		c.t.Fatalf("page of %v: error %v, %d bytes left", r, d.Err(), len(d.Rest()))
	}
	return page
}

// TestSubtreePages reads a subtree in small pages while it changes, with nodes that the client may not
// read and with data that is longer than a page.
func TestSubtreePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "jute.maxbuffer=4096")
		c := s.paging(t)
		c.create("/p", "root")
		c.create("/p/a", "1")
		c.create("/p/long", string(make([]byte, 3000)))
		c.create("/p/a/b", "2")
		closed := []jute.ACL{{Perms: jute.PermAll &^ jute.PermRead, ID: jute.WorldAnyone}}
		c.ok(jute.OpCreate, &jute.CreateRequest{Path: "/p/closed", ACL: closed})
		c.create("/p/closed/hidden", "")
		c.create("/p/z", "3")
		zxid := c.ok(jute.OpExists, get("/p", false)).Zxid

		r := jute.SubtreePageRequest{Path: "/p", Show: jute.ShowData}
		type row struct {
			name, data string
			err        jute.Code
		}
		var got []row
		for more := true; more; more = r.View != 0 {
			page := c.subtree(r)
			for _, n := range page.Nodes {
				got = append(got, row{n.Name, string(n.Data), n.Err})
			}
			if r.View = page.View; page.Zxid != zxid {
				t.Errorf("state of %v, want %v", page.Zxid, zxid)
			}
			c.set("/p/z", "changed")
			c.create("/p/new", "")
			c.ok(jute.OpDelete, del("/p/new"))
		}
		want := []row{{"", "root", 0}, {"/a", "1", 0}, {"/a/b", "2", 0}, {"/closed", "", jute.ErrNoAuth}, {"/long", "", jute.ErrMarshalling}, {"/z", "3", 0}}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if n := s.state.Tree.NumSubtrees(); n != 0 {
			t.Errorf("%d views are left", n)
		}

		for _, tt := range []struct {
			r    jute.SubtreePageRequest
			want jute.Code
		}{
			{jute.SubtreePageRequest{Path: "/none", Show: jute.ShowStats}, jute.ErrNoNode},
			{jute.SubtreePageRequest{Path: "/p/closed", Show: jute.ShowStats}, jute.ErrNoAuth},
			{jute.SubtreePageRequest{Path: "/p", Show: 4}, jute.ErrBadArguments},
			{jute.SubtreePageRequest{Path: "/p", Show: -1}, jute.ErrBadArguments},
			{jute.SubtreePageRequest{Path: "/p"}, jute.ErrBadArguments},
			{jute.SubtreePageRequest{Path: "/p", View: 99, Show: jute.ShowStats}, jute.ErrOperationTimeout},
		} {
			if got := c.call(jute.OpSubtreePage, &tt.r); got.Err != tt.want {
				t.Errorf("%+v: %v, want %v", tt.r, got.Err, tt.want)
			}
		}
	})
}

// TestSubtreeACLs reads ACLs as they were when the view was opened: with the hash of a digest hidden from who may not
// change the ACL, and one that leaves no room for the data.
func TestSubtreeACLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "jute.maxbuffer=4096")
		c := s.paging(t)
		digest := jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: "user:hash"}}
		shown := jute.ACL{Perms: jute.PermRead, ID: jute.WorldAnyone}
		redacted := digest
		redacted.ID.ID = "user:x"
		c.create("/p", "root")
		c.ok(jute.OpCreate, &jute.CreateRequest{Path: "/p/digest", ACL: []jute.ACL{digest, shown}})
		list := slices.Clone(openACL)
		for i := range 50 {
			list = append(list, jute.ACL{Perms: jute.PermRead, ID: jute.ID{Scheme: "ip", ID: fmt.Sprint("10.0.0.", i)}})
		}
		c.ok(jute.OpCreate, &jute.CreateRequest{Path: "/p/list", Data: make([]byte, 1000), ACL: list})
		r := jute.SubtreePageRequest{Path: "/p", Show: jute.ShowACLs}
		first := c.subtree(r)
		c.ok(jute.OpSetACL, &jute.SetACLRequest{Path: "/p/list", ACL: openACL, Version: -1})
		got := first.Nodes
		for r.View = first.View; r.View != 0; {
			page := c.subtree(r)
			got, r.View = append(got, page.Nodes...), page.View
		}
		want := [][]jute.ACL{openACL, {redacted, shown}, list}
		for i, n := range got {
			if i >= len(want) || !slices.Equal(n.ACL, want[i]) {
				t.Errorf("%s has %v", n.Name, n.ACL)
			}
		}
		if n := got[len(got)-1]; len(got) != 3 || n.Name != "/list" || n.Err != jute.ErrMarshalling || n.Data != nil || n.Stat.DataLength != 1000 {
			t.Errorf("%d nodes, the last is %s with %v: %+v", len(got), n.Name, n.Err, n.Stat)
		}
		r = jute.SubtreePageRequest{Path: "/p/list", Show: jute.ShowData}
		if n := c.subtree(r).Nodes[0]; n.ACL != nil || len(n.Data) != 1000 {
			t.Errorf("without ACLs: %v, %d bytes", n.ACL, len(n.Data))
		}
	})
}

// TestViewsEnd opens as many views as there may be, which end by age, and with their connection.
func TestViewsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "jute.maxbuffer=4096")
		a, b, c := s.paging(t), s.paging(t), s.paging(t)
		for i := range 30 {
			a.create("/n"+string(rune('a'+i)), string(make([]byte, 200)))
		}
		r := jute.SubtreePageRequest{Path: "/", Show: jute.ShowData}
		for range 3 {
			if a.subtree(r).View == 0 {
				t.Fatal("all is in one page")
			}
		}
		if got := a.call(jute.OpSubtreePage, &r); got.Err != jute.ErrThrottledOp {
			t.Errorf("a fourth view of a connection: %v", got.Err)
		}
		c.subtree(r)
		b.subtree(r) // a fifth view, which ends one of those of a
		if n := s.state.Tree.NumSubtrees(); n != 4 {
			t.Errorf("%d views, want 4", n)
		}
		for range 15 { // within the sessions' timeouts
			time.Sleep(4 * time.Second)
			a.ok(jute.OpExists, get("/", false))
			b.ok(jute.OpExists, get("/", false))
			c.ok(jute.OpExists, get("/", false))
		}
		synctest.Wait()
		if n := s.state.Tree.NumSubtrees(); n != 0 {
			t.Errorf("%d views that nobody reads after a minute", n)
		}
		if m := s.mntr(t); m["views_lost"] != "5" || m["views_refused"] != "1" {
			t.Errorf("views lost: %s, refused: %s", m["views_lost"], m["views_refused"])
		}
		view := b.subtree(r).View
		if n := s.state.Tree.NumSubtrees(); n != 1 {
			t.Errorf("%d views after a minute", n)
		}
		other := r
		other.View = view
		if got := a.call(jute.OpSubtreePage, &other); got.Err != jute.ErrOperationTimeout {
			t.Errorf("another connection's view: %v", got.Err)
		}
		b.nc.Close()
		synctest.Wait()
		if n := s.state.Tree.NumSubtrees(); n != 0 {
			t.Errorf("%d views after their connections", n)
		}
	})
}

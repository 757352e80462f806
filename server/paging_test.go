package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// paging opens a session on a connection that may read pages.
func (s *testServer) paging(t testing.TB) *client {
	t.Helper()
	return s.asking(t, jute.FeaturePaging, nil)
}

// asking opens a session on a connection that asks for extensions, or resumes that of another client.
func (s *testServer) asking(t testing.TB, features jute.Features, old *client) *client {
	t.Helper()
	c := s.dial(t, dialOptions{})
	r := &jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true}
	if old != nil {
		r.SessionID, r.Password = old.session, old.pass
	}
	c.sendFrame((&jute.ExtensionRequest{Features: features}).Append(r.Append(nil)))
	c.established()
	return c
}

// page reads a page.
func (c *client) page(r jute.ChildrenPageRequest) (page jute.ChildrenPageResponse) {
	c.t.Helper()
	got := c.ok(jute.OpChildrenPage, &r)
	d := jute.NewDecoder(got.body)
	page.Decode(&d)
	if d.Err() != nil || len(d.Rest()) > 0 || page.Zxid != got.Zxid {
		c.t.Fatalf("page of %v: error %v, %d bytes left, zxid %v in a reply of %v", r, d.Err(), len(d.Rest()), page.Zxid, got.Zxid)
	}
	return page
}

// TestPages lists a node by pages of many sizes, on a server that has a small jute.maxbuffer and so
// small pages.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxBuffer = 4096
		s := startServer(t, fmt.Sprintf("jute.maxbuffer=%d", maxBuffer))
		c := s.paging(t)
		c.create("/p", "")
		rng := rand.New(rand.NewPCG(3, seeds.First(t)))
		var names []string
		for i := range 1500 { // enough for a listing in the tree
			name := fmt.Sprintf("%0*d", 1+rng.IntN(20), i)
			c.create("/p/"+name, strings.Repeat("d", rng.IntN(50)))
			names = append(names, name)
		}
		slices.Sort(names)
		for _, limit := range []int32{0, 1, 7, 1499, 1500, 1501, 1 << 30} {
			for show := jute.ShowNames; show <= jute.ShowData; show++ {
				var got []string
				for more := true; more; {
					r := jute.ChildrenPageRequest{Path: "/p", Limit: limit, Show: show}
					if len(got) > 0 {
						r.After = got[len(got)-1]
					}
					page := c.page(r)
					if n := len(page.Names) + len(page.Children); n == 0 || limit > 0 && n > int(limit) {
						t.Fatalf("%v: %d children", r, n)
					}
					if n := len(page.Append(nil)) + 16; n > maxBuffer/2 {
						t.Fatalf("%v: a page of %d bytes", r, n)
					}
					if page.Stat.NumChildren != 1500 {
						t.Fatalf("%v: stat %+v", r, page.Stat)
					}
					got = append(got, page.Names...)
					for _, child := range page.Children {
						got = append(got, child.Name)
						data, _ := c.get("/p/" + child.Name)
						if child.Err != 0 || int(child.Stat.DataLength) != len(data) || show == jute.ShowData && string(child.Data) != data || show != jute.ShowData && child.Data != nil {
							t.Fatalf("%v: got %+v, its data is %q", r, child, data)
						}
					}
					more = page.More
					if limit == 1 && len(got) == 20 { // the others take too long
						got = append(got, names[20:]...)
						break
					}
				}
				if !slices.Equal(got, names) {
					t.Fatalf("limit %d, show %d: got %d names, want %d", limit, show, len(got), len(names))
				}
			}
		}
		s.noErrors(t)
	})
}

// TestPageOfOddChildren reads pages whose children do not fit, can't be read, or do not exist.
func TestPageOfOddChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "jute.maxbuffer=8192")
		c := s.paging(t)
		c.create("/p", "")
		long := strings.Repeat("n", 6000) // more than a page alone
		c.create("/p/a", strings.Repeat("d", 5000))
		c.create("/p/"+long, "x")
		c.ok(jute.OpCreate, &jute.CreateRequest{Path: "/p/secret", Data: []byte("x"), ACL: []jute.ACL{{Perms: jute.PermWrite, ID: jute.WorldAnyone}}})
		c.create("/p/z", "last")

		var got []string
		for after, more := "", true; more; {
			page := c.page(jute.ChildrenPageRequest{Path: "/p", After: after, Show: jute.ShowData})
			for _, child := range page.Children {
				after = child.Name
				got = append(got, fmt.Sprintf("%.6s %d %d %q", child.Name, child.Err, child.Stat.DataLength, child.Data))
			}
			more = page.More
		}
		want := []string{`a -5 5000 ""`, `nnnnnn -5 1 ""`, `secret -102 0 ""`, `z 0 4 "last"`}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}

		c.ok(jute.OpCreate, &jute.CreateRequest{Path: "/closed", ACL: []jute.ACL{{Perms: jute.PermWrite, ID: jute.WorldAnyone}}})
		for _, tt := range []struct {
			r    jute.ChildrenPageRequest
			want jute.Code
		}{
			{jute.ChildrenPageRequest{Path: "/none"}, jute.ErrNoNode},
			{jute.ChildrenPageRequest{Path: "/closed"}, jute.ErrNoAuth},
			{jute.ChildrenPageRequest{Path: "/p", Limit: -1}, jute.ErrBadArguments},
			{jute.ChildrenPageRequest{Path: "/p", Show: -1}, jute.ErrBadArguments},
			{jute.ChildrenPageRequest{Path: "/p", Show: 3}, jute.ErrBadArguments},
		} {
			if r := c.call(jute.OpChildrenPage, &tt.r); r.Err != tt.want {
				t.Errorf("%+v is answered by %v, want %v", tt.r, r.Err, tt.want)
			}
		}
		for _, n := range []int{0, 3, 5, 10} {
			whole := (&jute.ChildrenPageRequest{Path: "/p"}).Append(nil)
			if r := c.call(jute.OpChildrenPage, rawBody(whole[:n])); r.Err != jute.ErrMarshalling {
				t.Errorf("%d bytes of a request are answered by %v", n, r.Err)
			}
		}
		if page := c.page(jute.ChildrenPageRequest{Path: "/p", After: "zz"}); page.More || page.Names != nil {
			t.Errorf("after the last child: %+v", page)
		}
	})
}

// rawBody is a body that a test has encoded.
type rawBody []byte

func (b rawBody) Append(to []byte) []byte { return append(to, b...) }

// TestLongRepliesAreSent checks that a list of any length is sent, as by Apache's server, that the log
// says once for each connection which node it was, and that mntr shows it.
func TestLongRepliesAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		c.create("/p", "")
		size := 16 + 4
		for i := 0; size <= jute.JavaMaxBuffer; i++ {
			name := fmt.Sprintf("%s%d", strings.Repeat("n", 50_000), i)
			c.ephemeral("/p/" + name)
			if size += 4 + len(name); size <= jute.JavaMaxBuffer {
				c.ok(jute.OpGetChildren, get("/p", false))
			}
		}
		if n := s.logged.FilterMessageSnippet("longer than jute.maxbuffer").Len(); n != 0 {
			t.Errorf("the log has %d lines about replies that clients accept", n)
		}
		if got := s.mntr(t)["long_reply_ago_ms"]; got != "" {
			t.Errorf("mntr says that a reply was long %s ms ago", got)
		}
		reads := &jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpGetChildren, Path: "/p"}, {Type: jute.OpGetChildren, Path: "/p"}}}
		for name, r := range map[string]reply{
			"getChildren":   c.call(jute.OpGetChildren, get("/p", false)),
			"getChildren2":  c.call(jute.OpGetChildren2, get("/p", false)),
			"getEphemerals": c.call(jute.OpGetEphemerals, &jute.GetEphemeralsRequest{Prefix: "/"}),
			"multiRead":     c.call(jute.OpMultiRead, reads),
		} {
			if r.Err != 0 || 16+len(r.body) < size {
				t.Errorf("%s is answered by %v and %d bytes", name, r.Err, len(r.body))
			}
		}
		time.Sleep(5 * time.Second)
		got := s.mntr(t)
		if got["replies_long"] != "4" || got["replies_refused"] != "0" || got["long_reply_ago_ms"] != "5000" {
			t.Errorf("mntr has %s long and %s refused replies, the last one %s ms ago", got["replies_long"], got["replies_refused"], got["long_reply_ago_ms"])
		}
		if n := s.logged.FilterMessageSnippet("longer than jute.maxbuffer").Len(); n != 1 {
			t.Errorf("the log has %d lines about it, want 1", n)
		}
	})
}

// TestMultiReadIsBounded checks that a multiRead of the same data, again and again, is not answered by
// any amount of memory.
func TestMultiReadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		c.create("/p", strings.Repeat("x", 1<<20-100))
		same := func(n int) *jute.MultiRequest {
			return &jute.MultiRequest{Ops: slices.Repeat([]jute.MultiOp{{Type: jute.OpGetData, Path: "/p"}}, n)}
		}
		if r := c.call(jute.OpMultiRead, same(63)); r.Err != 0 {
			t.Errorf("63 MiB: %v", r.Err)
		}
		if r := c.call(jute.OpMultiRead, same(65)); r.Err != jute.ErrMarshalling || len(r.body) > 0 {
			t.Errorf("65 MiB: %v and %d bytes", r.Err, len(r.body))
		}
		c.ping()
	})
}

// TestLongReplies checks that with zkd.maxReply a longer reply is not made, that the
// connection lives, that no watch is set, and that the log says once where it was.
func TestLongReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10_000
		s := startServer(t, fmt.Sprintf("zkd.maxReply=%d", limit))
		c := s.connect(t)
		c.create("/p", "")
		for i := range (limit - 16 - 4 - 68) / (4 + 10) { // as many as fit with a Stat
			c.ephemeral(fmt.Sprintf("/p/%010d", i))
		}
		if r := c.call(jute.OpGetChildren2, get("/p", false)); r.Err != 0 || len(r.body)+16 > limit || len(r.body)+16+14 <= limit {
			t.Fatalf("a listing that just fits: %v with %d bytes, the limit is %d", r.Err, len(r.body), limit)
		}
		for i := range 10 {
			c.ephemeral(fmt.Sprintf("/p/more-%d", i))
		}
		reads := func(ops ...jute.MultiOp) *jute.MultiRequest { return &jute.MultiRequest{Ops: ops} }
		for name, r := range map[string]reply{
			"getChildren":   c.call(jute.OpGetChildren, get("/p", true)),
			"getChildren2":  c.call(jute.OpGetChildren2, get("/p", true)),
			"getEphemerals": c.call(jute.OpGetEphemerals, &jute.GetEphemeralsRequest{Prefix: "/"}),
			"multiRead":     c.call(jute.OpMultiRead, reads(jute.MultiOp{Type: jute.OpGetData, Path: "/"}, jute.MultiOp{Type: jute.OpGetChildren, Path: "/p"})),
		} {
			if r.Err != jute.ErrMarshalling || len(r.body) > 0 {
				t.Errorf("%s is answered by %v and %d bytes", name, r.Err, len(r.body))
			}
		}
		c.create("/p/again", "") // would fire the watch
		c.ping()
		if len(c.events) > 0 {
			t.Errorf("a read that failed has set a watch: %v", c.events)
		}
		if r := c.call(jute.OpGetEphemerals, &jute.GetEphemeralsRequest{Prefix: "/p/more"}); r.Err != 0 {
			t.Errorf("few ephemerals: %v", r.Err)
		}
		if n := s.logged.FilterMessageSnippet("longer than zkd.maxReply").Len(); n != 1 {
			t.Errorf("the log has %d lines about it, want 1", n)
		}
	})
}

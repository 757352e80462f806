package server

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// looking opens a session on a connection that may look at the past.
func (s *testServer) looking(t testing.TB) *client {
	t.Helper()
	return s.asking(t, jute.FeaturePast, nil)
}

// look returns one response.
func (c *client) look(r jute.PastRequest) (page jute.PastResponse) {
	c.t.Helper()
	got := c.ok(jute.OpPast, &r)
	d := jute.NewDecoder(got.body)
	page.Decode(&d)
	if d.Err() != nil || len(d.Rest()) > 0 {
		c.t.Fatalf("past of %v: error %v, %d bytes left", r, d.Err(), len(d.Rest()))
	}
	return page
}

// wholeLook returns all that a look finds, as one response.
func (c *client) wholeLook(r jute.PastRequest) (all jute.PastResponse) {
	c.t.Helper()
	for {
		page := c.look(r)
		page.Nodes, page.Changes = append(all.Nodes, page.Nodes...), append(all.Changes, page.Changes...)
		if all = page; page.Look == 0 {
			return all
		}
		r.Look = page.Look
	}
}

// shownPast says in words what a look has found.
func shownPast(p *jute.PastResponse) string {
	var words []string
	for i := range p.Nodes {
		n := &p.Nodes[i]
		text := n.Name + "=" + string(n.Data)
		if n.Err != 0 {
			text = n.Name + "?"
		}
		words = append(words, text)
	}
	for i := range p.Changes {
		words = append(words, p.Changes[i].Op+" "+p.Changes[i].Name)
	}
	if p.Code != 0 {
		words = append(words, p.Code.Error()+": "+p.Text)
	}
	return strings.Join(words, " ")
}

// TestPastIsTheModel makes random changes while a model keeps each state, and then asks for states at random moments, of subtrees and of single nodes, and
// for the changes, on a server that has small pages and few snapshots.
func TestPastIsTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxBuffer = 4096
		s := startServer(t, fmt.Sprintf("jute.maxbuffer=%d", maxBuffer), "snapCount=100", "autopurge.purgeInterval=0")
		c := s.looking(t)
		rng := rand.New(rand.NewPCG(seeds.First(t), 7))
		now := map[string]string{"/a": ""}
		c.create("/a", "")
		type moment struct {
			zxid  jute.Zxid
			nodes map[string]string
		}
		past := []moment{{c.zxid, maps.Clone(now)}}
		paths := []string{"/a", "/a/0", "/a/1", "/a/0/x", "/a/0/y", "/a/1/x", "/a/1/x/z"}
		for i := range 600 {
			path := paths[rng.IntN(len(paths))]
			data := fmt.Sprint(i, strings.Repeat("d", rng.IntN(800)))
			has := func(p string) bool { _, ok := now[p]; return ok }
			below := func(p string) bool { return strings.HasPrefix(p, path+"/") }
			switch {
			case path != "/a" && !has(path) && has(path[:strings.LastIndexByte(path, '/')]):
				c.create(path, data)
				now[path] = data
			case path != "/a" && has(path) && rng.IntN(3) == 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(now)), below):
				c.ok(jute.OpDelete, &jute.DeleteRequest{Path: path, Version: -1})
				delete(now, path)
			case has(path):
				c.set(path, data)
				now[path] = data
			default:
				continue
			}
			past = append(past, moment{c.zxid, maps.Clone(now)})
		}
		for range 100 {
			m := past[rng.IntN(len(past))]
			root := paths[rng.IntN(len(paths))]
			below := rng.IntN(2) == 0
			got := c.wholeLook(jute.PastRequest{Path: root, Show: jute.ShowData, Below: below, Zxid: m.zxid})
			var want []string
			for _, p := range slices.SortedFunc(maps.Keys(m.nodes), func(a, b string) int { return strings.Compare(a, b) }) {
				rel, in := strings.CutPrefix(p, root)
				if in && (rel == "" || rel[0] == '/' && (below || strings.Count(rel, "/") == 1)) {
					want = append(want, rel+"="+m.nodes[p])
				}
			}
			if text := shownPast(&got); text != strings.Join(want, " ") || got.Zxid != m.zxid || got.From == "" {
				t.Fatalf("%s at %v, below %v: %.300q of %q at %v\nwant %.300q", root, m.zxid, below, text, got.From, got.Zxid, want)
			}
		}
		all := c.wholeLook(jute.PastRequest{Path: "/a", Show: jute.ShowChangedData, Below: true, Limit: 10_000})
		if len(all.Changes) != len(past) || all.More {
			t.Fatalf("%d changes (more: %v), want %d", len(all.Changes), all.More, len(past))
		}
		for i := range all.Changes {
			x := &all.Changes[i]
			path := "/a" + x.Name
			want, there := past[i].nodes[path]
			if x.Zxid != past[i].zxid || there != (x.Op != "delete") || string(x.After) != want || x.Of != 1 || x.Session != c.session {
				t.Fatalf("change %d: %s of %s at %v, to %.20q: want %v, to %.20q", i, x.Op, path, x.Zxid, x.After, past[i].zxid, want)
			}
		}
		s.noErrors(t)
	})
}

// TestPastNeedsBothRights asks for the past of nodes as those who may read them now or could read them then, and not both.
func TestPastNeedsBothRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, superIs)
		c, admin := s.looking(t), s.looking(t)
		if code := admin.addAuth("digest", "super:secret"); code != 0 {
			t.Fatal(code)
		}
		public := []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}
		mine := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: "super:x"}}}
		acl := func(path string, list []jute.ACL) {
			admin.ok(jute.OpSetACL, &jute.SetACLRequest{Path: path, ACL: list, Version: -1})
		}
		for _, path := range []string{"/a", "/a/is", "/a/never", "/a/never/below", "/a/open", "/a/was"} {
			c.create(path, "1")
		}
		acl("/a/is", mine)
		acl("/a/never", mine)
		admin.set("/a/is", "2")
		then := admin.zxid
		acl("/a/is", public)
		acl("/a/was", mine)
		admin.ok(jute.OpDelete, &jute.DeleteRequest{Path: "/a/never/below", Version: -1})
		look := jute.PastRequest{Path: "/a", Show: jute.ShowACLs, Below: true, Zxid: then}
		for _, tt := range []struct {
			who  *client
			show int32
			want string
		}{
			{c, jute.ShowACLs, "=1 /is? /never? /open=1 /was?"},
			{admin, jute.ShowACLs, "=1 /is=2 /never=1 /never/below=1 /open=1 /was=1"},
			{c, jute.ShowChanges, "create  create /is create /open"}, // and none to a list that was closed
			{admin, jute.ShowChanges, "create  create /is create /never create /never/below create /open create /was setACL /is setACL /never set /is setACL /is setACL /was delete /never/below"},
		} {
			r := look
			if r.Show = tt.show; tt.show == jute.ShowChanges {
				r.Zxid = 0
			}
			got := tt.who.wholeLook(r)
			if text := shownPast(&got); text != tt.want {
				t.Errorf("show %d: %s\nwant %s", tt.show, text, tt.want)
			}
			for i := range got.Changes {
				if known := got.Changes[i].Address != ""; known != (tt.who == admin) {
					t.Errorf("change %d has the address %q", i, got.Changes[i].Address)
				}
			}
		}
		// What is closed while somebody looks is closed.
		r := look
		r.Zxid = then - 3 // before /a/is and /a/never were closed
		first := c.look(r)
		acl("/a/open", mine)
		r.Look = first.Look
		for first.Look != 0 && len(first.Nodes) == 0 {
			first = c.look(r)
		}
		if text := shownPast(&first); first.Look == 0 && len(first.Nodes) != 5 || strings.Contains(text, "/was=") {
			t.Errorf("%s", text)
		}
		s.noErrors(t)
	})
}

// TestLooksTakeTurns has two clients look at once: one waits until the look of the other one has ended, in each way that it can.
func TestLooksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "jute.maxbuffer=4096")
		c := s.looking(t)
		c.create("/a", "")
		for i := range 20 {
			c.create(fmt.Sprintf("/a/%02d", i), strings.Repeat("x", 1000))
		}
		r := jute.PastRequest{Path: "/a", Show: jute.ShowData, Zxid: c.zxid}
		begin := func(c *client) jute.PastRequest {
			t.Helper()
			page := c.look(r)
			if page.Code != 0 || page.Look == 0 {
				t.Fatalf("begun: %+v", page)
			}
			return jute.PastRequest{Look: page.Look, Show: jute.ShowData}
		}
		refused := func(c *client, r jute.PastRequest, code jute.Code, text string) {
			t.Helper()
			if page := c.look(r); page.Code != code || !strings.Contains(page.Text, text) || page.Look != 0 {
				t.Errorf("%v %q, want %v %q", page.Code, page.Text, code, text)
			}
		}
		other := s.looking(t)
		more := begin(c)
		refused(other, r, jute.ErrThrottledOp, "one at a time")
		refused(other, more, jute.ErrOperationTimeout, "begin again")
		if page := c.look(jute.PastRequest{Look: more.Look}); page.Look != 0 || page.Code != 0 {
			t.Errorf("ended: %+v", page)
		}
		refused(c, more, jute.ErrOperationTimeout, "begin again")

		begin(other)
		refused(c, r, jute.ErrThrottledOp, "one at a time")
		other.ok(jute.OpCloseSession, nil)
		other.eof("after the end of its session")
		synctest.Wait()
		more = begin(c)
		begin(c) // another wish of the same client
		refused(c, more, jute.ErrOperationTimeout, "begin again")

		late := s.looking(t)
		for range 20 { // c does not ask on, and lives
			time.Sleep(time.Second)
			c.ping()
			late.ping()
		}
		more = begin(late)
		for range 20 { // and who asks on goes on
			time.Sleep(time.Second)
			late.ping()
			c.ping()
			if page := late.look(more); page.Look == 0 {
				if page.Code != 0 {
					t.Errorf("%+v", page)
				}
				break
			}
		}
		begin(c)
		for _, tt := range []struct {
			r    jute.PastRequest
			code jute.Code
			text string
		}{
			{jute.PastRequest{Path: "/a", Show: jute.ShowData}, jute.ErrBadArguments, "which moment"},
			{jute.PastRequest{Path: "/a", Show: 17, Zxid: 1}, jute.ErrBadArguments, "not known here"},
			{jute.PastRequest{Path: "/a", Show: jute.ShowNames, Zxid: 1}, jute.ErrBadArguments, "not known here"},
			{jute.PastRequest{Path: "/a/", Show: jute.ShowData, Zxid: 1}, jute.ErrBadArguments, "path"},
			{jute.PastRequest{Path: "", Show: jute.ShowData, Zxid: 1}, jute.ErrBadArguments, "path"},
			{jute.PastRequest{Path: "/zookeeper/config", Show: jute.ShowData, Zxid: 1}, jute.ErrBadArguments, "belongs to the servers"},
			{jute.PastRequest{Path: "/a", Show: jute.ShowData, Zxid: 1 << 40}, jute.ErrBadArguments, "is not reached"},
			{jute.PastRequest{Path: "/a", Show: jute.ShowData, Time: time.Now().Add(time.Hour).UnixMilli()}, jute.ErrBadArguments, "in the future"},
			{jute.PastRequest{Path: "/a", Show: jute.ShowData, Time: -1 << 62}, jute.ErrBadArguments, "before the first"},
			{jute.PastRequest{Path: "/a", Show: jute.ShowData, Time: 1}, jute.ErrBadArguments, "before the first"},
		} {
			refused(c, tt.r, tt.code, tt.text)
		}
		if got := c.wholeLook(jute.PastRequest{Path: "/none", Show: jute.ShowData, Time: -1}); got.Code != 0 || len(got.Nodes) != 0 || got.Zxid == 0 {
			t.Errorf("of no node: %+v", got)
		}
		s.noErrors(t)
	})
}

// TestLookOfASessionThatMoves begins looks on connections that end meanwhile, as their session continues on another one. The race detector sees that what
// is looked for is not theirs any more.
func TestLookOfASessionThatMoves(t *testing.T) {
	s := startServer(t)
	c := s.looking(t)
	for range 300 {
		c.send(jute.OpPast, &jute.PastRequest{Path: "/a", Show: jute.ShowChanges})
		c = s.asking(t, jute.FeaturePast, c)
	}
	s.noErrors(t)
}

// TestHistoryHours lets a server work for eight hours that is to keep two hours of the past, and looks at moments of it. Of one that has no room for
// that, the newest snapshots stay as always.
func TestHistoryHours(t *testing.T) {
	for _, tt := range []struct {
		line string
		kept bool
	}{{"zkd.historyKb=1000000", true}, {"zkd.historyKb=100", false}} {
		t.Run(tt.line, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(t, "snapCount=20", "zkd.historyHours=2", tt.line)
				c := s.looking(t)
				c.create("/a", "")
				for minute := range 8 * 60 {
					c.set("/a", fmt.Sprintf("%d %01000d", minute, 0))
					for range 6 {
						time.Sleep(10 * time.Second)
						c.get("/a") // so that its session lasts
					}
				}
				time.Sleep(5 * time.Second) // the purge of the hour is over
				synctest.Wait()
				at := func(ago time.Duration) string {
					p := c.wholeLook(jute.PastRequest{Path: "/a", Show: jute.ShowData, Time: -ago.Milliseconds()})
					minute, _, _ := strings.Cut(shownPast(&p), " ")
					return minute
				}
				was := at(2 * time.Hour)
				if kept := was == "=360" || was == "=359"; kept != tt.kept {
					t.Errorf("two hours ago: %q", was)
				}
				if got := at(5 * time.Hour); strings.HasPrefix(got, "=") {
					t.Errorf("five hours ago: %q, which is too old", got)
				}
				v := s.overview.read()
				if far := v.PastAge >= 2*time.Hour; far != tt.kept || v.PastCut == tt.kept || v.PastWanted != 2*time.Hour || v.PastZxid == 0 || v.PastBytes < 100<<10 || v.PastBytes > 1_000_000<<10 {
					t.Errorf("it says that the past goes back %v to zxid %#x, with %d bytes, cut: %v", v.PastAge, v.PastZxid, v.PastBytes, v.PastCut)
				}
				oldest := c.wholeLook(jute.PastRequest{Path: "/a", Show: jute.ShowData, Time: -v.PastAge.Milliseconds()})
				older := c.wholeLook(jute.PastRequest{Path: "/a", Show: jute.ShowData, Time: -(v.PastAge + time.Minute).Milliseconds()})
				if oldest.Zxid != jute.Zxid(v.PastZxid) || !strings.Contains(older.Text, fmt.Sprintf("too old: this server's log reaches back to zxid %#x, of ", v.PastZxid)) {
					t.Errorf("at the oldest moment %v %q, and a minute before it %q", oldest.Zxid, oldest.Text, older.Text)
				}
				s.snapshots.mu.Lock()
				n := len(s.snapshots.mu.refs)
				s.snapshots.mu.Unlock()
				if n < 3 || !tt.kept && n > 4 || n > 12 {
					t.Errorf("%d snapshots are kept", n)
				}
				s.noErrors(t)
			})
		})
	}
}

// TestHistoryOutlivesAClock sets the clock of a server ahead by a year for half an hour: the past that it is to keep stays.
func TestHistoryOutlivesAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "snapCount=20", "zkd.historyHours=2", "zkd.historyKb=1000000")
		c := s.looking(t)
		c.create("/a", "")
		minute := 0
		work := func(minutes int) {
			for range minutes {
				c.set("/a", fmt.Sprintf("%d %01000d", minute, 0))
				minute++
				for range 6 {
					time.Sleep(10 * time.Second)
					c.get("/a") // so that its session lasts
				}
			}
		}
		work(4 * 60)
		s.setClock(365 * 24 * time.Hour)
		work(30)
		s.setClock(-365 * 24 * time.Hour)
		work(20)
		p := c.wholeLook(jute.PastRequest{Path: "/a", Show: jute.ShowData, Time: -(110 * time.Minute).Milliseconds()})
		if was, _, _ := strings.Cut(shownPast(&p), " "); was != "=180" && was != "=179" {
			t.Errorf("an hour before the clock was set: %q", was)
		}
		s.noErrors(t)
	})
}

// TestPastReaches looks how far back a server says that the past goes, from before its first write on.
func TestPastReaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		if v := s.overview.read(); v.PastAge != 0 || v.PastZxid != 0 || v.PastCut {
			t.Errorf("before the first write: %v, %#x", v.PastAge, v.PastZxid)
		}
		c := s.looking(t)
		c.create("/a", "")
		time.Sleep(5 * time.Second)
		c.set("/a", "b")
		synctest.Wait()
		if v := s.overview.read(); v.PastAge < 5*time.Second || v.PastAge > 6*time.Second || v.PastZxid != 0 || v.PastBytes == 0 || v.PastWanted != 0 {
			t.Errorf("after 5 seconds: %v, %#x, %d bytes", v.PastAge, v.PastZxid, v.PastBytes)
		}
		s.noErrors(t)
	})
}

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/admin"
)

// feed reads a feed for a second, and returns the status and what has come: of each event the id,
// the kind, and the path.
func (s *testServer) feed(t *testing.T, query string, header ...string) (status int, events string) {
	t.Helper()
	w := s.feedText(t, query, header...)
	if w.Code != http.StatusOK {
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	var b strings.Builder
	for event := range strings.SplitSeq(w.Body.String(), "\n\n") {
		if m := feedEventText.FindStringSubmatch(event); m != nil {
			b.WriteString(strings.TrimLeft(m[1]+" ", " ") + m[2] + " " + m[3] + ", ")
		}
	}
	return w.Code, strings.TrimSuffix(b.String(), ", ")
}

// feedText returns the answer as it came within a second.
func (s *testServer) feedText(t *testing.T, query string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/feed?"+query, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.AdminPages("/commands", "").ServeHTTP(w, r)
	return w
}

var feedEventText = regexp.MustCompile(`^(?:id: (0x[0-9a-f]+)\n)?event: (\w+)\ndata: .*"path":"([^"]*)"`)

// A feed has the changes below a path that its reader may read, those of one transaction together,
// and continues where a reader was.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c, other := s.connect(t), s.connect(t)
		c.create("/a", "1")
		c.ok(jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte("ann:pw")})
		secret := create("/a/secret", "2", 0)
		secret.ACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}
		c.ok(jute.OpCreate, secret)
		c.set("/a/secret", "3")
		c.set("/a", "4")
		c.create("/b", "5")
		c.create("/ab", "6")
		other.ephemeral("/a/e1")
		other.ephemeral("/a/e2")
		other.ok(jute.OpCloseSession, nil)
		c.ok(jute.OpDelete, del("/a/secret"))
		const ephemerals = "0x9 created /a/e1, 0xa created /a/e2, deleted /a/e1, 0xb deleted /a/e2"
		for _, tt := range []struct {
			query, want string
			header      []string
		}{
			{"path=/a&after=0", "0x3 created /a, 0x6 data /a, " + ephemerals, nil},
			{"path=/a&after=0", "0x3 created /a, 0x4 created /a/secret, 0x5 data /a/secret, 0x6 data /a, " + ephemerals + ", 0xc deleted /a/secret",
				[]string{"Authorization", "digest ann:pw"}},
			{"path=/&after=0x5", "0x6 data /a, 0x7 created /b, 0x8 created /ab, " + ephemerals, nil},
			{"path=/a&after=0", ephemerals, []string{"Last-Event-ID", "0x8"}},
			{"path=/a", "", nil}, // from now on
			{"after=0x8", ephemerals, nil},
		} {
			if status, events := s.feed(t, tt.query, tt.header...); status != http.StatusOK || events != tt.want {
				t.Errorf("%s %v: %d\n%s\nwant\n%s", tt.query, tt.header, status, events, tt.want)
			}
		}
		go func() {
			time.Sleep(300 * time.Millisecond)
			c.set("/b", "7")
			c.ok(jute.OpSetACL, &jute.SetACLRequest{Path: "/b", ACL: []jute.ACL{{Perms: jute.PermRead, ID: jute.ID{Scheme: "world", ID: "anyone"}}}, Version: -1})
			time.Sleep(300 * time.Millisecond)
			c.ok(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{
				{Type: jute.OpSetData, Path: "/ab", Version: -1}, {Type: jute.OpSetData, Path: "/a", Version: -1}, {Type: jute.OpSetData, Path: "/ab", Version: -1}}})
		}()
		if status, events := s.feed(t, "path=/ab"); status != http.StatusOK || events != "data /ab, 0xf data /ab" {
			t.Errorf("a feed that waits: %d %s", status, events)
		}
	})
}

// TestFeedRefuses asks for feeds that there can't be.
func TestFeedRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		s.connect(t).create("/a", "1")
		for _, tt := range []struct {
			query  string
			status int
			header []string
		}{
			{"after=x", http.StatusBadRequest, nil},
			{"path=a", http.StatusBadRequest, nil},
			{"path=/", http.StatusUnauthorized, []string{"Authorization", "nis ann:pw"}},
		} {
			if status, problem := s.feed(t, tt.query, tt.header...); status != tt.status {
				t.Errorf("%s: %d %s", tt.query, status, problem)
			}
		}
		s = s.restart(t) // it reads the changes in the log again
		if status, events := s.feed(t, "after=0"); status != http.StatusOK || events != "0x2 created /a" {
			t.Errorf("after a restart: %d %s", status, events)
		}
		small := startServer(t, "zkd.feedHistoryKb=1")
		c := small.connect(t)
		c.create("/a", "1")
		for range 10 {
			c.set("/a", strings.Repeat("x", 100_000))
		}
		for _, again := range []bool{false, true} {
			if again {
				small = small.restart(t)
			}
			if status, problem := small.feed(t, "after=0"); status != http.StatusGone || !strings.Contains(problem, "only those after 0x") {
				t.Errorf("changes that were forgotten, restarted %v: %d %s", again, status, problem)
			}
		}
		off := startServer(t, "zkd.feedHistoryKb=0")
		if status, problem := off.feed(t, ""); status != http.StatusNotImplemented {
			t.Errorf("without a history: %d %s", status, problem)
		}
	})
}

// A feed over HTTP counts as one, until its client goes.
func TestFeedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "zkd.maxFeeds=1", "zkd.feedHistoryKb=1")
		c := s.subscriber(t, nil)
		refused := make(chan jute.Code, 1)
		go func() {
			time.Sleep(500 * time.Millisecond)
			refused <- c.call(jute.OpSubscribe, new(all(1, jute.FromNow))).Err
		}()
		if status, problem := s.feed(t, ""); status != http.StatusOK || <-refused != jute.ErrQuotaExceeded {
			t.Errorf("a feed over HTTP: %d %s, and it leaves room for another one", status, problem)
		}
		c.subscribe(all(1, jute.FromNow))
		if status, problem := s.feed(t, ""); status != http.StatusTooManyRequests || !strings.Contains(problem, "zkd.maxFeeds") {
			t.Errorf("one too many over HTTP: %d %s", status, problem)
		}
		if m := s.mntr(t); m["feeds"] != "1" || m["feeds_refused"] != "2" || m["feed_history_bytes"] != "0" {
			t.Errorf("feeds %s, refused %s, history %s", m["feeds"], m["feeds_refused"], m["feed_history_bytes"])
		}
		c.nc.Close()
		synctest.Wait()
		writer := s.connect(t)
		writer.create("/a", "")
		for range 10 {
			writer.set("/a", strings.Repeat("x", 100_000))
		}
		if status, problem := s.feed(t, "after=0"); status != http.StatusGone {
			t.Errorf("after the other one has gone: %d %s", status, problem)
		}
		m := s.mntr(t)
		if bytes, _ := strconv.Atoi(m["feed_history_bytes"]); m["feeds"] != "0" || m["feeds_compacted"] != "1" || bytes < 100_000 || bytes > 300_000 {
			t.Errorf("feeds %s, compacted %s, history %d", m["feeds"], m["feeds_compacted"], bytes)
		}
	})
}

// At zkd.maxFeeds, who has most feeds gives one up to who has fewer, over HTTP, too.
func TestFeedsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "zkd.maxFeeds=3")
		a, b := s.subscriber(t, nil), s.subscriber(t, nil)
		for id := range int32(3) {
			a.subscribe(all(id, jute.FromNow))
		}
		synctest.Wait()
		displaced := func() (list []int32) {
			a.pinged()
			for id := range int32(3) {
				if a.ended[id] {
					list = append(list, id)
				}
			}
			return list
		}
		b.create("/a", "")
		synctest.Wait()
		b.subscribe(all(7, jute.FromNow))
		synctest.Wait()
		if got := displaced(); !slices.Equal(got, []int32{0}) || a.at[0] != 3 || text(a.got[0]) != "0x3 created /a" {
			t.Errorf("%v have given way, and the first has %s up to %v", got, text(a.got[0]), a.at[0])
		}
		ended := make(chan string)
		go func() {
			_, events := s.feed(t, "after=0") // of another address
			ended <- events
		}()
		synctest.Wait()
		if got := displaced(); !slices.Equal(got, []int32{0, 1}) {
			t.Errorf("%v have given way to a feed over HTTP", got)
		}
		b.create("/b", "")
		a.pinged()
		if text(a.got[2]) != "0x3 created /a, 0x4 created /b" {
			t.Errorf("the feed that is left has %s", text(a.got[2]))
		}
		c := s.subscriber(t, nil)
		if err := c.call(jute.OpSubscribe, new(all(1, jute.FromNow))).Err; err != jute.ErrQuotaExceeded {
			t.Errorf("a client that would have as many: %v", err)
		}
		if m := s.mntr(t); m["feeds"] != "3" || m["feeds_displaced"] != "2" || m["feeds_refused"] != "1" || m["feeds_compacted"] != "0" {
			t.Errorf("feeds %s, displaced %s, refused %s, compacted %s", m["feeds"], m["feeds_displaced"], m["feeds_refused"], m["feeds_compacted"])
		}
		if events := <-ended; events != "0x3 created /a, 0x4 created /b" {
			t.Errorf("the feed over HTTP has %s", events)
		}
	})
}

// A reader that resumes at a server that has been restarted gets the changes that follow the last one it had.
func TestFeedResumedAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		c.create("/a", "1")
		_, events := s.feed(t, "after=0")
		id, _, _ := strings.Cut(events, " ")
		c.set("/a", "2")
		s = s.restart(t)
		s.connect(t).set("/a", "3")
		if _, events := s.feed(t, "after=0", "Last-Event-ID", id); events != "0x3 data /a, 0x5 data /a" {
			t.Errorf("after %s: %s", id, events)
		}
	})
}

// A reader is told once that it may no longer read a node, without its Stat.
func TestFeedOfANodeThatIsHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		c.ok(jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte("ann:pw")})
		c.create("/a", "1")
		c.ok(jute.OpSetACL, &jute.SetACLRequest{Path: "/a", ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}, Version: -1})
		c.set("/a", "2")
		for _, tt := range []struct {
			want  string
			stats int
			auth  []string
		}{
			{"0x2 created /a, 0x3 acl /a", 1, nil},
			{"0x2 created /a, 0x3 acl /a, 0x4 data /a", 3, []string{"Authorization", "digest ann:pw"}},
		} {
			if status, events := s.feed(t, "after=0", tt.auth...); status != http.StatusOK || events != tt.want {
				t.Errorf("with %v: %d %s, want %s", tt.auth, status, events, tt.want)
			}
			if n := strings.Count(s.feedText(t, "after=0", tt.auth...).Body.String(), `"stat":`); n != tt.stats {
				t.Errorf("with %v: %d Stats, want %d", tt.auth, n, tt.stats)
			}
		}
	})
}

// After a restart the history has as many of the latest changes as it has room for, without a gap,
// although a start adds only the end of a long log to it.
func TestFeedAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, kib = 20_000, 128
		s := startServer(t, fmt.Sprintf("zkd.feedHistoryKb=%d", kib))
		c := s.connect(t)
		c.create("/a", "1")
		for range 60 {
			c.set("/a", strings.Repeat("x", size))
		}
		s = s.restart(t)
		oldest, last := s.changes.Span()
		if last != s.state.Applied() || (last-oldest)*size < kib<<10/2 {
			t.Errorf("the history has what came after %v, up to %v of %v", oldest, last, s.state.Applied())
		}
		var want []string
		for zxid := oldest + 1; zxid <= last; zxid++ {
			want = append(want, fmt.Sprintf("%v data /a", zxid))
		}
		if status, events := s.feed(t, fmt.Sprintf("after=%v", oldest)); status != http.StatusOK || events != strings.Join(want, ", ") {
			t.Errorf("what came after %v: %d %s, want %v", oldest, status, events, want)
		}
	})
}

// A reader that is too slow for the history is told so, and its feed ends.
func TestFeedCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "zkd.feedHistoryKb=1")
		c := s.connect(t)
		c.create("/a", "")
		f, status, problem := s.pages().Feed(t.Context(), admin.FeedRequest{Path: "/"})
		if f == nil {
			t.Fatal(status, problem)
		}
		for range 10 {
			c.set("/a", strings.Repeat("x", 100_000))
		}
		var gone *jute.CompactedError
		if err := f.Next(t.Context(), func(*jute.Change, bool) {}); !errors.As(err, &gone) || gone.Oldest <= gone.After {
			t.Errorf("error %v", err)
		}
	})
}

// TestFeedWithoutFollowingHasAll reads the changes of a node that there are, while most changes are those of others: the feed looks at
// several batches in which there is nothing for it.
func TestFeedWithoutFollowingHasAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t, apiLines...).caller(t)
		c.want(201, "", "POST", "/v1/nodes/other", "")
		var ops []string
		for range 500 {
			ops = append(ops, `{"op":"set","path":"/other","text":"x"}`)
		}
		for range 8 {
			c.want(200, "", "POST", "/v1/multi", `{"ops":[`+strings.Join(ops, ",")+`]}`)
		}
		c.want(201, "", "POST", "/v1/nodes/last", "")
		for range 20 { // it was left to chance
			c.want(200, "event: created", "GET", "/v1/feed?path=/last&after=0x0&follow=false", "")
		}
	})
}

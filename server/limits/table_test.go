package limits

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// newTable returns a table with rules that are called a, b, c and so on.
func newTable(t *testing.T, texts ...string) *Table {
	t.Helper()
	var rules []Rule
	for i, text := range texts {
		rules = append(rules, rule1(t, string(rune('a'+i)), text))
	}
	if err := Conflict(rules); err != nil {
		t.Fatal(err)
	}
	return New(rules, func(path string) bool { return !strings.HasPrefix(path, "/made-up") })
}

func noUses(Resource) int64 { return 0 }

func open(t *testing.T, table *Table, address, identity string) *Client {
	t.Helper()
	c, ok := table.Open(address, noUses)
	if !ok || identity != "" && !c.Identify(0, whos(identity), none) {
		t.Fatalf("the connection of %s %s is refused", address, identity)
	}
	return c
}

// whos returns identities with these names, "" for none.
func whos(names ...string) (all []Who) {
	for _, name := range names {
		if name != "" {
			all = append(all, Who{name, name})
		}
	}
	return all
}

func none(jute.SessionID) bool { return false }

// TestEveryIdentityCounts checks that a client with several identities has the limits of each, in whatever order
// it has proved them, and that those which end count no longer.
func TestEveryIdentityCounts(t *testing.T) {
	for _, names := range [][]string{{"digest:x", "jwt:ann"}, {"jwt:ann", "digest:x"}} {
		table := newTable(t, "identity * requests/s=10 connections=2", "identity jwt:ann watches=1")
		used := int64(0)
		a, _ := table.Open("h1", func(Resource) int64 { return used })
		if !a.Identify(0, whos(names...), none) || !a.Use(Watches, 1) {
			t.Errorf("%v: a watch is refused", names)
		}
		if used = 1; a.Use(Watches, 1) {
			t.Errorf("%v: the limit of watches does not hold", names)
		}
		for range 11 {
			a.Take(0, time.Second, 1, nil)
		}
		b := open(t, table, "h2", "jwt:ann")
		if wait, _ := b.Take(0, time.Second, 1, nil); wait == 0 {
			t.Errorf("%v: another connection of jwt:ann does not share the rate", names)
		}
		if c, _ := table.Open("h3", noUses); c.Identify(0, whos("digest:y", "jwt:ann"), none) {
			t.Errorf("%v: a third connection of jwt:ann", names)
		}
		if !a.Identify(0, whos("digest:x"), none) {
			t.Errorf("%v: refused when an identity ends", names)
		}
		open(t, table, "h3", "jwt:ann")
		if wait, _ := open(t, table, "h4", "digest:x").Take(0, time.Second, 1, nil); wait == 0 {
			t.Errorf("%v: the other identity does not count", names)
		}
	}
}

// TestMostSpecific checks which rule counts, and who shares a meter.
func TestMostSpecific(t *testing.T) {
	table := newTable(t,
		"address * requests/s=1", "address 10.0.0.0/8 requests/s=1", "address 10.1.0.0/16 requests/s=1 bytes/s=1", "address ::/0 watches=1",
		"identity * requests/s=1", "identity digest:bob requests/s=1",
		"subtree / requests/s=1", "subtree /a requests/s=1", "subtree /a/* requests/s=1", "subtree /a/b/c requests/s=1 bytes/s=1")
	for _, test := range []struct {
		rule    *rule
		subject string
		want    string
	}{
		{ruleOf(table.ofAddress("11.0.0.1", Requests)), "", "a 11.0.0.1"},
		{ruleOf(table.ofAddress("10.9.0.1", Requests)), "", "b 10.0.0.0/8"},
		{ruleOf(table.ofAddress("10.1.0.1", Requests)), "", "c 10.1.0.0/16"},
		{ruleOf(table.ofAddress("10.9.0.1", Bytes)), "", ""},
		{ruleOf(table.ofAddress("::1", Watches)), "", "d ::/0"},
		{ruleOf(table.ofAddress("pipe", Requests)), "", "a pipe"},
		{ruleOf(table.ofIdentity("digest:eve", Requests), ""), "", "e "},
		{ruleOf(table.ofIdentity("digest:bob", Requests), ""), "", "f "},
		{ruleOf(table.ofIdentity("", Requests), ""), "", ""},
		{ruleOf(table.ofPath("/", Requests)), "", "g /"},
		{ruleOf(table.ofPath("/x/y", Requests)), "", "g /"},
		{ruleOf(table.ofPath("/a", Requests)), "", "h /a"},
		{ruleOf(table.ofPath("/a/x", Requests)), "", "i /a/x"},
		{ruleOf(table.ofPath("/a/x/y", Requests)), "", "i /a/x"},
		{ruleOf(table.ofPath("/a/b/c/d", Requests)), "", "j /a/b/c"},
		{ruleOf(table.ofPath("/a/b/c/d", Bytes)), "", "j /a/b/c"},
		{ruleOf(table.ofPath("/ab", Requests)), "", "g /"},
		{ruleOf(table.ofPath("x", Requests)), "", ""},
		{ruleOf(table.ofPath("", Requests)), "", ""},
	} {
		got := ""
		if test.rule != nil {
			got = test.rule.Name
		}
		if got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// ruleOf makes a rule whose name is that of the one found, and its subject.
func ruleOf(r *rule, subject string) *rule {
	if r == nil {
		return nil
	}
	return &rule{Rule: Rule{Name: r.Name + " " + subject}}
}

func TestConnections(t *testing.T) {
	table := newTable(t, "address * connections=1,2", "identity * connections=1")
	a, b := open(t, table, "h", ""), open(t, table, "h", "")
	c, ok := table.Open("h", noUses)
	if ok {
		t.Fatal("a third connection is let in")
	}
	c.Close()
	open(t, table, "other", "")
	if !a.Identify(0, whos("x:1"), none) || b.Identify(0, whos("x:1"), none) {
		t.Fatal("an identity has two connections, or none")
	}
	b.Close()
	if !a.Identify(0, whos(""), none) {
		t.Fatal("an identity can't be given back")
	}
	b = open(t, table, "h", "x:1")
	a.Close()
	b.Close()
	for range 2 {
		open(t, table, "h", "")
	}
	if other := open(t, table, "h3", ""); !other.Identify(0, []Who{{"x:1", "another password"}}, none) {
		t.Fatal("others of the same name count")
	}
	want := []Figure{{"a", Connections, 3, 0, 1, 3, 0}, {"b", Connections, 0, 0, 1, 2, 0}}
	if got := table.Figures(); !slices.Equal(got, want) {
		t.Errorf("figures %v, want %v", got, want)
	}
}

// TestSessions checks that a session counts until it ends, whatever becomes of its
// connection, and that a resumed one is never refused.
func TestSessions(t *testing.T) {
	table := newTable(t, "address * sessions=2")
	alive := map[jute.SessionID]bool{}
	exists := func(id jute.SessionID) bool { return alive[id] }
	opened := func(now time.Duration, id jute.SessionID, resumed bool) bool {
		c := open(t, table, "h", "")
		defer c.Close()
		if !c.OpenSession(now, id, resumed, exists) {
			return false
		}
		alive[id] = true
		c.SessionOpened(now)
		return true
	}
	if !opened(0, 1, false) || !opened(0, 2, false) || opened(0, 3, false) {
		t.Fatal("want two sessions")
	}
	if !opened(0, 1, true) || !opened(0, 4, true) {
		t.Fatal("a session can't be resumed")
	}
	delete(alive, 1)
	if opened(0, 5, false) {
		t.Fatal("two sessions of three count as less than two")
	}
	delete(alive, 2)
	if !opened(0, 5, false) {
		t.Fatal("an ended session counts")
	}
	c := open(t, table, "h2", "")
	if !c.OpenSession(0, 6, false, exists) { // its client leaves before it exists
		t.Fatal("refused")
	}
	c.Close()
	table.Tick(arrival-1, exists)
	if n := len(table.meters); n != 2 {
		t.Errorf("%d meters while a session may be on its way, want 2", n)
	}
	clear(alive)
	table.Tick(arrival, exists)
	if n := len(table.meters); n != 0 {
		t.Errorf("%d meters are left", n)
	}
}

// TestSessionFollowsIdentity checks that a session counts for the identity that its client
// has proved last.
func TestSessionFollowsIdentity(t *testing.T) {
	table := newTable(t, "identity * sessions=1")
	exists := func(jute.SessionID) bool { return true }
	a, b := open(t, table, "h", ""), open(t, table, "h", "")
	if !a.OpenSession(0, 1, false, exists) || !b.OpenSession(0, 2, false, exists) {
		t.Fatal("refused without an identity")
	}
	if !a.Identify(0, whos("x:1"), exists) || b.Identify(0, whos("x:1"), exists) {
		t.Error("an identity has two sessions, or none")
	}
	if !a.Identify(0, whos("x:2"), exists) || !b.Identify(0, whos("x:1"), exists) {
		t.Error("the session still counts for the first identity")
	}
}

// TestCounts checks watches against what clients really have.
func TestCounts(t *testing.T) {
	table := newTable(t, "address * watches=2,4")
	var has [2]int64
	var clients [2]*Client
	for i := range clients {
		clients[i], _ = table.Open("h", func(Resource) int64 { return has[i] })
	}
	use := func(i int, n int64) bool {
		ok := clients[i].Use(Watches, n)
		if ok {
			has[i] += n
		}
		return ok
	}
	if !use(0, 2) || !use(1, 2) || use(0, 1) || use(1, 1) {
		t.Fatal("want four watches in all")
	}
	want := []Burst{{"a", Watches, "h", 2, false}}
	if got := table.Bursts(); !slices.Equal(got, want) {
		t.Errorf("bursts %v, want %v", got, want)
	}
	has[0] = 0 // they fire
	if !use(1, 2) || use(1, 1) {
		t.Fatal("watches that fired count")
	}
	has[1] += 3 // restored after a reconnect
	clients[1].Restored()
	has[0], has[1] = 0, 3
	if !use(0, 1) || use(0, 1) {
		t.Fatal("restored watches do not count")
	}
	clients[1].Close()
	if !use(0, 3) || use(0, 1) {
		t.Fatal("the watches of a closed connection count")
	}
	if clients[0].Counts(Ephemerals) || !clients[0].Counts(Watches) {
		t.Error("Counts")
	}
}

// TestSoftOnly checks that a soft limit without a hard one refuses nothing and slows nothing down, and is reported once for
// each burst.
func TestSoftOnly(t *testing.T) {
	table := newTable(t, "address * watches=1, requests/s=2,")
	n := int64(0)
	c, _ := table.Open("h", func(Resource) int64 { return n })
	for range 5 {
		if !c.Use(Watches, 1) {
			t.Error("a watch is refused")
		}
		n++
	}
	if got := table.Bursts(); len(got) != 1 || got[0].Hard || got[0].Limit != 1 {
		t.Errorf("bursts %v, want one of a soft limit", got)
	}
	for range 20 {
		if wait, ok := c.Take(0, time.Second, 1, nil); wait != 0 || !ok {
			t.Errorf("a request waits for %v, %v", wait, ok)
		}
	}
	if got := table.Bursts(); len(got) != 1 || got[0].Hard || got[0].Resource != Requests {
		t.Errorf("bursts %v, want one of a soft limit", got)
	}
}

// TestHardOnly checks that what exceeds a hard limit without a soft one is reported once
// for each burst.
func TestHardOnly(t *testing.T) {
	table := newTable(t, "address * watches=1 requests/s=1")
	n := int64(0)
	c, _ := table.Open("h", func(Resource) int64 { return n })
	use := func() {
		if c.Use(Watches, 1) {
			n++
		}
	}
	use()
	use()
	use()
	if got := table.Bursts(); len(got) != 1 || !got[0].Hard || got[0].Limit != 1 {
		t.Errorf("bursts %v, want one", got)
	}
	n = 0
	use()
	use()
	if got := table.Bursts(); len(got) != 1 {
		t.Errorf("bursts %v, want another one", got)
	}
	for range 5 {
		c.Take(0, time.Hour, 1, nil)
	}
	if got := table.Bursts(); len(got) != 1 || got[0].Resource != Requests {
		t.Errorf("bursts %v, want one", got)
	}
	c.Take(time.Hour, time.Hour, 1, nil)
	for range 5 {
		c.Take(time.Hour, time.Hour, 1, nil)
	}
	if got := table.Bursts(); len(got) != 1 {
		t.Errorf("bursts %v, want another one", got)
	}
}

func TestRates(t *testing.T) {
	table := newTable(t, "address * requests/s=2,4 bytes/s=1000", "subtree /slow requests/s=1", "subtree /each/* bytes/s=10")
	c := open(t, table, "h", "")
	for _, test := range []struct {
		at    time.Duration
		size  int64
		paths []string
		wait  time.Duration
		ok    bool
	}{
		{0, 10, nil, 0, true},
		{0, 10, nil, 0, true},
		{0, 10, nil, 0, true},
		{0, 10, nil, 0, true},
		{0, 10, nil, 0, true}, // one token remains at the time of a second
		{0, 10, nil, 250 * time.Millisecond, true},
		{0, 10, nil, 500 * time.Millisecond, true},
		{0, 10, nil, 750 * time.Millisecond, true},
		{0, 10, nil, time.Second, true},
		{0, 10, nil, time.Second, false}, // longer than patience
		{10 * time.Second, 3000, nil, 0, true},
		{10 * time.Second, 0, nil, time.Second, false},
		{12 * time.Second, 0, nil, 0, true}, // 3000 bytes are paid
		{20 * time.Second, 1, []string{"/slow/x", "/slow/y"}, 0, true},
		{20 * time.Second, 1, []string{"/slow"}, 0, true},
		{20 * time.Second, 1, []string{"/slower"}, 0, true},
		{20 * time.Second, 1, []string{"/x", "/slow"}, time.Second, true},
		{30 * time.Second, 20, []string{"/each/a"}, 0, true},
		{30 * time.Second, 20, []string{"/each/b"}, 0, true},
		{30 * time.Second, 20, []string{"/each/a/c"}, time.Second, true},
	} {
		wait, ok := c.Take(test.at, time.Second, test.size, test.paths)
		if wait != test.wait || ok != test.ok {
			t.Errorf("at %v, %d bytes of %v: wait %v, %v; want %v, %v", test.at, test.size, test.paths, wait, ok, test.wait, test.ok)
		}
	}
	c.Sent(5000)
	c.Take(40*time.Second, time.Second, 0, nil)
	if wait, ok := c.Take(43*time.Second, time.Hour, 0, nil); wait != time.Second || !ok {
		t.Errorf("after 5000 bytes were sent: wait %v, want 1 s", wait)
	}
	if !table.LimitsPaths() {
		t.Error("paths are limited")
	}
}

// TestExtremes checks that no rate and no size overflow.
func TestExtremes(t *testing.T) {
	table := newTable(t, "address * requests/s=1000000000000 bytes/s=1", "identity * bytes/s=1,")
	c := open(t, table, "h", "a:b")
	for i := range 100 {
		c.Sent(1 << 62)
		wait, ok := c.Take(time.Duration(i)*time.Second, 1<<62, 1<<61, nil)
		if wait < 0 || !ok || wait > longest {
			t.Fatalf("wait %v, %v", wait, ok)
		}
	}
}

// TestMetersAreForgotten, but not while they have something to remember.
func TestMetersAreForgotten(t *testing.T) {
	table := newTable(t, "address * requests/s=1 connections=5 watches=5", "subtree /* requests/s=1")
	c := open(t, table, "h", "")
	c.Take(0, time.Hour, 1, []string{"/a"})
	table.Tick(time.Hour, none)
	if n := len(table.meters); n != 3 {
		t.Errorf("%d meters of a connection, want 3", n)
	}
	c.Take(time.Hour, time.Hour, 1, []string{"/a"})
	c.Close()
	table.Tick(time.Hour, none)
	if n := len(table.meters); n != 2 {
		t.Errorf("%d meters with tokens missing, want 2", n)
	}
	table.Tick(time.Hour+time.Second, none)
	if n := len(table.meters); n != 0 {
		t.Errorf("%d meters are left", n)
	}
	c = open(t, table, "h", "")
	for i := range maxMeters + 10 {
		c.Take(0, time.Hour, 1, []string{fmt.Sprintf("/%d", i)})
	}
	if n := len(table.meters); n != maxMeters+1 {
		t.Errorf("%d meters, want at most %d and one that the others share", n, maxMeters)
	}
}

// TestModel compares the rates of a shared meter with a plain token bucket.
func TestModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(seeds.First(t), 1))
	for range 200 {
		rate := 1 + rng.Int64N(1000)
		table := newTable(t, fmt.Sprintf("address * requests/s=%d", rate))
		clients := []*Client{open(t, table, "h", ""), open(t, table, "h", "")}
		now, started := time.Duration(0), []time.Duration{}
		tokens, filled := float64(rate), time.Duration(0) // the model: it may owe
		for range 500 {
			now += time.Duration(rng.Int64N(int64(4 * time.Second / time.Duration(rate))))
			tokens = min(float64(rate), tokens+float64(rate)*(now-filled).Seconds())
			filled = now
			patience := time.Duration(rng.Int64N(int64(3 * time.Second)))
			want := time.Duration(max(0, -tokens) / float64(rate) * 1e9)
			wait, ok := clients[rng.IntN(2)].Take(now, patience, 1, nil)
			if d := want - wait; ok && (d > time.Microsecond || d < -time.Microsecond) {
				t.Fatalf("rate %d at %v: wait %v, want %v", rate, now, wait, want)
			}
			if !ok && want < patience-time.Microsecond || ok && wait > patience {
				t.Fatalf("rate %d at %v: %v with a wait of %v and patience %v", rate, now, ok, want, patience)
			}
			if ok {
				tokens--
				started = append(started, now+wait)
			}
		}
		checkRate(t, started, rate)
	}
}

// checkRate checks that no second has more than the rate and the bucket.
func checkRate(t *testing.T, started []time.Duration, rate int64) {
	t.Helper()
	slices.Sort(started)
	first := 0
	for i, at := range started {
		for started[first] < at-time.Second {
			first++
		}
		if n := int64(i - first + 1); n > 2*rate+2 {
			t.Fatalf("%d requests in a second at a rate of %d", n, rate)
		}
	}
}

// TestFollow checks that rules can be replaced, that those that stay keep their meters, and
// that those of New go first.
func TestFollow(t *testing.T) {
	table := newTable(t, "subtree /a requests/s=1")
	c := open(t, table, "h", "")
	follow := func(rules ...string) {
		var list []Rule
		for _, r := range rules {
			i := strings.LastIndexByte(r, ' ')
			rule, err := ParseRates(r[:i], r[i:])
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, rule)
		}
		table.Follow(list)
	}
	// takes returns how many of three requests are not refused.
	takes := func(path string) (n int) {
		for range 3 {
			if _, ok := c.Take(0, 0, 1, []string{path}); ok {
				n++
			}
		}
		return n
	}
	follow("/a requests/s=1000", "/b requests/s=1", "/a b requests/s=1")
	if a, b, ab := takes("/a"), takes("/b"), takes("/a b"); a != 2 || b != 2 || ab != 2 {
		t.Errorf("%d, %d and %d requests, want 2 of each", a, b, ab)
	}
	follow("/b requests/s=1", "/c bytes/s=1")
	if a, b, c := takes("/a b"), takes("/b"), takes("/c"); a != 3 || b != 0 || c != 2 {
		t.Errorf("%d, %d and %d requests, want 3, 0 and 2", a, b, c)
	}
	follow("/b requests/s=2")
	if b, c := takes("/b"), takes("/c"); b != 3 || c != 3 {
		t.Errorf("%d and %d requests, want 3 and 3", b, c)
	}
	table.Follow(nil)
	table.Tick(time.Hour, none)
	want := []Figure{{"a", Requests, 0, 0, 1, 0, 0}, {Followed, Requests, 0, 0, 5, 0, 0}, {Followed, Bytes, 0, 0, 1, 0, 0}}
	if got := table.Figures(); !slices.Equal(got, want) {
		t.Errorf("figures %v, want %v", got, want)
	}
	for _, text := range []string{"", "requests/s", "watches=1", "requests/s=0", "x"} {
		if _, err := ParseRates("/a", text); err == nil {
			t.Errorf("the limits %q are accepted", text)
		}
	}
}

// TestMadeUpPaths checks that requests for nodes that do not exist share a limit.
func TestMadeUpPaths(t *testing.T) {
	table := newTable(t, "subtree /* requests/s=1")
	c := open(t, table, "h", "")
	refused := 0
	for i := range 10 {
		if _, ok := c.Take(0, 0, 1, []string{fmt.Sprintf("/made-up%d", i)}); !ok {
			refused++
		}
		if _, ok := c.Take(0, 0, 1, []string{fmt.Sprintf("/%d", i)}); !ok {
			t.Error("another node's limit is used up")
		}
	}
	if n := len(table.meters); n != 11 || refused != 8 {
		t.Errorf("%d meters, %d refused; want 11 and 8", n, refused)
	}
}

func TestBurstsAreBounded(t *testing.T) {
	table := newTable(t, "address * connections=1,")
	for i := range 3 * maxBursts {
		for range 2 {
			open(t, table, strings.Repeat("h", i+1), "")
		}
	}
	if n := len(table.Bursts()); n != maxBursts {
		t.Errorf("%d bursts, want %d", n, maxBursts)
	}
	if n := len(table.Bursts()); n != 0 {
		t.Errorf("%d bursts again", n)
	}
}

// TestLongPathsCostLittle checks that a path with many names, which anybody can send, does not cost a look-up for
// each of its prefixes, which would take time by the square of its length.
func TestLongPathsCostLittle(t *testing.T) {
	table := newTable(t, "subtree /app/* requests/s=1", "subtree /app/a/b requests/s=1")
	path := "/app/a" + strings.Repeat("/x", 100_000)
	s := table.paths.Load()
	if s.longest != len("/app/a/b") {
		t.Errorf("the longest subject has %d bytes", s.longest)
	}
	var r *rule
	var subject string
	if n := testing.AllocsPerRun(1, func() { r, subject = table.ofPath(path, Requests) }); n > 10 {
		t.Errorf("%v paths were made", n)
	}
	if r == nil || r.Subject != "/app/*" || subject != "/app/a" {
		t.Errorf("%v limits the path by %q", r, subject)
	}
}

// TestManyPathsShareMeters checks that a multi with very many paths charges each meter once.
func TestManyPathsShareMeters(t *testing.T) {
	table := newTable(t, "subtree /app/* requests/s=1")
	var paths []string
	for i := range 100 {
		paths = append(paths, fmt.Sprintf("/app/%d", i), fmt.Sprintf("/app/%d/x", i))
	}
	list := table.appendPaths(nil, paths)
	for i, m := range list {
		if slices.Contains(list[:i], m) {
			t.Fatalf("%s is there twice", m.subject)
		}
	}
	if len(list) != 100 {
		t.Errorf("%d meters, want 100", len(list))
	}
}

// TestUsers asks who uses most of which limit.
func TestUsers(t *testing.T) {
	table := newTable(t, "identity * connections=4 watches=10", "address * requests/s=100")
	used := int64(7)
	c, _ := table.Open("h1", func(Resource) int64 { return used })
	c.Identify(0, whos("jwt:ann"), none)
	open(t, table, "h2", "jwt:bob")
	for range 50 {
		c.Take(time.Hour, time.Second, 1, nil)
	}
	text := func(now time.Duration, most int) (lines []string) {
		for _, u := range table.Users(now, most) {
			lines = append(lines, fmt.Sprintf("%s %v %s %d", u.Rule, u.Resource, u.Subject, u.Used))
		}
		return lines
	}
	want := []string{"a watches jwt:ann 7", "b requests/s h1 50", "a connections jwt:ann 1", "a connections jwt:bob 1", "a watches jwt:bob 0"}
	if got := text(time.Hour, 9); !slices.Equal(got, want[:4]) {
		t.Errorf("%q, want %q", got, want[:4])
	}
	if got := text(2*time.Hour, 2); !slices.Equal(got, []string{want[0], want[2]}) {
		t.Errorf("an hour later %q", got)
	}
}

// What feeds send is charged at once, and they wait for their rate as long as it takes, all that share it. Settle goes by the
// present identities.
func TestSettle(t *testing.T) {
	table := New([]Rule{rule1(t, "a", "address * bytes/s=1000"), rule1(t, "b", "identity sasl:slow bytes/s=100")}, func(string) bool { return false })
	uses := func(Resource) int64 { return 0 }
	a, _ := table.Open("10.0.0.1", uses)
	b, _ := table.Open("10.0.0.1", uses)
	other, _ := table.Open("10.0.0.2", uses)
	a.Sent(1000)
	if wait := a.Settle(0); wait != 0 {
		t.Errorf("after what comes in a second, a feed waits for %v", wait)
	}
	b.Sent(500)
	for _, c := range []*Client{b, a, a} {
		if wait := c.Settle(0); wait != time.Second/2 {
			t.Errorf("after half as much again, a feed waits for %v", wait)
		}
	}
	if wait := other.Settle(0); wait != 0 {
		t.Errorf("a feed of another address waits for %v", wait)
	}
	if wait := a.Settle(time.Second / 2); wait != 0 {
		t.Errorf("after its wait, a feed waits for %v", wait)
	}
	other.Identify(0, []Who{{"sasl:slow", "sasl:slow"}}, func(jute.SessionID) bool { return true })
	other.Sent(300)
	if wait := other.Settle(0); wait != 2*time.Second {
		t.Errorf("with an identity that has less, a feed waits for %v", wait)
	}
	if wait, ok := other.Take(0, time.Minute, 1, nil); wait != 2*time.Second || !ok {
		t.Errorf("the next request waits for %v", wait)
	}
	other.Close()
	if other.Sent(1000); other.Settle(0) != 0 {
		t.Error("a feed of a closed connection waits")
	}
	if figures := table.Figures(); figures[0].Slowed != 1 || figures[1].Slowed != 2 {
		t.Errorf("figures %+v", figures)
	}
}

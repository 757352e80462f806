package limits

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/server/limits/shares"
)

// world is an ensemble in simulated time whose servers share a limit. The leader's part is that of the peer loop.
type world struct {
	t      testing.TB
	rng    *rand.Rand
	now    time.Duration
	limit  int64
	sites  []*site
	sums   shares.Sums
	onWay  []message
	divide time.Duration // when the leader divides next
}

// site is a server with its clients, which all count for one identity.
type site struct {
	id      uint8
	table   *Table
	clients []*user
	report  time.Duration // when it reports next
	told    bool          // the last report had something
	cut     bool          // from the leader
	served  []int         // requests, by tick
}

// user is a client that makes requests when they are due, one after the other.
type user struct {
	*Client
	rate float64 // per second; 0 for none
	due  float64
	free time.Duration // when the last request is answered
}

// message is a report or an answer on its way.
type message struct {
	at     time.Duration
	to     *site // of an answer; else the leader
	from   uint8
	uses   []shares.Use
	shares []shares.Share
}

const (
	simTick  = 10 * time.Millisecond
	perSec   = int(time.Second / simTick)
	simDelay = 50 * time.Millisecond
	hungry   = 1e6
)

func newWorld(t testing.TB, seed uint64, servers, users int, limit int64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), limit: limit}
	rule, err := ParseRule("r", fmt.Sprintf("identity * requests/s=%d", limit))
	if err != nil {
		t.Fatal(err)
	}
	for i := range servers {
		s := &site{id: uint8(i + 1), table: New([]Rule{rule}, func(string) bool { return true }), report: w.upTo(shares.Period)}
		for range users {
			s.connect()
		}
		w.sites = append(w.sites, s)
	}
	return w
}

func (s *site) connect() {
	c, _ := s.table.Open("10.0.0.1", noUses)
	c.Identify(0, whos("sasl:noisy"), none)
	s.clients = append(s.clients, &user{Client: c})
}

// demand sets what each client wants per second, of one server or of all.
func (w *world) demand(rate float64, of ...*site) {
	if len(of) == 0 {
		of = w.sites
	}
	for _, s := range of {
		for _, u := range s.clients {
			u.rate, u.due = rate, 0
		}
	}
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// run lets time pass.
func (w *world) run(d time.Duration) {
	for end := w.now + d; w.now < end; w.now += simTick {
		w.deliver()
		if w.now >= w.divide {
			w.divide += shares.Period
			w.lead()
		}
		for _, s := range w.sites {
			if w.now >= s.report {
				s.report += shares.Period
				w.tell(s)
			}
			s.served = append(s.served, 0)
			for _, u := range s.clients {
				w.use(s, u)
			}
		}
	}
}

// use makes the requests of a client that are due.
func (w *world) use(s *site, u *user) {
	u.due = min(u.due+u.rate*simTick.Seconds(), max(u.rate, 1))
	for u.due >= 1 && u.free <= w.now {
		wait, ok := u.Take(w.now, time.Second, 10, nil)
		u.due--
		u.free = w.now + wait
		if at := int(u.free / simTick); ok {
			s.served = append(s.served, make([]int, max(0, at+1-len(s.served)))...)
			s.served[at]++
		}
	}
}

func (w *world) tell(s *site) {
	uses := s.table.Uses(w.now)
	if (len(uses) > 0 || s.told) && !s.cut {
		w.onWay = append(w.onWay, message{at: w.now + w.upTo(simDelay), from: s.id, uses: uses})
	}
	s.told = len(uses) > 0
}

func (w *world) lead() {
	var ids []uint8
	for _, s := range w.sites {
		if !s.cut {
			ids = append(ids, s.id)
		}
	}
	for i, list := range w.sums.Divide(w.now, ids) {
		if len(list) > 0 {
			w.onWay = append(w.onWay, message{at: w.now + w.upTo(simDelay), to: w.sites[ids[i]-1], shares: list})
		}
	}
}

func (w *world) deliver() {
	due := slices.Clone(w.onWay)
	w.onWay = w.onWay[:0]
	for _, m := range due {
		switch {
		case m.at > w.now:
			w.onWay = append(w.onWay, m)
		case m.to == nil:
			w.sums.Hear(m.from, through(w.t, m.uses, shares.AppendUses, shares.DecodeUses))
		case !m.to.cut:
			m.to.table.SetShares(w.now, through(w.t, m.shares, shares.AppendShares, shares.DecodeShares))
		}
	}
}

// through sends a list as frames have it.
func through[E any](t testing.TB, list []E, encode func([]byte, []E) []byte, decode func([]byte) ([]E, error)) []E {
	list, err := decode(encode(nil, list))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// served returns how many requests were served in a time, of one server or of all.
func (w *world) served(from, to time.Duration, of ...*site) (n int) {
	if len(of) == 0 {
		of = w.sites
	}
	for _, s := range of {
		for at := int(from / simTick); at < min(int(to/simTick), len(s.served)); at++ {
			n += s.served[at]
		}
	}
	return n
}

// most returns the most requests that were served in a window.
func (w *world) most(from time.Duration, window int, of ...*site) (most int) {
	at, end := int(from/simTick), int(w.now/simTick)
	for ; at+window <= end; at++ {
		most = max(most, w.served(time.Duration(at)*simTick, time.Duration(at+window)*simTick, of...))
	}
	return most
}

// problem is what is wrong with how a limit is shared, or "".
type problem = string

// settle is within which time shares follow what is used: a report, an answer, and the turn of what waits.
const settle = 2*shares.Period + 2*simDelay + shortFor + time.Second

// fairly checks that the clients of a server that want more than there is get equal parts, and the others what they want.
func (w *world) fairly(from time.Duration) problem {
	wants := make([]float64, len(w.sites))
	for i, s := range w.sites {
		for _, u := range s.clients {
			wants[i] += u.rate
		}
	}
	level := w.level(wants)
	for i, s := range w.sites {
		want := min(wants[i], level)
		// A request more in a period is two a second.
		if got := float64(w.served(from, w.now, s)) / (w.now - from).Seconds(); got < 0.8*want-2 {
			return fmt.Sprintf("server %d serves %.1f requests a second of %.1f, where clients want %.0f of %d", s.id, got, want, wants, w.limit)
		}
	}
	return ""
}

// level returns the most that a server gets, so that all together get the limit. Those that get what they want have some more to spare.
func (w *world) level(wants []float64) float64 {
	low, high := 0.0, float64(w.limit)
	for range 50 {
		level, sum := (low+high)/2, 0.0
		for _, want := range wants {
			if want > 0 {
				sum += min(1.25*want+float64(w.limit)/float64(8*len(wants)), level)
			}
		}
		if sum > float64(w.limit) {
			high = level
		} else {
			low = level
		}
	}
	return low
}

// within checks how much was served in any window of some lengths.
func (w *world) within(from time.Duration, spare float64, of ...*site) problem {
	for _, seconds := range []int{1, 3, 10} {
		most := float64(w.limit)*(1+1.0/8)*float64(seconds+1) + spare + float64(len(w.sites))
		if got := w.most(from, seconds*perSec, of...); float64(got) > most {
			return fmt.Sprintf("%d requests in %d s, with a limit of %d a second: want at most %.0f", got, seconds, w.limit, most)
		}
	}
	return ""
}

// anyLoad has clients whose demand changes every few seconds, and leaders that change.
func anyLoad(t testing.TB, seed uint64) problem {
	rng := rand.New(rand.NewPCG(seed, 3))
	w := newWorld(t, seed, 2+rng.IntN(4), 1+rng.IntN(3), int64([]int{20, 100, 1000}[rng.IntN(3)]))
	w.demand(hungry)
	w.run(3 * time.Second) // the limit is divided from here on
	begin := w.now
	for range 6 {
		for _, s := range w.sites {
			share := float64(w.limit) / float64(len(s.clients))
			w.demand([]float64{0, share / 10, share / 3, hungry, hungry}[rng.IntN(5)], s)
		}
		if rng.IntN(3) == 0 {
			w.sums = shares.Sums{} // of another leader
		}
		w.run(settle + time.Second)
		from := w.now
		w.run(3 * time.Second)
		if p := w.fairly(from); p != "" {
			return p
		}
	}
	return w.within(begin, 0)
}

// pulses has clients that use the limit up on all servers at once, and wait then.
func pulses(t testing.TB, seed uint64) problem {
	w := newWorld(t, seed, 3, 2, 100)
	for range 15 {
		w.demand(hungry)
		w.run(time.Second)
		w.demand(0)
		w.run(time.Duration(1+w.rng.IntN(3)) * time.Second)
	}
	// Once, each server lets through what comes in two periods, and a burst.
	once := float64(len(w.sites)*int(w.limit)) * (2*shares.Period + 2*simDelay + time.Second).Seconds()
	if got, most := w.served(0, w.now), float64(w.limit)*(1+1.0/8)*w.now.Seconds()+once; float64(got) > most {
		return fmt.Sprintf("%d requests in %v with a limit of %d a second, want at most %.0f", got, w.now, w.limit, most)
	}
	return ""
}

// cutOff has a server that hears nothing of the leader for a while.
func cutOff(t testing.TB, seed uint64) problem {
	w := newWorld(t, seed, 3, 2, 100)
	w.demand(hungry)
	w.run(5 * time.Second)
	cut, others := w.sites[2], w.sites[:2]
	cut.cut = true
	from := w.now
	w.run(shares.Word + settle)
	if p := w.within(from, 0, others...); p != "" {
		return "without the server that is cut off: " + p
	}
	from = w.now
	w.run(5 * time.Second)
	if got := w.served(from, w.now, others...); got < 9*5*int(w.limit)/10 {
		return fmt.Sprintf("beside a server that is cut off, the others serve %d requests of %d", got, 5*w.limit)
	}
	if got := w.served(from, w.now, cut); got < 9*5*int(w.limit)/10 || got > 11*5*int(w.limit)/10 {
		return fmt.Sprintf("a server that is cut off serves %d requests of %d", got, 5*w.limit)
	}
	cut.cut = false
	w.run(settle)
	from = w.now
	w.run(3 * time.Second)
	return w.fairly(from) + w.within(from, 0)
}

// arrives has a client whose server had none while another one has used the limit up.
func arrives(t testing.TB, seed uint64) problem {
	w := newWorld(t, seed, 3, 0, 100)
	w.sites[0].connect()
	w.sites[0].clients[0].rate = hungry
	w.run(5 * time.Second)
	if got := w.served(2*time.Second, w.now); got < 3*int(w.limit)-1 {
		return fmt.Sprintf("a client alone has %d requests of %d", got, 3*w.limit)
	}
	w.sites[1].connect()
	w.sites[1].clients[0].rate = hungry
	w.run(settle)
	from := w.now
	w.run(time.Second)
	if got := w.served(from, w.now, w.sites[1]); got < 4*int(w.limit)/10 {
		return fmt.Sprintf("a newcomer has %d requests of %d within %v", got, w.limit, settle)
	}
	return ""
}

// stories are what the simulation plays, each with some seeds.
var stories = map[string]func(testing.TB, uint64) problem{"any load": anyLoad, "pulses": pulses, "cut off": cutOff, "arrives": arrives}

// TestSharesOverTheEnsemble simulates servers that share a limit: whatever clients do, they get together what the limit
// says, and no server starves.
func TestSharesOverTheEnsemble(t *testing.T) {
	first := seeds.First(t)
	for name, story := range stories {
		for seed := first; seed < first+8; seed++ {
			if p := story(t, seed); p != "" {
				t.Errorf("%s, seed %d: %s", name, seed, p)
			}
		}
	}
}

// TestUsesAreBounded checks that a report has the subjects that use most of their limits, and none that uses little.
func TestUsesAreBounded(t *testing.T) {
	table := newTable(t, "identity * requests/s=1000")
	const users = shares.MostUses + 100
	table.Uses(0)
	for i := range users {
		c := open(t, table, "10.0.0.1", fmt.Sprint("sasl:", i))
		for range i {
			c.Take(0, time.Second, 10, nil)
		}
	}
	uses := table.Uses(time.Second)
	if len(uses) != shares.MostUses || uses[0].Used != users-1 || uses[shares.MostUses-1].Used != users-shares.MostUses {
		t.Errorf("%d subjects, which use %d to %d", len(uses), uses[len(uses)-1].Used, uses[0].Used)
	}
	open(t, table, "10.0.0.1", "sasl:calm").Take(time.Second, time.Second, 10, nil)
	if uses = table.Uses(2 * time.Second); len(uses) != 0 {
		t.Errorf("a request of a thousand is reported: %v", uses)
	}
}

// TestKeysOfRules checks that servers mean the same limit by a key, whatever its rule is called.
func TestKeysOfRules(t *testing.T) {
	key := func(name, text string) shares.Key {
		r := rule1(t, name, text)
		return keyOf(&meterKey{&rule{Rule: r}, Requests, "sasl:x"})
	}
	first := key("a", "identity * requests/s=10")
	if key("b", "identity * requests/s=10 watches=7") != first {
		t.Error("the key depends on the name, or on another resource")
	}
	for _, other := range []string{"identity * requests/s=11", "identity * requests/s=5,10", "identity sasl:x requests/s=10", "address * requests/s=10"} {
		if key("a", other) == first {
			t.Errorf("%q has the same key", other)
		}
	}
}

// TestAHigherShareEndsWaits checks that those who wait for a small share need not pay it off when it grows.
func TestAHigherShareEndsWaits(t *testing.T) {
	table := newTable(t, "identity * requests/s=100")
	c := open(t, table, "10.0.0.1", "sasl:x")
	c.Take(0, time.Second, 1, nil)
	table.SetShares(0, []shares.Share{{Key: table.Uses(time.Second)[0].Key, Rate: shares.Scale}})
	if f := table.Figures(); f[0].Divided != 1 {
		t.Errorf("figures %v, want a limit that is divided", f)
	}
	wait := func(now time.Duration) time.Duration {
		w, _ := c.Take(now, time.Hour, 1, nil)
		return w
	}
	wait(time.Second)
	if before := wait(time.Second); before != 0 {
		t.Errorf("the second request waits %v", before)
	}
	if before := wait(time.Second); before != time.Second {
		t.Errorf("with one a second, the third request waits %v", before)
	}
	table.SetShares(time.Second, nil)
	if after := wait(time.Second); after > 50*time.Millisecond {
		t.Errorf("with a hundred a second, the fourth request waits %v", after)
	}
}

// BenchmarkTake charges requests to an address, an identity and a subtree.
func BenchmarkTake(b *testing.B) {
	var rules []Rule
	for i, text := range []string{"address * requests/s=1000000000000 bytes/s=1000000000000", "identity * requests/s=1000000000000", "subtree /a requests/s=1000000000000"} {
		r, err := ParseRule(string(rune('a'+i)), text)
		if err != nil {
			b.Fatal(err)
		}
		rules = append(rules, r)
	}
	table := New(rules, func(string) bool { return true })
	c, _ := table.Open("10.0.0.1", noUses)
	c.Identify(0, whos("sasl:x"), none)
	paths, now := []string{"/a/b"}, time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		now += time.Millisecond
		c.Take(now, time.Second, 100, paths)
	}
}

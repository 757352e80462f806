package limits

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/limits/shares"
)

// maxMeters is the number of meters above which no subtree gets one for itself: the others
// of its rule share one.
const maxMeters = 100_000

// Table has rules, and the meters of all that they are about. Create it with New.
type Table struct {
	hasNode func(path string) bool
	rules   []*rule               // those of New, by name
	byScope [Subtree]*scope       // of Identity and of Address
	paths   atomic.Pointer[scope] // of Subtree

	followed []*rule             // those of Follow; only its caller uses it
	causes   [numResources]stats // of followed

	mu      sync.Mutex // guards the fields below and meter.clients
	meters  map[meterKey]*meter
	shared  shared
	bursts  []Burst
	follows bool // Follow has been called
}

// scope finds the rules of a scope.
type scope struct {
	limits    [numResources]bool // whether any rule does
	bySubject map[string][]*rule // of identities and of subtrees; "*" and paths that end in "/*" as they are
	longest   int                // length of the longest of bySubject
	blocks    []block            // of addresses, the longest prefix first
}

type block struct {
	netip.Prefix
	rule *rule
}

// rule is a Rule with what it has caused.
type rule struct {
	Rule
	stats *[numResources]stats
}

// stats counts what a rule has caused for one resource.
type stats struct {
	over    atomic.Int64 // uses above the soft limit
	slowed  atomic.Int64 // requests that had to wait
	refused atomic.Int64
}

// meterKey says what a meter is for: its rule, and which of the subjects of that rule.
type meterKey struct {
	rule     *rule
	resource Resource
	subject  string
}

// Burst reports that a soft limit is exceeded, or a hard one if there is no soft one. There is one for a burst: until the use is
// below the limit again, or the bucket of the rate full.
type Burst struct {
	Rule     string
	Resource Resource
	Subject  string
	Limit    int64
	Hard     bool // there is only a hard limit
}

// maxBursts bounds the bursts that wait to be reported.
const maxBursts = 100

// New returns a table with these rules. hasNode reports whether there is a node: paths
// without one share a meter, so that requests for paths that are made up get no new
// limits. It is called without locks, from any goroutine.
func New(rules []Rule, hasNode func(path string) bool) *Table {
	t := &Table{hasNode: hasNode, byScope: [Subtree]*scope{newScope(), newScope()}, meters: make(map[meterKey]*meter)}
	t.shared.meters = make(map[shares.Key]*meter)
	for _, r := range rules {
		own := &rule{r, new([numResources]stats)}
		t.rules = append(t.rules, own)
		if r.Scope != Subtree {
			t.byScope[r.Scope].add(own)
		}
	}
	slices.SortFunc(t.rules, func(a, b *rule) int { return strings.Compare(a.Name, b.Name) })
	t.setPaths()
	return t
}

// Followed is the name under which the rules of Follow are shown. No other rule has it.
const Followed = "quota"

// Follow replaces the rules of the last call by others about subtrees. Where one of these
// and one of New limit the same resource of a subtree, that of New counts. A rule that was
// there before keeps its meters. Only one goroutine may call Follow.
func (t *Table) Follow(rules []Rule) {
	before := make(map[Rule]*rule)
	for _, r := range t.followed {
		before[r.Rule] = r
	}
	t.followed = nil
	for _, r := range rules {
		r.Name = Followed
		own := before[r]
		if own == nil {
			own = &rule{r, &t.causes}
		}
		t.followed = append(t.followed, own)
	}
	t.setPaths()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.follows = true
}

// setPaths makes the rules about subtrees count.
func (t *Table) setPaths() {
	s := newScope()
	for _, r := range slices.Concat(t.rules, t.followed) {
		if r.Scope == Subtree {
			s.add(r)
		}
	}
	t.paths.Store(s)
}

func newScope() *scope { return &scope{bySubject: make(map[string][]*rule)} }

func (s *scope) add(r *rule) {
	for resource, l := range r.Limits {
		s.limits[resource] = s.limits[resource] || l != Limit{}
	}
	if r.Scope != Address || r.Subject == each {
		s.bySubject[r.Subject] = append(s.bySubject[r.Subject], r)
		s.longest = max(s.longest, len(r.Subject))
		return
	}
	if prefix, err := parseBlock(r.Subject); err == nil { // ParseRule has checked it
		s.blocks = append(s.blocks, block{prefix, r})
		slices.SortStableFunc(s.blocks, func(a, b block) int { return b.Bits() - a.Bits() })
	}
}

// limiting returns the first of the rules that limits a resource, or nil.
func limiting(rules []*rule, resource Resource) *rule {
	for _, r := range rules {
		if r.Limits[resource] != (Limit{}) {
			return r
		}
	}
	return nil
}

// ofAddress returns the rule for an address and its subject within the rule, or nil.
func (t *Table) ofAddress(address string, resource Resource) (*rule, string) {
	s := t.byScope[Address]
	if !s.limits[resource] {
		return nil, ""
	}
	if a, err := netip.ParseAddr(address); err == nil {
		a = usual(a)
		for _, b := range s.blocks {
			if b.Contains(a) && b.rule.Limits[resource] != (Limit{}) {
				return b.rule, b.rule.Subject
			}
		}
	}
	return limiting(s.bySubject[each], resource), Network(address)
}

// ofIdentity returns the rule for an identity, or nil.
func (t *Table) ofIdentity(name string, resource Resource) *rule {
	s := t.byScope[Identity]
	if name == "" || !s.limits[resource] {
		return nil
	}
	if r := limiting(s.bySubject[name], resource); r != nil {
		return r
	}
	return limiting(s.bySubject[each], resource)
}

// ofPath returns the rule of the deepest subtree with path, and its subject within the
// rule, or nil. It looks up no paths that are longer than each subject: a path can have many names.
func (t *Table) ofPath(path string, resource Resource) (*rule, string) {
	s := t.paths.Load()
	for at := path; strings.HasPrefix(at, "/"); {
		if r := s.of(at, "", resource); r != nil {
			return r, at
		}
		if at == "/" {
			break
		}
		up := at[:strings.LastIndexByte(at, '/')]
		if r := s.of(up, "/"+each, resource); r != nil {
			return r, at
		}
		if at = up; at == "" {
			at = "/"
		}
	}
	return nil, ""
}

// of returns the rule for a subject, whose end is given apart, that limits a resource, or nil.
func (s *scope) of(subject, end string, resource Resource) *rule {
	if len(subject)+len(end) > s.longest {
		return nil
	}
	return limiting(s.bySubject[subject+end], resource)
}

// hold returns the meter of a rule's subject, which the client holds from then on, or nil
// if rule is nil. subject tells it from other subjects, and name is shown.
func (t *Table) hold(r *rule, resource Resource, subject, name string, c *Client) *meter {
	if r == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.meterLocked(meterKey{r, resource, subject}, name)
	if m.clients == nil {
		m.clients = make(map[*Client]struct{})
	}
	m.clients[c] = struct{}{}
	m.outdated()
	return m
}

func (t *Table) meterLocked(key meterKey, name string) *meter {
	m := t.meters[key]
	if m == nil {
		key.subject = strings.Clone(key.subject)
		m = &meter{rule: key.rule.Name, resource: key.resource, subject: strings.Clone(name),
			limit: key.rule.Limits[key.resource], stats: &key.rule.stats[key.resource]}
		t.meters[key] = m
		if key.resource.isRate() {
			t.shared.add(m, &key)
		}
	}
	return m
}

// meterOf returns the meter of a path, or nil if no rule limits it.
func (t *Table) meterOf(path string, resource Resource) *meter {
	r, subject := t.ofPath(path, resource)
	if r == nil {
		return nil
	}
	key := meterKey{r, resource, subject}
	t.mu.Lock()
	m, full := t.meters[key], len(t.meters) >= maxMeters
	t.mu.Unlock()
	if m != nil {
		return m
	}
	if full || !t.hasNode(subject) {
		key.subject = r.Subject
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meterLocked(key, key.subject)
}

// release is the opposite of meter.
func (t *Table) release(m *meter, c *Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(m.clients, c)
	if len(m.clients) == 0 {
		m.outdated()
	}
}

// count adds up what the clients that hold a meter use.
func (t *Table) count(m *meter) int64 {
	t.mu.Lock()
	list := slices.Collect(maps.Keys(m.clients))
	t.mu.Unlock()
	n := int64(0)
	for _, c := range list {
		n += c.uses(m.resource)
	}
	return n
}

// exceeds notes a burst.
func (t *Table) exceeds(m *meter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.bursts) < maxBursts {
		t.bursts = append(t.bursts, Burst{m.rule, m.resource, m.subject, cmp.Or(m.limit.Soft, m.limit.Hard), m.limit.Soft == 0})
	}
}

// Bursts returns the bursts since the last call, at most 100.
func (t *Table) Bursts() []Burst {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.bursts
	t.bursts = nil
	return list
}

// Tick forgets the meters that nobody holds and that have nothing to remember. exists
// reports whether a session exists.
func (t *Table) Tick(now time.Duration, exists func(jute.SessionID) bool) {
	t.mu.Lock()
	var list []*meter
	for key, m := range t.meters {
		if key.resource == Sessions {
			list = append(list, m)
		}
	}
	t.mu.Unlock()
	for _, m := range list {
		m.pruneSessions(now, exists)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.meters, func(_ meterKey, m *meter) bool {
		idle := len(m.clients) == 0 && m.idle(now)
		if idle {
			t.shared.remove(m)
		}
		return idle
	})
}

// Figure is what a rule has caused for one resource.
type Figure struct {
	Rule                  string
	Resource              Resource
	Over, Slowed, Refused int64
	Subjects              int // that have a meter
	Divided               int // those of them whose limit is divided among the servers
}

func (s *stats) figure(rule string, resource Resource, subjects, divided int) Figure {
	return Figure{rule, resource, s.over.Load(), s.slowed.Load(), s.refused.Load(), subjects, divided}
}

// Figures returns the figures of the rules of New, by name, and then of those of Follow
// together.
func (t *Table) Figures() []Figure {
	t.mu.Lock()
	defer t.mu.Unlock()
	subjects, divided := make(map[*stats]int), make(map[*stats]int)
	for key, m := range t.meters {
		st := &key.rule.stats[key.resource]
		subjects[st]++
		if t.shared.divides(m) {
			divided[st]++
		}
	}
	var list []Figure
	for _, r := range t.rules {
		for resource := range numResources {
			if st := &r.stats[resource]; r.Limits[resource] != (Limit{}) {
				list = append(list, st.figure(r.Name, resource, subjects[st], divided[st]))
			}
		}
	}
	if t.follows {
		for resource := Requests; resource <= Bytes; resource++ {
			st := &t.causes[resource]
			list = append(list, st.figure(Followed, resource, subjects[st], divided[st]))
		}
	}
	return list
}

// Use is what a subject uses of a limit, on this server.
type Use struct {
	Rule, Subject string
	Resource      Resource
	Used          int64 // of a rate in the last second
	Limit         Limit
}

// part is how much of the limit is used.
func (u *Use) part() float64 { return float64(u.Used) / float64(cmp.Or(u.Limit.Hard, u.Limit.Soft, 1)) }

// Users returns who uses most of a limit, at most some of them, the greatest part of a limit first.
func (t *Table) Users(now time.Duration, most int) []Use {
	t.mu.Lock()
	meters := slices.Collect(maps.Values(t.meters))
	t.mu.Unlock()
	var list []Use
	for _, m := range meters {
		if n := m.inUse(now, t.count); n > 0 {
			list = append(list, Use{m.rule, m.subject, m.resource, n, m.limit})
		}
	}
	slices.SortFunc(list, func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.part(), a.part()), strings.Compare(a.Rule, b.Rule), cmp.Compare(a.Resource, b.Resource), strings.Compare(a.Subject, b.Subject))
	})
	return list[:min(len(list), most)]
}

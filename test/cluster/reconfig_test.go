package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// commanded are the lines of servers whose members any client may change.
var commanded = []string{"reconfigEnabled=true", "standaloneEnabled=false", "skipACL=yes"}

// changesPerRound is how many times the members change between two checks.
const changesPerRound = 8

// TestReconfig changes the members at random, with -rounds, while clients work and servers are
// killed, stopped and paused. Without it, the tests of package server do that in virtual time. At the end of each round nothing is lost, the members have equal
// trees, and each has the present members in its files.
func TestReconfig(t *testing.T) {
	if *rounds < 2 || apache() {
		t.Log("-rounds says how often; see TestReconfigGaps for Apache's servers")
		return
	}
	t.Parallel()
	c := newCampaign(t, shape{voters: 3, spare: 3, dynamic: true, lines: commanded})
	list := selected(changesOfMembers)
	for n := range *rounds * len(list) {
		c.round(list[n%len(list)])
		if t.Failed() {
			return
		}
		c.checkFiles()
	}
	c.summary()
	c.Logf("%d changes of the members: %v", c.changes.made, c.changes.kinds)
}

var changesOfMembers = []fault{
	{"random changes of the members", func(c *campaign) {
		for range changesPerRound {
			c.changeAtRandom()
		}
	}},
	{"joiner killed while it receives a snapshot", joinerKilled},
	{"rolling restart during changes", rollingChanges},
}

// changes counts what was done to the members.
type changes struct {
	made  int
	kinds map[string]int
}

// list maps the ids of members to their lines.
type list map[int]string

// line is what the members' text has for s.
func (s *server) line() string {
	role := "participant"
	if s.observer {
		role = "observer"
	}
	return fmt.Sprintf("server.%d=127.0.0.1:%d:%d:%s;%s", s.id, s.quorum, s.election, role, s.addr)
}

func listOf(servers []*server) list {
	l := make(list)
	for _, s := range servers {
		l[s.id] = s.line()
	}
	return l
}

// parseList reads the text of /zookeeper/config.
func parseList(text string) list {
	l := make(list)
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "server.")
		number, _, _ := strings.Cut(rest, "=")
		if id, err := strconv.Atoi(number); ok && err == nil {
			l[id] = strings.TrimSpace(line)
		}
	}
	return l
}

// change is one command that changes the members, with what it takes to give it: it may run
// beside what happens to the servers.
type change struct {
	addrs []string // of servers that may know the present members
	want  list
	won   int64 // the version that the change which succeeded was made for
}

// newChange prepares the change to the members that e.servers has next.
func (c *campaign) newChange(next []*server) *change {
	ch := &change{want: listOf(next)}
	for _, s := range c.e.all {
		if s.Running() && !s.Paused() {
			ch.addrs = append(ch.addrs, s.addr, s.other.addr)
		}
	}
	return ch
}

// run asks for the change again and again until the members are the wanted ones.
func (ch *change) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond) // the load of the attempts is to be small
	defer retry.Stop()
	var last error
	for i := 0; ; i++ {
		reached, err := ch.attempt(ch.addrs[i%len(ch.addrs)])
		if reached {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return fmt.Errorf("the members do not become %v: %w", ch.want, last)
		}
	}
}

// attempt asks one server for the change, if the members are not the wanted ones already. The
// request has the version that was read, so none that is repeated takes effect late.
func (ch *change) attempt(addr string) (reached bool, err error) {
	conn, err := dial(addr, jute.ConnectRequest{TimeoutMs: 10_000}, silence)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	read := &op{code: jute.OpGetData, path: "/zookeeper/config"}
	if err := errors.Join(conn.do(&op{code: jute.OpSync, path: "/"}), conn.do(read)); err != nil {
		return false, err
	}
	now := parseList(read.got)
	if maps.Equal(now, ch.want) {
		return true, conn.do(&op{code: jute.OpCloseSession})
	}
	version, err := versionOf(read.got)
	if err != nil {
		return false, err
	}
	text, err := conn.reconfig(ch.request(now, version))
	if err != nil {
		return false, err
	}
	ch.won = version
	if got := parseList(text); !maps.Equal(got, ch.want) {
		return false, fmt.Errorf("reconfig is answered with %q", text)
	}
	return true, conn.do(&op{code: jute.OpCloseSession})
}

// request returns the difference between the members now and the wanted ones.
func (ch *change) request(now list, version int64) *jute.ReconfigRequest {
	var joining, leaving []string
	for _, id := range slices.Sorted(maps.Keys(ch.want)) {
		if now[id] != ch.want[id] {
			joining = append(joining, ch.want[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(now)) {
		if ch.want[id] == "" {
			leaving = append(leaving, strconv.Itoa(id))
		}
	}
	return &jute.ReconfigRequest{Joining: strings.Join(joining, ","), Leaving: strings.Join(leaving, ","), ConfigID: version}
}

// versionOf returns the version in the text of /zookeeper/config.
func versionOf(text string) (int64, error) {
	_, version, _ := strings.Cut(text, "version=")
	return strconv.ParseInt(strings.TrimSpace(version), 16, 64)
}

// reconfig sends the request and returns the text of the new members.
func (c *conn) reconfig(r *jute.ReconfigRequest) (text string, err error) {
	c.Put(jute.OpReconfig, r)
	if err := c.Flush(); err != nil {
		return "", err
	}
	h, body, err := c.Next()
	if err != nil {
		return "", err
	}
	if h.Err != 0 {
		return "", fmt.Errorf("reconfig: %w", h.Err)
	}
	d := jute.NewDecoder(body)
	return string(d.Buffer()), d.Err()
}

// newMembers makes the servers in next the members, while disturb does something to them.
func (c *campaign) newMembers(next []*server, disturb func()) {
	c.Helper()
	before := c.e.servers
	ch := c.newChange(next)
	for _, s := range next {
		if !slices.Contains(c.e.servers, s) {
			c.e.servers = append(slices.Clone(c.e.servers), s)
		}
	}
	result := make(chan error, 1)
	go func() { result <- ch.run() }()
	disturb()
	if err := <-result; err != nil {
		c.Fatalf("%v; roles are %q", err, c.e.modes())
	}
	c.e.servers = slices.Clone(next)
	c.e.start()
	for _, s := range before {
		if !slices.Contains(next, s) {
			c.dismiss(s)
		}
	}
}

// dismiss does something to a server that is no member any more.
func (c *campaign) dismiss(s *server) {
	if c.rng.IntN(4) > 0 { // else it stays, and serves its clients
		s.end(c.rng.IntN(3) > 0)
	}
}

// end ends the process, in an orderly way if it serves: one that has just begun does not
// handle SIGTERM yet.
func (s *server) end(orderly bool) {
	if orderly && s.mode() != "" {
		s.Stop()
	} else {
		s.Kill()
	}
}

// ready starts a server that is to join, with its old file and data or with none.
func (c *campaign) ready(s *server, wipe bool) {
	if s.Running() && !wipe {
		return
	}
	s.Kill()
	if _, err := os.Stat(filepath.Join(s.Dir, "zoo.cfg")); wipe || err != nil {
		c.must(os.RemoveAll(s.Data))
		c.must(os.MkdirAll(s.Data, 0o755))
		c.file(s, append(slices.Clone(c.e.servers), s))
	}
	s.start()
}

// absent returns the servers that are not members.
func (c *campaign) absent() []*server {
	return slices.DeleteFunc(slices.Clone(c.e.all), func(s *server) bool { return slices.Contains(c.e.servers, s) })
}

// without returns the members but some.
func (c *campaign) without(gone ...*server) []*server {
	return slices.DeleteFunc(slices.Clone(c.e.servers), func(s *server) bool { return slices.Contains(gone, s) })
}

// learners returns the members that do not lead.
func (c *campaign) learners() []*server { return c.without(c.e.awaitLeader()) }

// joiner returns a random server that is no member, and starts it.
func (c *campaign) joiner(observer bool) *server {
	s := c.pick(c.absent())
	s.observer = observer
	c.ready(s, c.rng.IntN(2) == 0)
	return s
}

// changeAtRandom changes the members, and does something to a server meanwhile.
func (c *campaign) changeAtRandom() {
	c.Helper()
	voters, absent := c.e.voters(), c.absent()
	kind, next := "", c.e.servers
	switch n := c.rng.IntN(8); {
	case n == 0 && len(absent) > 0, n < 3 && len(voters) < 2 && len(absent) > 0:
		kind, next = "add", append(slices.Clone(next), c.joiner(false))
	case n == 1 && len(absent) > 0:
		kind, next = "add an observer", append(slices.Clone(next), c.joiner(true))
	case n == 2 && len(voters) > 1:
		kind, next = "remove", c.without(c.pick(next))
	case n == 3 && len(voters) > 1:
		kind, next = "remove the leader", c.without(c.e.awaitLeader())
	case n == 4 && len(absent) > 0:
		kind, next = "replace", append(c.without(c.pick(c.e.servers)), c.joiner(false))
	case n == 5 && len(voters) < len(next):
		kind = "promote"
		observers := slices.DeleteFunc(slices.Clone(next), func(s *server) bool { return !s.observer })
		c.pick(observers).observer = false
	case n == 6 && len(voters) > 1:
		kind = "demote"
		c.pick(voters).observer = true
	case n == 7 && len(voters) > 1 && len(absent) > 0:
		c.changeTwice()
		return
	default:
		kind = "move to other ports"
		s := c.pick(next)
		s.ports, s.other = s.other, s.ports
	}
	c.count(kind)
	c.newMembers(next, c.disturbance(next))
	if c.rng.IntN(2) == 0 {
		c.e.awaitAll()
	}
}

func (c *campaign) count(kind string) {
	if c.changes.kinds == nil {
		c.changes.kinds = make(map[string]int)
	}
	c.changes.made++
	c.changes.kinds[kind]++
}

// disturbance returns something that happens to one of the servers.
func (c *campaign) disturbance(next []*server) func() {
	some, moment := c.pick(append(slices.Clone(next), c.e.servers...)), c.between(0, 300*time.Millisecond)
	leads := c.rng.IntN(2) == 0
	kinds := []func(s *server){
		func(*server) {},
		c.pause,
		func(s *server) { c.bounce(s, false) },
		func(s *server) { c.bounce(s, true) },
	}
	do := kinds[c.rng.IntN(len(kinds))]
	return func() {
		c.wait(moment)
		if leader := c.e.leader(); leads && leader != nil {
			some = leader
		}
		if some.Running() {
			do(some)
		}
	}
}

// bounce ends a server, which may be the only voter, and starts it some time later.
func (c *campaign) bounce(s *server, orderly bool) {
	s.end(orderly)
	c.wait(c.between(10*time.Millisecond, time.Second))
	s.start()
}

// changeTwice has two clients change the same version of the members at once: one adds, the
// other removes a server. At most one of them succeeds.
func (c *campaign) changeTwice() {
	c.Helper()
	c.count("two at once")
	c.e.awaitAll()
	joiner := c.joiner(false)
	grown := append(slices.Clone(c.e.servers), joiner)
	shrunk := c.without(c.pick(c.e.voters()))
	both := []*change{c.newChange(grown), c.newChange(shrunk)}
	addr := c.e.awaitLeader().addr
	var wg sync.WaitGroup
	for _, ch := range both {
		wg.Go(func() { ch.attempt(addr) }) // a refusal is an answer
	}
	wg.Wait()
	if v := both[0].won; v != 0 && v == both[1].won {
		c.Errorf("two changes of version %x succeeded", v)
	}
	next := grown
	if c.rng.IntN(2) == 0 {
		next = shrunk
	}
	c.newMembers(next, func() {})
	if c.rng.IntN(2) == 0 && !slices.Contains(next, joiner) {
		joiner.Kill()
	}
}

// bulk is data that takes some time to send.
const bulk = 100 // nodes of 100 kB

// joinerKilled kills a server without data again and again while it is brought up to date, and
// while the ensemble is asked to make it a member.
func joinerKilled(c *campaign) {
	if len(c.absent()) == 0 {
		c.count("remove")
		c.newMembers(c.without(c.pick(c.learners())), func() {})
	}
	data := strings.Repeat("x", 100_000)
	for i := range bulk {
		c.admin(&op{code: jute.OpCreate2, path: fmt.Sprint("/bulk", i), data: data})
	}
	s := c.pick(c.absent())
	s.observer = false
	c.ready(s, true)
	c.count("add")
	c.newMembers(append(slices.Clone(c.e.servers), s), func() {
		for range 5 {
			c.wait(c.between(0, 300*time.Millisecond))
			s.Kill()
			s.start()
		}
	})
	c.e.awaitAll()
}

// rollingChanges restarts one server after the other, each during a change.
func rollingChanges(c *campaign) {
	for _, s := range shuffle(c.rng, c.e.servers) {
		next := c.e.servers
		if list := c.absent(); len(list) > 0 {
			c.count("add an observer")
			next = append(slices.Clone(next), c.joiner(true))
		} else {
			c.count("remove")
			next = c.without(c.pick(c.learners()))
		}
		c.newMembers(next, func() { c.bounce(s, true) })
		c.e.awaitAll()
	}
}

// checkFiles checks that each member has saved the present members beside its zoo.cfg.
func (c *campaign) checkFiles() {
	c.Helper()
	want := listOf(c.e.servers)
	for _, s := range c.e.servers {
		var have list
		if !process.Poll(func() bool { have = s.saved(); return maps.Equal(have, want) }) {
			c.Errorf("the file of server %d has %v, want %v", s.id, have, want)
		}
	}
}

// saved returns the members in the file that zoo.cfg names, or nil if it names none.
func (s *server) saved() list {
	cfg, _ := os.ReadFile(filepath.Join(s.Dir, "zoo.cfg"))
	_, rest, _ := strings.Cut(string(cfg), "dynamicConfigFile=")
	name, _, _ := strings.Cut(rest, "\n")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return parseList(string(text))
}

// TestReconfigGaps measures the longest time without a write while an ensemble grows from one
// server to five and shrinks to one, and while its leader is removed, -gaps times. With
// -target apache and ZOOKEEPER39 it measures Apache's server.
func TestReconfigGaps(t *testing.T) {
	if *gaps == 0 {
		t.Log("-gaps says how often")
		return
	}
	c := newCampaign(t, shape{voters: 1, spare: 4, dynamic: true, lines: commanded})
	for range *gaps {
		for _, f := range stepsOfMembers {
			c.round(f)
			if t.Failed() {
				return
			}
		}
	}
	c.summary()
}

// stepsOfMembers begin with one server and end with one.
var stepsOfMembers = []fault{
	{"1 to 3", func(c *campaign) { c.grow(3) }},
	{"the leader is removed, 3 to 2", func(c *campaign) { c.shrink(c.e.awaitLeader()) }},
	{"2 to 3", func(c *campaign) { c.grow(3) }},
	{"3 to 5", func(c *campaign) { c.grow(5) }},
	{"5 to 3", func(c *campaign) { c.shrink(c.learners()[:2]...) }},
	{"3 to 1", func(c *campaign) { c.shrink(c.learners()...) }},
}

// grow starts servers, waits until they have the data, and adds them all at once.
func (c *campaign) grow(size int) {
	members := c.e.servers
	next := append(slices.Clone(members), c.absent()[:size-len(members)]...)
	for _, s := range next[len(members):] {
		s.observer = false
		c.ready(s, true)
	}
	c.e.servers = next
	c.e.awaitAll()
	c.e.servers = members
	c.mark()
	c.newMembers(next, func() {})
}

// shrink removes servers and stops them.
func (c *campaign) shrink(gone ...*server) {
	c.mark()
	next := c.without(gone...)
	ch := c.newChange(next)
	if err := ch.run(); err != nil {
		c.Fatal(err)
	}
	c.e.servers = next
	for _, s := range gone {
		s.Kill()
	}
}

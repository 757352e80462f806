package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/test/internal/process"
)

// tick is the tickTime of all servers, in ms.
const tick = 200

// constantly makes snapshots, new segments and purges come all the time.
var constantly = []string{
	fmt.Sprintf("tickTime=%d", tick),
	"initLimit=50",
	"syncLimit=10",
	"minSessionTimeout=400",
	"maxSessionTimeout=120000",
	"maxClientCnxns=0",
	"snapCount=500",
	"autopurge.snapRetainCount=3",
	"autopurge.purgeInterval=1",
	"zkd.walSegmentSizeKb=4096",
	"jute.maxbuffer=131072",
}

// ensemble is a number of servers and the network between them.
type ensemble struct {
	t       testing.TB
	dir     string
	servers []*server // those that are to work
	all     []*server // and those that are to be added, or were removed
	net     *network
	lines   []string
	dynamic bool // all servers have the same list of members, so there are no relays between them
}

// shape says what an ensemble is made of.
type shape struct {
	voters, observers int
	spare             int      // servers that are not members yet
	dynamic           bool     // the members are changed by reconfig: see reconfig_test.go
	lines             []string // added to each zoo.cfg
	only              []string // there instead of constantly
	before            string   // the program that the servers start with; "" means the one under test
	// disk makes the data directory of a server; nil is a plain one.
	disk func(id int) string
	// wrap returns what is put before the command of a server; nil for nothing.
	wrap func(id int) []string
}

// newEnsemble prepares servers that are not started.
func newEnsemble(t testing.TB, of shape) *ensemble {
	t.Helper()
	e := &ensemble{t: t, dir: tempDir(t), lines: append(slices.Clone(constantly), of.lines...), dynamic: of.dynamic}
	if of.only != nil {
		e.lines = of.only
	}
	members := of.voters + of.observers
	for id := 1; id <= members+of.spare; id++ {
		dir := filepath.Join(e.dir, fmt.Sprint(id))
		data := filepath.Join(dir, "data")
		if of.disk != nil {
			data = filepath.Join(of.disk(id), "data")
		}
		s := newServer(t, id, dir, data)
		s.observer, s.program = id > of.voters && id <= members, of.before
		if of.wrap != nil {
			s.Wrapper = of.wrap(id)
		}
		e.all = append(e.all, s)
	}
	e.servers = e.all[:members:members]
	e.net = newNetwork(t, e.all)
	for _, s := range e.servers {
		s.configure(append(slices.Clone(e.lines), e.members(s)...))
	}
	t.Cleanup(e.end)
	return e
}

// tempDir is t.TempDir, but for -keep.
func tempDir(t testing.TB) string {
	t.Helper()
	if !*keep {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("", "zkd-ensemble-")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("files are kept in %s", dir)
	return dir
}

// members returns the server lines of s for the servers that are to work.
func (e *ensemble) members(s *server) []string { return e.lists(s, e.servers) }

// lists returns server lines of s: it reaches the others by relays.
func (e *ensemble) lists(s *server, members []*server) []string {
	var lines []string
	if e.dynamic {
		for _, to := range members {
			lines = append(lines, to.line())
		}
		return lines
	}
	for _, to := range members {
		quorum, election := to.quorum, to.election
		if to != s {
			relays := e.net.relays[[2]int{s.id, to.id}]
			quorum, election = relays[0].port(), relays[1].port()
		}
		role := "participant"
		if to.observer {
			role = "observer"
		}
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d:%s", to.id, quorum, election, role))
	}
	if s.observer {
		lines = append(lines, "peerType=observer")
	}
	return lines
}

func (e *ensemble) end() {
	for _, s := range e.all {
		s.Kill()
	}
	for _, s := range e.all {
		if !apache() {
			s.CheckLog()
		}
	}
	if e.t.Failed() {
		for _, s := range e.all {
			e.t.Logf("end of the log of server %d:\n%s", s.id, process.Tail(s.Log(), 6000))
		}
	}
}

// start starts the servers that do not run.
func (e *ensemble) start() {
	e.t.Helper()
	for _, s := range e.servers {
		if !s.Running() {
			s.start()
		}
	}
}

// modes returns the role of each server.
func (e *ensemble) modes() []string {
	var list []string
	for _, s := range e.servers {
		list = append(list, s.mode())
	}
	return list
}

// awaitAll waits until each server that should run serves, and there is one
// leader.
func (e *ensemble) awaitAll() {
	e.t.Helper()
	var modes []string
	if !process.Poll(func() bool {
		modes = e.modes()
		for i, s := range e.servers {
			if want := s.Running(); want && modes[i] == "" {
				return false
			}
		}
		return count(modes, "leader") == 1
	}) {
		e.fatalf("servers do not all serve: roles are %q", modes)
	}
}

// awaitLeader waits until there is one leader, and returns it.
func (e *ensemble) awaitLeader() *server {
	e.t.Helper()
	var leader *server
	if !process.Poll(func() bool { leader = e.leader(); return leader != nil }) {
		e.fatalf("there is no leader: roles are %q", e.modes())
	}
	return leader
}

// leader returns the server that says it leads, or nil if none does, or more
// than one.
func (e *ensemble) leader() *server {
	modes := e.modes()
	if count(modes, "leader") != 1 {
		return nil
	}
	return e.servers[slices.Index(modes, "leader")]
}

// followers returns the voters that do not lead.
func (e *ensemble) followers() []*server {
	leader := e.awaitLeader()
	return slices.DeleteFunc(e.voters(), func(s *server) bool { return s == leader })
}

func (e *ensemble) voters() []*server {
	return slices.DeleteFunc(slices.Clone(e.servers), func(s *server) bool { return s.observer })
}

// addrs returns where clients look for servers. Any server may become a member of a
// dynamic ensemble, on either of its ports.
func (e *ensemble) addrs() []string {
	var list []string
	if e.dynamic {
		for _, s := range e.all {
			list = append(list, s.addr, s.other.addr)
		}
		return list
	}
	for _, s := range e.servers {
		list = append(list, s.addr)
	}
	return list
}

// isolate cuts or holds all links of a server.
func (e *ensemble) isolate(s *server, how func(a, b int)) {
	for _, other := range e.servers {
		if other != s {
			how(s.id, other.id)
		}
	}
}

func (e *ensemble) fatalf(format string, args ...any) {
	e.t.Helper()
	e.t.Fatalf(format, args...)
}

func count(list []string, word string) (n int) {
	for _, s := range list {
		if strings.EqualFold(s, word) {
			n++
		}
	}
	return n
}

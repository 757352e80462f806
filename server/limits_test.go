package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
)

// TestLargestRequests sends the largest requests that jute.maxbuffer allows, in each form
// of a write, to one server and to a follower of three: each is done, or refused by an
// answer to its client. No server may end, no link between servers may break, and
// acknowledged writes must be there after a restart, from the log or from a snapshot.
func TestLargestRequests(t *testing.T) {
	size := config.MaxRequest
	if testing.Short() {
		size = 8 << 20 // it needs some GB of memory otherwise
	}
	maxBuffer := fmt.Sprintf("jute.maxbuffer=%d", size)
	t.Run("one", func(t *testing.T) {
		dir := t.TempDir() // snapshots need real files
		synctest.Test(t, func(t *testing.T) {
			s := startOn(t, fastFS{}, dir, maxBuffer, "snapCount=2", "forceSync=no")
			testLargestRequests(t, s, size)
			for s.snapshots.size.Load() < int64(size) {
				time.Sleep(time.Second)
			}
			s = s.restart(t)
			wantLargest(t, s, size)
			s.noErrors(t)
		})
	})
	t.Run("three", func(t *testing.T) {
		inBubble(t, 3, []string{maxBuffer}, func(t *testing.T, e *testEnsemble) {
			id := e.follower()
			before := *e.servers[id].standing.role.Load()
			testLargestRequests(t, e.servers[id], size)
			e.settled()
			after := *e.servers[id].standing.role.Load()
			if after.Leader != before.Leader || after.LeaderGen != before.LeaderGen || after.Epoch != before.Epoch {
				t.Errorf("the leader or the link to it is another one: was %+v, is %+v", before, after)
			}
			e.stop(id)
			e.start(id)
			e.settled()
			wantLargest(t, e.servers[id], size)
		})
	})
}

// largest returns data for which a setData request for path has size bytes.
func largest(path string, size int) string {
	empty := requestFrame(1, jute.OpSetData, set(path, ""))
	return strings.Repeat("x", size-len(empty))
}

func testLargestRequests(t *testing.T, s *testServer, size int) {
	c := s.connect(t)
	c.create("/a", "")
	data := largest("/a", size)

	over := s.connect(t)
	over.nc.Write(frameOf(requestFrame(1, jute.OpSetData, set("/a", data+"x")))) // the server need not take it all
	over.eof("one byte more than jute.maxbuffer")

	// The scheme auth stands for each identity of the connection: the ACLs of the
	// transaction are longer than those of the request, up to a bound.
	const identities = 64
	for i := range identities {
		c.auth(fmt.Sprintf("user-%03d-%s:pw", i, strings.Repeat("u", 20)))
	}
	acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}
	multi := jute.MultiRequest{}
	for i := range 3000 {
		multi.Ops = append(multi.Ops, jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprintf("/acl%d", i), ACL: acl})
	}
	room := size - len(requestFrame(1, jute.OpMulti, &multi))
	multi.Ops[0].Data = []byte(data[:room])
	c.ok(jute.OpMulti, &multi)
	for perms := range jute.Perms(1000) {
		acl = append(acl, jute.ACL{Perms: perms, ID: jute.ID{Scheme: "auth"}})
	}
	if got := c.call(jute.OpSetACL, &jute.SetACLRequest{Path: "/acl0", ACL: acl, Version: -1}); got.Err != jute.ErrInvalidACL {
		t.Errorf("an ACL of %d entries: %v, want %v", identities*len(acl), got.Err, jute.ErrInvalidACL)
	}
	multi.Ops[0] = jute.MultiOp{Type: jute.OpDelete, Path: "/acl0", Version: -1}
	c.ok(jute.OpMulti, &jute.MultiRequest{Ops: multi.Ops[:1]})

	// A session whose ephemerals have longer names than a transaction lists.
	owner := s.connect(t)
	name := strings.Repeat("n", 4<<20)
	for i := range 5 {
		owner.ephemeral(fmt.Sprintf("/%s%d", name, i))
	}
	owner.ok(jute.OpCloseSession, nil)
	if c.exists("/" + name + "0") {
		t.Error("an ephemeral is still there after its session")
	}
	c.set("/a", data)
	time.Sleep(5 * time.Second)
	c.ping()
}

func wantLargest(t *testing.T, s *testServer, size int) {
	t.Helper()
	c := s.connect(t)
	if got, _ := c.get("/a"); got != largest("/a", size) {
		t.Errorf("/a has %d bytes, want %d", len(got), len(largest("/a", size)))
	}
}

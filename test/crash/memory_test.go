package crash

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/jute"
)

// noMore keeps a server that takes memory without end from taking the machine's.
var noMore = []string{"sh", "-c", `ulimit -v 8000000 && exec "$@"`, "sh"}

// Whatever clients do, a server must not take more memory than its settings let
// one expect. bounded checks the peak while do runs.
func bounded(t *testing.T, s *server, mib int64, do func()) {
	t.Helper()
	if strings.Contains(*buildFlags, "-race") {
		mib *= 3 // the race detector keeps a record of each word
	}
	before := s.rss()
	stop := s.peak()
	do()
	most := stop()
	t.Logf("resident memory: %d MiB before, %d MiB at most", before>>20, most>>20)
	if most-before > mib<<20 {
		t.Errorf("resident memory has grown by %d MiB, want at most %d", (most-before)>>20, mib)
	}
}

// maxFrame is the longest request that a server takes by default.
const maxFrame = 0xFFFFF

// repeated is a multi of as many copies of an operation as go into one request.
type repeated struct {
	op    jute.MultiOp
	count int
}

func fullOf(op jute.MultiOp) *repeated {
	one := (&jute.MultiRequest{Ops: []jute.MultiOp{op}}).Append(nil)
	return &repeated{op, (maxFrame - 8 - 9) / (len(one) - 9)}
}

func (r *repeated) Append(b []byte) []byte {
	m := jute.MultiRequest{Ops: make([]jute.MultiOp, r.count)}
	for i := range m.Ops {
		m.Ops[i] = r.op
	}
	return m.Append(b)
}

// withBigNodes starts a server that has /big with 1 MB of data, and /wide with
// 5,000 children of long names.
func withBigNodes(t *testing.T) *server {
	t.Helper()
	s := newServer(t, open...)
	s.Wrapper = noMore
	s.start()
	c := s.connect()
	if _, err := c.create("/big", make([]byte, 1_000_000), jute.ModePersistent); err != nil {
		t.Fatal(err)
	}
	if _, err := c.create("/wide", nil, jute.ModePersistent); err != nil {
		t.Fatal(err)
	}
	const children, batch = 5000, 100
	for i := 0; i < children; i += batch {
		for j := range batch {
			name := fmt.Sprintf("/wide/%06d%s", i+j, strings.Repeat("n", 100))
			c.Put(jute.OpCreate, &jute.CreateRequest{Path: name, ACL: openACL})
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		for range batch {
			if r, err := c.next(); err != nil || r.Err != 0 {
				t.Fatal(r.Err, err)
			}
		}
	}
	return s
}

// TestMultiBombs sends multis of as many operations as one request can hold.
func TestMultiBombs(t *testing.T) {
	bombs := map[string]jute.MultiOp{
		"checks":  {Type: jute.OpCheck, Path: "/", Version: -1},
		"creates": {Type: jute.OpCreate2, Path: "/wide/s", ACL: openACL, Mode: jute.ModePersistentSequential},
		"sets":    {Type: jute.OpSetData, Path: "/wide", Version: -1},
		"fails":   {Type: jute.OpDelete, Path: "/x", Version: -1},
	}
	for name, op := range bombs {
		t.Run(name, func(t *testing.T) {
			s := withBigNodes(t)
			end := watchOver(t, s)
			defer end()
			bomb := fullOf(op)
			bounded(t, s, 400, func() {
				var wg sync.WaitGroup
				for range 4 {
					c := s.connect()
					wg.Go(func() {
						began := time.Now()
						r, err := c.call(jute.OpMulti, bomb)
						t.Logf("multi of %d: %d bytes, code %v, %v in %v", bomb.count, len(r.body), r.Err, err, time.Since(began).Round(time.Millisecond))
						if err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// TestReadBombs asks in one request for the same large answer many thousand times
// over: 50 GB in all.
func TestReadBombs(t *testing.T) {
	for name, op := range map[string]jute.MultiOp{
		"data":     {Type: jute.OpGetData, Path: "/big"},
		"children": {Type: jute.OpGetChildren, Path: "/wide"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withBigNodes(t)
			end := watchOver(t, s)
			defer end()
			bomb := fullOf(op)
			bounded(t, s, 600, func() { // 64 MiB, and what growing to that leaves behind until it is collected
				c := s.connect()
				r, err := c.call(jute.OpMultiRead, bomb)
				t.Logf("multiRead of %d: %d bytes, code %v, %v", bomb.count, len(r.body), r.Err, err)
				if err != nil && !isClosed(err) {
					t.Error(err)
				}
			})
		})
	}
}

// TestReadsBehindWrite has clients that send a write and a thousand large reads
// behind it, and do not read the replies.
//
// Of each the server holds at most 64 MiB and a reply before it cuts it off, and
// as much again that it was writing meanwhile: 650 MiB for five. The chunks that
// hold that have a tenth of room, and nothing is copied to another place, so the
// limit does not depend on when the garbage collector comes.
func TestReadsBehindWrite(t *testing.T) {
	s := withBigNodes(t)
	end := watchOver(t, s)
	defer end()
	bounded(t, s, 800, func() {
		clients := make([]*client, 5)
		for i := range clients {
			c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 4000})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.Put(jute.OpSetData, &jute.SetDataRequest{Path: "/wide", Version: -1})
			for range 900 {
				c.Put(jute.OpGetData, &jute.PathWatchRequest{Path: "/big"})
			}
			clients[i] = c
			if err := c.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(2 * time.Second)
	})
}

// TestManyReadsBehindWrites has a client that sends writes with many reads behind
// each, and reads the replies: it gets all of them, in order.
func TestManyReadsBehindWrites(t *testing.T) {
	s := withBigNodes(t)
	end := watchOver(t, s)
	defer end()
	c := s.connect()
	const writes, reads = 4, 100
	bounded(t, s, 400, func() {
		for range writes {
			c.Put(jute.OpSetData, &jute.SetDataRequest{Path: "/big", Data: make([]byte, 100_000), Version: -1})
			for range reads {
				c.Put(jute.OpGetData, &jute.PathWatchRequest{Path: "/big"})
			}
		}
		sent := make(chan error, 1)
		go func() { sent <- c.Flush() }()
		version := int32(0)
		for range writes {
			version++
			for i := range 1 + reads {
				r, err := c.next()
				if err != nil || r.Err != 0 {
					t.Fatalf("reply %d behind write %d: %v, %v", i, version, r.Err, err)
				}
				if i == 0 {
					continue
				}
				var data jute.GetDataResponse
				d := jute.NewAliasDecoder(r.body)
				if data.Decode(&d); data.Stat.Version != version {
					t.Fatalf("read %d behind write %d has version %d", i, version, data.Stat.Version)
				}
			}
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

// TestNeverReading has clients that ask for much, hold watches, and never read.
// They must be cut off, without harm to others.
//
// Of each the server holds 64 MiB of events, in chunks that are three quarters
// full or more, and the reply that it was writing: 270 MiB for three. The requests of
// 100 kB that make the events are garbage, which may be as much again as what is
// held before it is collected.
func TestNeverReading(t *testing.T) {
	s := withBigNodes(t)
	end := watchOver(t, s)
	defer end()
	bounded(t, s, 800, func() {
		readers := make([]*client, 3)
		for i := range readers {
			c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 2000})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			readers[i] = c
			c.Put(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive})
			for range 5000 {
				c.Put(jute.OpGetChildren2, &jute.PathWatchRequest{Path: "/wide", Watch: true})
			}
			if err := c.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		// Events of 100 kB each, for the watches.
		c := s.connect()
		path := "/" + strings.Repeat("p", 100_000)
		if _, err := c.create(path, nil, jute.ModePersistent); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			if err := c.set(path, []byte(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range readers {
			awaitGone(t, s, k)
		}
	})
}

// awaitGone returns when the server has closed a connection.
func awaitGone(t *testing.T, s *server, c *client) {
	t.Helper()
	local := c.Net.LocalAddr().String()
	if !s.Poll(func() bool {
		answer, err := ask.Within(patience, s.addr, "cons")
		return err == nil && !strings.Contains(answer, local)
	}) {
		t.Error("the server keeps a connection that reads nothing")
	}
}

// TestGiantSetWatches puts as many watches into one request as it can hold.
func TestGiantSetWatches(t *testing.T) {
	s := withBigNodes(t)
	end := watchOver(t, s)
	defer end()
	paths := func(make func(i int) string) (list []string) {
		for size := 100; size < maxFrame; {
			p := make(len(list))
			list = append(list, p)
			size += 4 + len(p)
		}
		return list
	}
	same := paths(func(int) string { return "/" })
	missing := paths(func(i int) string { return fmt.Sprint("/", i) })
	empty := paths(func(int) string { return "" })
	for name, r := range map[string]*jute.SetWatchesRequest{
		"same, changed":      {Data: same},
		"same, unchanged":    {Data: same, RelativeZxid: 1 << 60},
		"missing, deleted":   {Data: missing, RelativeZxid: 1 << 60},
		"missing, to wait":   {Exist: missing, RelativeZxid: 1 << 60},
		"children, changed":  {Child: same},
		"empty paths":        {Exist: empty},
		"negative, children": {Child: missing, RelativeZxid: -1},
	} {
		t.Run(name, func(t *testing.T) {
			bounded(t, s, 400, func() {
				c := s.connect()
				defer c.Close()
				reply, err := c.call(jute.OpSetWatches, r)
				if err != nil || reply.Err != 0 {
					t.Errorf("%v, %v", err, reply.Err)
				}
				t.Logf("%d events at once", c.events)
			})
		})
	}
}

// TestSlowWriters sends bytes one at a time: connect requests that never end, and
// requests that never end on sessions, which must not keep those alive.
func TestSlowWriters(t *testing.T) {
	s := newServer(t, append(open, "nio.sessionlessCnxnTimeout=500")...)
	s.start()
	end := watchOver(t, s)
	defer end()
	const n = 100
	var wg sync.WaitGroup
	for i := range n {
		var nc net.Conn
		var dribble []byte
		if i%2 == 0 {
			nc, dribble = raw(t, s.addr, nil), frameOf(make([]byte, 500_000))
		} else {
			c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 300})
			if err != nil {
				t.Fatal(err)
			}
			nc, dribble = c.Net, requestFrame(1, jute.OpSetData, make([]byte, 1_000_000))
		}
		wg.Go(func() {
			defer nc.Close()
			began := time.Now()
			tick := time.NewTicker(time.Duration(10+rand.IntN(10)) * time.Millisecond)
			defer tick.Stop()
			for _, b := range dribble {
				<-tick.C
				if _, err := nc.Write([]byte{b}); err != nil {
					return
				}
				if time.Since(began) > unbearable {
					t.Error("a connection that sends a byte at a time is not closed")
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestHalfOpen has clients that close their sending side after their requests: as
// with Apache's server, that is the end of the connection. Nothing of them stays.
func TestHalfOpen(t *testing.T) {
	s := newServer(t, open...)
	s.start()
	if _, err := s.connect().create("/a", nil, jute.ModePersistent); err != nil {
		t.Fatal(err)
	}
	end := watchOver(t, s)
	defer end()
	for range 20 {
		c := s.connect()
		for range 10 {
			c.Put(jute.OpSetData, &jute.SetDataRequest{Path: "/a", Version: -1})
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := c.Net.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		awaitClosed(t, c.Net)
		awaitGone(t, s, c)
	}
}

// TestACLBombs has a client of many identities, and requests full of ACL entries
// that stand for all of these.
func TestACLBombs(t *testing.T) {
	auth := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}
	var every []jute.ACL
	for p := range jute.PermAll {
		every = append(every, jute.ACL{Perms: p + 1, ID: jute.ID{Scheme: "auth"}})
	}
	for name, bomb := range map[string]*repeated{
		"one entry":    fullOf(jute.MultiOp{Type: jute.OpCreate, Path: "/wide/s", ACL: auth, Mode: jute.ModePersistentSequential}),
		"many entries": fullOf(jute.MultiOp{Type: jute.OpCreate, Path: "/wide/s", ACL: every, Mode: jute.ModePersistentSequential}),
	} {
		t.Run(name, func(t *testing.T) {
			s := withBigNodes(t)
			end := watchOver(t, s)
			defer end()
			bounded(t, s, 800, func() {
				c := s.connect()
				ids := 0
				for ; ids < 5000; ids++ {
					r, err := c.call(jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: fmt.Appendf(nil, "user%d:x", ids)})
					if err != nil {
						t.Fatal(err)
					}
					if r.Err != 0 {
						break
					}
				}
				c.Close()
				c = s.connect()
				for i := range ids {
					if _, err := c.do(jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: fmt.Appendf(nil, "user%d:x", i)}); err != nil {
						t.Fatal(err)
					}
				}
				r, err := c.call(jute.OpMulti, bomb)
				t.Logf("multi of %d creates by a client of %d identities: %d bytes, code %v, %v", bomb.count, ids, len(r.body), r.Err, err)
			})
		})
	}
}

// TestUnreadWords sends four-letter words with long answers, and does not read
// these.
func TestUnreadWords(t *testing.T) {
	s := newServer(t, append(open, "nio.sessionlessCnxnTimeout=2000")...)
	s.start()
	end := watchOver(t, s)
	defer end()
	c := s.connect()
	list := make([]string, 8000)
	for i := range list {
		list[i] = fmt.Sprintf("/%s%d", strings.Repeat("w", 100), i)
	}
	for range 5 {
		if _, err := c.do(jute.OpSetWatches, &jute.SetWatchesRequest{RelativeZxid: 1 << 60, Exist: list}); err != nil {
			t.Fatal(err)
		}
		for i := range list {
			list[i] += "x"
		}
	}
	var conns []net.Conn
	for _, word := range []string{"wchp", "wchc", "dump", "cons", "mntr", "envi", "stat"} {
		for range 5 {
			conns = append(conns, raw(t, s.addr, []byte(word)))
		}
	}
	for _, nc := range conns {
		defer nc.Close()
		local := nc.LocalAddr().String()
		if !s.Poll(func() bool {
			answer, err := ask.Within(patience, s.addr, "cons")
			return err == nil && !strings.Contains(answer, local)
		}) {
			t.Error("the server keeps a connection that does not read its answer")
		}
	}
}

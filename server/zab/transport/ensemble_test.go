package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

func hostOf(id zab.SID) string { return fmt.Sprintf("s%d", id) }
func addrOf(id zab.SID) string { return hostOf(id) + ":2888" }

// node is a transport under test, with a handler that records its calls and checks the
// rules for any handler.
type node struct {
	t    *testing.T
	id   zab.SID
	tr   *Transport
	logs *observer.ObservedLogs

	onStream func(header []byte, r io.Reader) error
	onDown   func() // called before PeerDown is recorded

	mu      sync.Mutex
	up      map[zab.SID]uint64
	hello   map[zab.SID]Hello
	seen    map[uint64]bool
	ups     int
	downs   []string // reasons
	got     []uint64 // Seq of messages
	app     [][]byte
	entries [][]byte
	drained int
}

func (n *node) PeerUp(peer zab.SID, gen uint64, h Hello) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.up[peer] != 0 || gen == 0 || n.seen[gen] || h.ID != peer {
		n.t.Errorf("server %d: PeerUp(%d, %d, %+v) while %d is up", n.id, peer, gen, h, n.up[peer])
	}
	n.seen[gen] = true
	n.up[peer], n.hello[peer] = gen, h
	n.ups++
}

func (n *node) PeerDown(peer zab.SID, gen uint64, err error) {
	if n.onDown != nil {
		n.onDown()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.up[peer] != gen || err == nil {
		n.t.Errorf("server %d: PeerDown(%d, %d, %v) while %d is up", n.id, peer, gen, err, n.up[peer])
	}
	delete(n.up, peer)
	n.downs = append(n.downs, err.Error())
}

func (n *node) checkUp(peer zab.SID, gen uint64) {
	if n.up[peer] != gen {
		n.t.Errorf("server %d: received from %d on link %d while %d is up", n.id, peer, gen, n.up[peer])
	}
}

func (n *node) Receive(peer zab.SID, gen uint64, m *zab.Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checkUp(peer, gen)
	n.got = append(n.got, m.Seq)
	for _, e := range m.Entries {
		n.entries = append(n.entries, e.Data)
	}
}

func (n *node) ReceiveApp(peer zab.SID, gen uint64, kind uint8, body []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checkUp(peer, gen)
	n.app = append(n.app, append([]byte{kind}, body...))
}

func (n *node) Drained(peer zab.SID, gen uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checkUp(peer, gen)
	n.drained++
}

func (n *node) Stream(_ zab.SID, header []byte, r io.Reader) error {
	if n.onStream == nil {
		return errors.New("no streams here")
	}
	return n.onStream(header, r)
}

// gen returns the gen of the link to a peer, 0 if there is none.
func (n *node) gen(peer zab.SID) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.up[peer]
}

func (n *node) received() []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got)
}

func (n *node) send(to zab.SID, seq uint64) {
	n.tr.Send(to, n.gen(to), &zab.Message{Kind: zab.MsgPing, Seq: seq})
}

// Copies of the recorded calls.

func (n *node) links() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ups
}

func (n *node) why() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.downs)
}

func (n *node) said() map[zab.SID]Hello {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.hello)
}

func (n *node) ids() map[zab.SID]uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.up)
}

func (n *node) apps() [][]byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.app)
}

func (n *node) data() [][]byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.entries)
}

// logged returns how many lines of the log contain a text in their message or fields.
func (n *node) logged(text string) (count int) {
	for _, e := range n.logs.All() {
		line := e.Message
		for k, v := range e.ContextMap() {
			line += fmt.Sprintf(" %s=%v", k, v)
		}
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}

// says is an Options.Introduce.
func says(in zab.Introduction) func() zab.Introduction {
	return func() zab.Introduction { return in }
}

// newNode starts a server in an ensemble of size servers.
func newNode(t *testing.T, net *memNet, id zab.SID, size int, change ...func(*Options)) *node {
	t.Helper()
	n := &node{t: t, id: id, up: make(map[zab.SID]uint64), hello: make(map[zab.SID]Hello), seen: make(map[uint64]bool)}
	core, logs := observer.New(zapcore.DebugLevel)
	n.logs = logs
	o := Options{
		Self: id, Introduce: says(zab.Introduction{Incarnation: zab.ID{byte(id)}, Boot: uint64(id)}), Listen: []string{addrOf(id)},
		ListenFunc: net.listen, DialFunc: net.dialer(hostOf(id)), Handler: n, Logger: zap.New(core),
	}
	for p := zab.SID(1); int(p) <= size; p++ {
		o.Peers = append(o.Peers, Peer{ID: p, Addrs: []string{addrOf(p)}})
	}
	for _, f := range change {
		f(&o)
	}
	tr, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	n.tr = tr
	if err := tr.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.close() })
	return n
}

func (n *node) close() {
	n.tr.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.up) > 0 {
		n.t.Errorf("server %d: links up after Close: %v", n.id, n.up)
	}
}

// within waits until ok returns true, in the bubble's time.
func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(d)
	for {
		synctest.Wait()
		if ok() {
			return
		}
		if !time.Now().Before(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// linked reports whether all servers have links to all others.
func linked(nodes ...*node) bool {
	for _, a := range nodes {
		for _, b := range nodes {
			if a != b && a.gen(b.id) == 0 {
				return false
			}
		}
	}
	return true
}

func sequence(n int) (want []uint64) {
	for i := range n {
		want = append(want, uint64(i+1))
	}
	return want
}

func TestTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		in := zab.Introduction{Incarnation: zab.ID{1}, Boot: 1, Cluster: zab.ID{9}, List: 7, Vouched: true,
			Starts: []zab.Start{{Boot: 8, Position: 1}, {Boot: 1, Position: 99}}, Members: zab.Members{List: []zab.Member{{ID: 1}, {ID: 2, Observer: true}}}}
		one := func(o *Options) { o.Introduce, o.Advertise = says(in), []string{"here:2888"} }
		a, b := newNode(t, net, 1, 2, one), newNode(t, net, 2, 2)
		within(t, 100*time.Millisecond, "a link", func() bool { return linked(a, b) })
		if h := b.said()[1]; !reflect.DeepEqual(h.Introduction, in) || h.Version != maxVersion || !slices.Equal(h.Listen, []string{"here:2888"}) || h.TLS {
			t.Errorf("hello of 1: %+v", h)
		}
		const many = 2000
		for i := range uint64(many) {
			a.send(2, i+1)
			b.send(1, i+1)
		}
		big := bytes.Repeat([]byte("x"), 300<<10)
		m := &zab.Message{Kind: zab.MsgAppend, Seq: many + 1, Prev: jute.MakeZxid(1, 0)}
		for i := range uint32(3) {
			m.Entries = append(m.Entries, zab.Entry{Zxid: jute.MakeZxid(1, i+1), Prev: jute.MakeZxid(1, i), Data: big})
		}
		a.tr.Send(2, a.gen(2), m)
		a.tr.SendApp(2, a.gen(2), Bulk, 7, []byte("hello"))
		a.tr.SendApp(2, a.gen(2)+1, Bulk, 7, []byte("other gen"))
		synctest.Wait()
		for _, n := range []*node{a, b} {
			want := sequence(many)
			if n == b {
				want = sequence(many + 1)
			}
			if got := n.received(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("server %d received %d messages, or not in order", n.id, len(got))
			}
		}
		if len(b.data()) != 3 || !bytes.Equal(b.data()[2], big) {
			t.Errorf("%d entries", len(b.data()))
		}
		if len(b.apps()) != 1 || string(b.apps()[0]) != "\x07hello" {
			t.Errorf("app frames %q", b.apps())
		}
		time.Sleep(time.Minute) // keep-alives keep the link up
		if a.links() != 1 || b.links() != 1 || !linked(a, b) {
			t.Errorf("the link did not last: %v %v", a.why(), b.why())
		}
	})
}

// TestFiveInAnyOrder starts servers so far apart that the earlier ones are at the end of
// their back-off.
func TestFiveInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		var nodes []*node
		for _, id := range []zab.SID{3, 5, 1, 4, 2} {
			nodes = append(nodes, newNode(t, net, id, 5))
			within(t, 50*time.Millisecond, "all links", func() bool { return linked(nodes...) })
			time.Sleep(20 * time.Second)
		}
	})
}

// TestReturn checks that a server that was away is linked at once, whatever its id: it
// makes the others reset their back-off.
func TestReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		a, b, c := newNode(t, net, 1, 3), newNode(t, net, 2, 3), newNode(t, net, 3, 3)
		within(t, time.Second, "all links", func() bool { return linked(a, b, c) })
		b.close()
		time.Sleep(time.Hour)
		b = newNode(t, net, 2, 3, func(o *Options) { o.Introduce = says(zab.Introduction{Boot: 22}) })
		within(t, 50*time.Millisecond, "all links again", func() bool { return linked(a, b, c) })
		if n := a.logged("can't reach a peer"); n > 4 {
			t.Errorf("%d lines about one peer that is away for an hour", n)
		}
	})
}

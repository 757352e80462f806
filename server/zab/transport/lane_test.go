package transport

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// bloated is a network whose buffers hold 16 MiB per connection, as those of sockets,
// relays and routers together can.
func bloated() *memNet {
	net := newMemNet()
	net.window = 16 << 20
	return net
}

// entriesOf returns an APPEND with one entry of n bytes.
func entriesOf(counter uint32, n int) *zab.Message {
	return &zab.Message{Kind: zab.MsgAppend, Seq: uint64(counter), Entries: []zab.Entry{{Zxid: jute.MakeZxid(1, counter), Data: make([]byte, n)}}}
}

// TestControlOvertakesBulk sends a burst of entries over slow paths that buffer all of it.
// Heartbeats sent meanwhile must take little longer than on an idle path, and the entries
// arrive in order, at the rate of the path.
func TestControlOvertakesBulk(t *testing.T) {
	for _, tt := range []struct {
		rate  int // bytes per second
		entry int
		most  time.Duration // maximum time of a heartbeat
	}{
		{500_000, 100_000, 200 * time.Millisecond},
		{500_000, 1_000_000, 200 * time.Millisecond},
		{1_000_000, 1_000_000, 200 * time.Millisecond},
		{4_000_000, 100_000, 200 * time.Millisecond},
		{12_000_000, 20_000_000, 200 * time.Millisecond},
		{100_000, 100_000, 500 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("rate=%d/entry=%d", tt.rate, tt.entry), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := bloated()
				a, b := newNode(t, net, 1, 2), newNode(t, net, 2, 2)
				within(t, time.Second, "a link", func() bool { return linked(a, b) })
				net.setSlow("s1", "s2", tt.rate)
				total := min(5*tt.rate, 20_000_000)
				count := uint32(max(1, total/tt.entry))
				start := time.Now()
				for i := range count {
					a.tr.Send(2, a.gen(2), entriesOf(i+1, tt.entry))
				}
				slowest := heartbeats(t, a, b, func() bool { return b.counted() == int(count) })
				took := time.Since(start)
				t.Logf("slowest heartbeat %v; the entries took %v", slowest, took)
				if slowest > tt.most {
					t.Errorf("a heartbeat took %v", slowest)
				}
				ideal := time.Duration(int64(count) * int64(tt.entry) * int64(time.Second) / int64(tt.rate))
				if took > ideal*5/4+time.Second {
					t.Errorf("the entries took %v, and need %v", took, ideal)
				}
				if a.links() != 1 {
					t.Errorf("links were cut: %v %v", a.why(), b.why())
				}
			})
		})
	}
}

// heartbeat is the Seq of the first heartbeat; those of entries are below.
const heartbeat = 1 << 40

// heartbeats sends a heartbeat each 100 ms until done, and returns the maximum delay.
func heartbeats(t *testing.T, a, b *node, done func() bool) (slowest time.Duration) {
	t.Helper()
	start := time.Now()
	for seq := uint64(heartbeat); !done(); seq++ {
		if time.Since(start) > 10*time.Minute {
			t.Fatal("not done within 10 minutes")
		}
		sent := time.Now()
		a.tr.Send(2, a.gen(2), &zab.Message{Kind: zab.MsgPing, Seq: seq})
		for !slices.Contains(b.received(), seq) {
			time.Sleep(time.Millisecond)
			if time.Since(sent) > time.Minute {
				t.Fatal("a heartbeat does not come")
			}
		}
		slowest = max(slowest, time.Since(sent))
		time.Sleep(100 * time.Millisecond)
	}
	return slowest
}

// counted returns how many entries have arrived.
func (n *node) counted() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.entries)
}

// TestLanesKeepTheirOrder sends messages of all lengths in both lanes, over a slow path and
// a fast one. Each lane arrives complete and in order; no bulk message arrives before a
// control message sent earlier.
func TestLanesKeepTheirOrder(t *testing.T) {
	for _, rate := range []int{0, 300_000} {
		synctest.Test(t, func(t *testing.T) {
			net := bloated()
			a, b := newNode(t, net, 1, 2), newNode(t, net, 2, 2)
			within(t, time.Second, "a link", func() bool { return linked(a, b) })
			if rate > 0 {
				net.setSlow("s1", "s2", rate)
			}
			r := rand.New(rand.NewPCG(uint64(rate), 7))
			const messages = 400
			lanes := make([]Lane, messages)
			var want [][]byte
			for i := range lanes {
				lanes[i] = Lane(r.IntN(2))
				n := []int{0, 10, pieceSize - 100, pieceSize - 6, pieceSize - 5, pieceSize - 4, pieceSize + 1, 3 * pieceSize, 100_000}[r.IntN(9)]
				if lanes[i] == Control {
					n = r.IntN(50)
				}
				body := append([]byte{byte(i), byte(i >> 8)}, pattern(n)...)
				want = append(want, body)
				a.tr.SendApp(2, a.gen(2), lanes[i], uint8(lanes[i]), body)
				if r.IntN(20) == 0 {
					time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
				}
			}
			within(t, 5*time.Minute, "all messages", func() bool { return len(b.apps()) == messages })
			checkLanes(t, lanes, want, b.apps())
		})
	}
}

// checkLanes compares the received messages with those sent.
func checkLanes(t *testing.T, lanes []Lane, want, got [][]byte) {
	t.Helper()
	next := [2]int{-1, -1} // by lane: the last message received
	for _, g := range got {
		i := int(g[1]) | int(g[2])<<8
		if Lane(g[0]) != lanes[i] || !bytes.Equal(g[1:], want[i]) {
			t.Fatalf("message %d came damaged", i)
		}
		following := slices.Index(lanes[next[g[0]]+1:], lanes[i])
		if following < 0 || next[g[0]]+1+following != i {
			t.Fatalf("in lane %d message %d came after %d", g[0], i, next[g[0]])
		}
		next[g[0]] = i
		if before := slices.Index(lanes[next[Control]+1:], Control); lanes[i] == Bulk && before >= 0 && next[Control]+1+before < i {
			t.Fatalf("bulk message %d came before control message %d", i, next[Control]+1+before)
		}
	}
}

// TestRoomIsBounded fills a link as intended, by Room and Drained: the queue stays short,
// and the path busy.
func TestRoomIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := bloated()
		a, b := newNode(t, net, 1, 2), newNode(t, net, 2, 2)
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		net.setSlow("s1", "s2", 1_000_000)
		const entry, count = 10_000, 2000
		start := time.Now()
		drained := -1
		for sent := uint32(0); sent < count; {
			if n := a.drains(); n == drained {
				time.Sleep(time.Millisecond)
				continue
			} else {
				drained = n
			}
			for room := a.tr.Room(2, a.gen(2)); room > 0 && sent < count; room -= entry {
				sent++
				a.tr.Send(2, a.gen(2), entriesOf(sent, entry))
			}
			if s := a.tr.Peers()[0]; s.BulkBytes+s.UnreadBytes > 2*leastBacklog {
				t.Fatalf("%d bytes wait, and %d are on their way", s.BulkBytes, s.UnreadBytes)
			}
			a.tr.Room(2, a.gen(2))
		}
		within(t, time.Minute, "all", func() bool { return b.counted() == count })
		if took := time.Since(start); took > 24*time.Second {
			t.Errorf("took %v, and the way needs 20 s", took)
		}
		if a.tr.Room(2, 77) != 0 {
			t.Error("room on a link that there is not")
		}
	})
}

func (n *node) drains() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.drained
}

// TestStreamsLeaveRoomForHeartbeats sends two streams and a burst of entries over one slow
// path. They share its rate; heartbeats take little longer than on an idle path.
func TestStreamsLeaveRoomForHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := bloated()
		a, b := newNode(t, net, 1, 2), newNode(t, net, 2, 2)
		b.onStream = func(_ []byte, r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		}
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		net.setSlow("s1", "s2", 1_000_000)
		done := make(chan error, 2)
		for range 2 {
			s := open(t, a, "")
			go func() {
				_, err := s.Write(make([]byte, 5_000_000))
				if err == nil {
					err = s.Close()
				}
				done <- err
			}()
		}
		for i := range uint32(50) {
			a.tr.Send(2, a.gen(2), entriesOf(i+1, 100_000))
		}
		start := time.Now()
		slowest := heartbeats(t, a, b, func() bool { return b.counted() == 50 && len(done) == 2 })
		if slowest > 500*time.Millisecond {
			t.Errorf("a heartbeat took %v", slowest)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("took %v, and the way needs 15 s", took)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if in, _ := b.tr.Progress(1); in < 15_000_000 {
			t.Errorf("%d bytes have arrived", in)
		}
		if _, out := a.tr.Progress(2); out < 14_900_000 {
			t.Errorf("%d bytes were credited", out)
		}
	})
}

// TestCreditsWaitForCompany: less than half of the window is credited with the next control
// frame, or after creditDelay; more is credited at once.
func TestCreditsWaitForCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		a, b := newNode(t, net, 1, 2), newNode(t, net, 2, 2)
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		credited := func(n int) uint64 {
			t.Helper()
			_, before := a.tr.Progress(2)
			a.tr.Send(2, a.gen(2), entriesOf(1, n))
			synctest.Wait()
			_, after := a.tr.Progress(2)
			return after - before
		}
		if n := credited(2 * creditStep); n != 0 {
			t.Errorf("%d bytes were credited at once", n)
		}
		time.Sleep(creditDelay)
		synctest.Wait()
		if _, n := a.tr.Progress(2); n < 2*creditStep {
			t.Errorf("%d bytes are credited after %v", n, creditDelay)
		}
		credited(2 * creditStep)
		b.send(1, 1)
		synctest.Wait()
		if _, n := a.tr.Progress(2); n < 4*creditStep {
			t.Errorf("%d bytes are credited after a control frame", n)
		}
		if n := credited(firstWindow); n < firstWindow/2 {
			t.Errorf("of a whole window %d bytes were credited at once", n)
		}
	})
}

// TestBadBulk sends invalid frames. Each ends its link.
func TestBadBulk(t *testing.T) {
	long := func(n uint32, kind uint8) []byte {
		return []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), kind}
	}
	for _, tt := range []struct {
		name   string
		frames [][]byte // kind, body
	}{
		{"credit for what was not sent", [][]byte{append([]byte{kindCredit}, 0, 0, 0, 0, 0, 0, 0, 1)}},
		{"short credit", [][]byte{{kindCredit, 0, 0}}},
		{"piece of nothing", [][]byte{{kindPiece | bulk, 1, 2, 3}}},
		{"long frame that is short", [][]byte{append([]byte{kindLong | bulk}, long(10, kindApp)...)}},
		{"long frame beyond the limit", [][]byte{append([]byte{kindLong | bulk}, long(1<<31, kindApp)...)}},
		{"frame amid pieces", [][]byte{append([]byte{kindLong | bulk}, long(1<<20, kindApp)...), {kindApp | bulk, 1}}},
		{"long frame amid pieces", [][]byte{append([]byte{kindLong | bulk}, long(1<<20, kindApp)...), append([]byte{kindLong | bulk}, long(1<<20, kindApp)...)}},
		{"more than was announced", [][]byte{append([]byte{kindLong | bulk}, long(pieceSize+1, kindApp)...),
			append([]byte{kindPiece | bulk}, make([]byte, pieceSize)...), {kindPiece | bulk, 1, 2}}},
		{"keep-alive in the bulk lane", [][]byte{{kindKeepAlive | bulk}}},
		{"piece in the control lane", [][]byte{{kindPiece, 1}}},
		{"a control frame that asks for a credit", [][]byte{{kindKeepAlive | asks}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newMemNet()
				a := newNode(t, net, 1, 2)
				within(t, time.Second, "the listener", func() bool { return net.listeners[addrOf(1)] != nil })
				raw := dialRaw(t, net, 1)
				raw.greet(validHello())
				within(t, time.Second, "a link", func() bool { return a.gen(2) != 0 })
				for _, f := range tt.frames {
					raw.nc.Write(appendFrame(nil, f[0], f[1:], true))
				}
				within(t, time.Second, "the end of the link", func() bool { return len(a.why()) == 1 })
			})
		})
	}
}

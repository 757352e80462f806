package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/server/zab"
)

// TestRefusals has two servers that must not be linked. Both sides log the reason once,
// however often they try.
func TestRefusals(t *testing.T) {
	cluster := func(b byte) func(*Options) {
		return func(o *Options) { o.Introduce = says(zab.Introduction{Boot: uint64(b), Cluster: zab.ID{b}}) }
	}
	peerAt := func(id zab.SID, addr string) func(*Options) {
		return func(o *Options) { o.Peers = []Peer{{ID: id, Addrs: []string{addr}}} }
	}
	tests := []struct {
		name     string
		one, two func(*Options)
		in1, in2 string // logs of servers 1 and 2
	}{
		{"other cluster", cluster(0xaa), cluster(0xbb),
			"belongs to cluster bb", "belongs to cluster aa"},
		{"unknown id", func(o *Options) { o.Peers = nil }, nil, "server 2 is not in the configuration of server 1", "server 2 is not in the configuration of server 1"},
		{"wrong target", nil, peerAt(3, addrOf(1)), "server 1 answers at the address of server 3", "server 1 answers at the address of server 3"},
		{"other secret", func(o *Options) { o.Secret = []byte("a") }, func(o *Options) { o.Secret = []byte("b") }, "its shared secret is another one", "its shared secret is another one"},
		{"a history of a later version", func(o *Options) { o.Reads, o.Needs = 3, func() uint32 { return 3 } }, func(o *Options) { o.Reads = 2 },
			"the history of server 1 has transactions of format 3, and server 2 reads up to format 2: the version of server 2 is too old",
			"the history of server 1 has transactions of format 3, and server 2 reads up to format 2"},
		{"a history of a later version at the other server", func(o *Options) { o.Reads = 2 }, func(o *Options) { o.Reads, o.Needs = 3, func() uint32 { return 3 } },
			"the version of server 1 is too old", "the version of server 1 is too old"},
		{"secret on one side", func(o *Options) { o.Secret = []byte("a") }, nil, "has a shared secret", "has a shared secret"},
		{"secret on the other side", nil, func(o *Options) { o.Secret = []byte("a") }, "has a shared secret", "has a shared secret"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newMemNet()
				var nodes []*node
				for i, change := range []func(*Options){tt.one, tt.two} {
					if change == nil {
						change = func(*Options) {}
					}
					nodes = append(nodes, newNode(t, net, zab.SID(i+1), 2, change))
				}
				time.Sleep(2 * time.Minute)
				for i, want := range []string{tt.in1, tt.in2} {
					n := nodes[i]
					if n.links() != 0 {
						t.Errorf("server %d has a link", n.id)
					}
					if lines := n.logged(want); lines < 1 || lines > 2 { // once as the dialer and once as the acceptor
						t.Errorf("server %d: %d lines with %q in %d:\n%v", n.id, lines, want, n.logs.Len(), n.logs.All())
					}
				}
			})
		})
	}
}

// TestLaterVersionsAreLinked: a format that a server could only write is no reason to
// refuse it, and a hello without these numbers is one of format 1.
func TestLaterVersionsAreLinked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		a := newNode(t, net, 1, 2, func(o *Options) { o.Reads, o.Needs = 9, func() uint32 { return 1 } })
		b := newNode(t, net, 2, 2, func(o *Options) { o.Reads = 2 })
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
	})
	for _, one := range []struct{ ours, theirs helloRecord }{
		{helloRecord{Reads: 2, Needs: 1}, helloRecord{Reads: 3, Needs: 3}},
		{helloRecord{Reads: 3, Needs: 3}, helloRecord{Reads: 2, Needs: 1}},
		{helloRecord{Reads: 2, Needs: 2}, helloRecord{}},
	} {
		for _, r := range []*helloRecord{&one.ours, &one.theirs} {
			r.Min, r.Max, r.Cluster = minVersion, maxVersion, make([]byte, 16)
		}
		if err := (&handshake{ours: one.ours, theirs: one.theirs}).checkBoth(); err == nil || !strings.Contains(err.Error(), "is too old") {
			t.Errorf("%+v: %v, want a refusal", one, err)
		}
	}
	h := validHello()
	h.Reads = 0
	us := helloRecord{Min: minVersion, Max: maxVersion, Reads: 1, Needs: 1, Cluster: h.Cluster}
	if err := (&handshake{ours: us, theirs: h}).checkBoth(); err != nil {
		t.Errorf("a hello that does not say what it reads: %v", err)
	}
}

// TestSameSecret links servers with a secret, without TLS.
func TestSameSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		secret := func(o *Options) { o.Secret = []byte("sesame") }
		a, b := newNode(t, net, 1, 2, secret), newNode(t, net, 2, 2, secret)
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
	})
}

// TestSameIDTwice starts a second process with the id of a live one. The first keeps its
// links, and both processes and their peers log what is wrong.
func TestSameIDTwice(t *testing.T) {
	for _, id := range []zab.SID{1, 2} {
		t.Run(hostOf(id), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newMemNet()
				other, first := newNode(t, net, 3-id, 2), newNode(t, net, id, 2)
				within(t, time.Second, "a link", func() bool { return linked(other, first) })
				second := newNode(t, net, id, 2, func(o *Options) {
					o.Introduce, o.Listen, o.DialFunc = says(zab.Introduction{Boot: 99}), []string{"elsewhere:2888"}, net.dialer("elsewhere")
				})
				time.Sleep(time.Minute)
				if other.links() != 1 || first.links() != 1 || second.links() != 0 {
					t.Errorf("links: %d %d %d", other.links(), first.links(), second.links())
				}
				want := fmt.Sprintf("another process uses id %d", id)
				if other.logged(want) == 0 || second.logged(want) == 0 {
					t.Errorf("not logged: %v %v", other.logs.All(), second.logs.All())
				}
				first.close()
				within(t, 2*time.Second, "the second has the link", func() bool { return second.gen(other.id) != 0 || id == 1 })
			})
		})
	}
}

// TestNewcomers: only Stranger admits a server that is not among the peers, whichever of
// the two has the larger id. A refused server is told so.
func TestNewcomers(t *testing.T) {
	for _, id := range []zab.SID{1, 2} {
		t.Run(hostOf(id), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newMemNet()
				var open atomic.Bool
				var refused atomic.Uint32
				old := newNode(t, net, id, 2, func(o *Options) {
					o.Peers = nil
					o.Stranger = func(h Hello) error {
						if !open.Load() {
							return errors.New("it is not among the members 7, 8")
						}
						return nil
					}
				})
				young := newNode(t, net, 3-id, 2, func(o *Options) {
					o.Advertise = []string{addrOf(3 - id)}
					o.Refused = func(h Hello) { refused.Store(uint32(h.ID)) }
				})
				time.Sleep(10 * time.Second)
				if old.links() != 0 || refused.Load() != uint32(id) || young.logged("it is not among the members 7, 8") == 0 {
					t.Errorf("links %d, refused by %d, logged %v", old.links(), refused.Load(), young.logs.All())
				}
				open.Store(true)
				within(t, 10*time.Second, "a link", func() bool { return linked(old, young) })
				open.Store(false)
				if err := old.tr.SetPeers(nil); err != nil {
					t.Fatal(err)
				}
				within(t, time.Second, "no link", func() bool { return old.gen(young.id) == 0 })
			})
		})
	}
}

// TestRelink makes a server introduce itself again, as the same process.
func TestRelink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		var in atomic.Pointer[zab.Introduction]
		in.Store(&zab.Introduction{Boot: 1, Incarnation: zab.ID{1}})
		a, b := newNode(t, net, 1, 2, func(o *Options) {
			o.Introduce = func() zab.Introduction { return *in.Load() }
		}), newNode(t, net, 2, 2)
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		in.Store(&zab.Introduction{Boot: 1, Incarnation: zab.ID{2}})
		a.tr.Relink()
		within(t, time.Second, "a link with the new name", func() bool { return linked(a, b) && b.said()[1].Incarnation == zab.ID{2} })
	})
}

// TestRelinkDuringHandshake changes what a server says of itself at each step of the handshake of
// its first link, as the dialer and as the acceptor. The link that stays is one on which it has
// said what is true.
func TestRelinkDuringHandshake(t *testing.T) {
	const steps = 10 // writes: of a call, of the link's hellos and verdicts, and the first frames
	for id := zab.SID(1); id <= 2; id++ {
		for step := range int64(steps) {
			t.Run(fmt.Sprintf("server %d, write %d", id, step+1), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem := newMemNet()
					var in atomic.Pointer[zab.Introduction]
					in.Store(&zab.Introduction{Boot: uint64(id), Incarnation: zab.ID{10}})
					var changing *node
					taps := &taps{before: func(write int64) {
						if write == step {
							in.Store(&zab.Introduction{Boot: uint64(id), Incarnation: zab.ID{11}})
							changing.tr.Relink()
						}
					}}
					changing = newNode(t, mem, id, 2, taps.tap, func(o *Options) {
						o.Introduce = func() zab.Introduction { return *in.Load() }
					})
					other := newNode(t, mem, 3-id, 2, taps.tap)
					within(t, time.Minute, "the change", func() bool { return taps.writes.Load() >= steps })
					time.Sleep(10 * time.Second)
					if !linked(changing, other) || other.said()[id].Incarnation != (zab.ID{11}) {
						t.Errorf("linked: %v; the other server knows it as %v", linked(changing, other), other.said()[id].Incarnation)
					}
				})
			})
		}
	}
}

// TestCut ends one link, which is made again.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMemNet()
		a, b, c := newNode(t, mem, 1, 3), newNode(t, mem, 2, 3), newNode(t, mem, 3, 3)
		within(t, time.Second, "all links", func() bool { return linked(a, b, c) })
		before := a.gen(2)
		a.tr.Cut(2, before+1) // not this one
		a.tr.Cut(2, before)
		within(t, time.Second, "another link", func() bool { return linked(a, b, c) && a.gen(2) > before })
		if a.links() != 3 || c.links() != 2 {
			t.Errorf("server 1 had %d links, server 3 %d", a.links(), c.links())
		}
	})
}

// taps see the writes on all connections of some servers, in order.
type taps struct {
	writes atomic.Int64
	before func(write int64)
}

// tap makes a server's connections tapped ones.
func (p *taps) tap(o *Options) {
	dial, listen := o.DialFunc, o.ListenFunc
	o.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &tapped{nc, p}, nil
	}
	o.ListenFunc = func(network, addr string) (net.Listener, error) {
		l, err := listen(network, addr)
		return &tappedListener{l, p}, err
	}
}

type tapped struct {
	net.Conn
	*taps
}

func (c *tapped) Write(b []byte) (int, error) {
	c.before(c.writes.Add(1) - 1)
	return c.Conn.Write(b)
}

type tappedListener struct {
	net.Listener
	*taps
}

func (l *tappedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tapped{nc, l.taps}, nil
}

// rawPeer speaks the protocol by hand.
type rawPeer struct {
	t  *testing.T
	nc net.Conn
}

func dialRaw(t *testing.T, mem *memNet, to zab.SID) *rawPeer {
	t.Helper()
	nc, err := mem.dialer("s2")(t.Context(), "tcp", addrOf(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return &rawPeer{t, nc}
}

func validHello() helloRecord {
	return helloRecord{Min: minVersion, Max: maxVersion, From: 2, To: 1, Purpose: forLink, Reads: format.History.Range().Most, Cluster: make([]byte, 16), Incarnation: make([]byte, 16),
		Nonce: make([]byte, nonceSize), Boot: 2, Members: new(zab.Members).Append(nil), Starts: zab.AppendStarts(nil, nil)}
}

// greet sends a hello and returns the acceptor's verdict.
func (p *rawPeer) greet(h helloRecord) (v verdictRecord) {
	p.t.Helper()
	b, err := appendRecord([]byte(magic), &h)
	if err != nil {
		p.t.Fatal(err)
	}
	if b, err = appendRecord(b, &verdictRecord{}); err != nil {
		p.t.Fatal(err)
	}
	p.nc.Write(b)
	if _, _, err := readHello(p.nc); err != nil {
		p.t.Fatal(err)
	}
	if _, err := readRecord(p.nc, &v); err != nil {
		p.t.Fatal(err)
	}
	return v
}

func TestVerdicts(t *testing.T) {
	tests := []struct {
		name   string
		change func(h *helloRecord)
		cause  string
		text   string
	}{
		{"good", func(*helloRecord) {}, "", ""},
		{"versions that overlap", func(h *helloRecord) { h.Max = 7 }, "", ""},
		{"newer", func(h *helloRecord) { h.Min, h.Max = maxVersion+1, maxVersion+2 }, "version",
			fmt.Sprintf("server 2 speaks versions %d to %d of the protocol, server 1 only %d to %d: it is too old", maxVersion+1, maxVersion+2, minVersion, maxVersion)},
		{"older", func(h *helloRecord) { h.Min, h.Max = 1, 1 }, "version", "the former is too old"},
		{"wrong target", func(h *helloRecord) { h.To = 9 }, "target", "server 2 looks for server 9, and this is server 1"},
		{"our own id", func(h *helloRecord) { h.From = 1 }, "duplicate", "another process uses id 1"},
		{"ourselves", func(h *helloRecord) { h.From, h.Boot = 1, 1 }, "target", "server 1 connected to itself"},
		{"unknown id", func(h *helloRecord) { h.From = 77 }, "id", "server 77 is not in the configuration of server 1"},
		{"wrong direction", func(h *helloRecord) { h.Purpose = forCall }, "direction", "the one with the larger id dials"},
		{"unknown purpose", func(h *helloRecord) { h.Purpose = 9 }, "version", "for a purpose"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := newMemNet()
				newNode(t, mem, 1, 2)
				within(t, time.Second, "the listener", func() bool { return mem.listeners[addrOf(1)] != nil })
				h := validHello()
				tt.change(&h)
				v := dialRaw(t, mem, 1).greet(h)
				if v.Cause != tt.cause || !strings.Contains(v.Text, tt.text) {
					t.Errorf("got %q %q, want %q %q", v.Cause, v.Text, tt.cause, tt.text)
				}
			})
		})
	}
}

// TestSecretsAreNotGuessed tries secrets from one address: after a burst they are not looked at. A server at
// another address has its link, and the address may try again later.
func TestSecretsAreNotGuessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMemNet()
		a := newNode(t, mem, 1, 2, func(o *Options) { o.Secret = []byte("sesame") })
		synctest.Wait() // it listens
		refused := func(cause string) uint64 {
			a.tr.metrics.mu.Lock()
			defer a.tr.metrics.mu.Unlock()
			return a.tr.metrics.mu.refused[cause]
		}
		looked := func(tries int) (n int) {
			for range tries {
				h := validHello()
				h.Secret = true
				if v := dialRaw(t, mem, 1).tryGreet(h); v {
					n++
				}
				synctest.Wait()
			}
			return n
		}
		if n := looked(500); n != 10*secretFailures || refused("secret") != 500 {
			t.Errorf("%d of 500 secrets were looked at, %d refused", n, refused("secret"))
		}
		time.Sleep(time.Second)
		if n := looked(100); n != secretFailures {
			t.Errorf("%d were looked at a second later", n)
		}
	})
}

// tryGreet sends a hello with a wrong proof, and reports whether there was an answer.
func (p *rawPeer) tryGreet(h helloRecord) bool {
	b, _ := appendRecord([]byte(magic), &h)
	b, _ = appendRecord(b, &verdictRecord{Proof: make([]byte, 32)})
	p.nc.Write(b) // an error shows in the read
	n, _ := p.nc.Read(make([]byte, 1))
	return n > 0
}

// TestReplay replays the bytes sent by a dialer that knows the secret.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMemNet()
		secret := func(o *Options) { o.Secret = []byte("sesame") }
		a := newNode(t, mem, 1, 2, secret)
		var sent []byte
		b := newNode(t, mem, 2, 2, secret, func(o *Options) {
			dial := o.DialFunc
			o.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &wiretap{Conn: nc, sent: &sent}, nil
			}
		})
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		b.close()
		synctest.Wait()
		p := dialRaw(t, mem, 1)
		p.nc.Write(sent)
		io.Copy(io.Discard, p.nc)
		if a.links() != 1 || a.logged("its shared secret is another one") != 1 {
			t.Errorf("%d links; log %v", a.links(), a.logs.All())
		}
	})
}

type wiretap struct {
	net.Conn
	sent *[]byte
}

func (w *wiretap) Write(p []byte) (int, error) {
	*w.sent = append(*w.sent, p...)
	return w.Conn.Write(p)
}

// TestStrangers makes connections that must be refused: the log distinguishes them, and the
// links do not suffer (ZOOKEEPER-3769).
func TestStrangers(t *testing.T) {
	huge := binary.BigEndian.AppendUint32([]byte(magic), 1<<31)
	garbled, _ := appendRecord([]byte(magic), "hello")
	tests := []struct{ name, sends, want string }{
		{"http", "GET / HTTP/1.1\r\nHost: s1\r\n\r\n", "it speaks HTTP"},
		{"word", "ruok", "four-letter word, ruok"},
		{"client", "\x00\x00\x00\x2c\x00\x00\x00\x00\x00\x00\x00\x00", "ZooKeeper client"},
		{"election", "\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03", "Apache ZooKeeper server in its election"},
		{"follower", "\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00", "Apache ZooKeeper server that wants to follow"},
		{"tls", "\x16\x03\x01\x02\x00\x01\x00", "it speaks TLS"},
		{"ssh", "SSH-2.0-OpenSSH_9.2\r\n", "it does not speak zkd's protocol, but SSH-2.0-"},
		{"bytes", "\x80\x81\x82\x83\x84\x85\x86\x87\x88", "it does not speak zkd's protocol"},
		{"half a hello", magic + "\x00\x00", "unexpected EOF"},
		{"long hello", string(huge), "a hello is longer than possible"},
		{"hello without sense", string(garbled), "a hello that makes no sense"},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := newMemNet()
				a, b := newNode(t, mem, 1, 3), newNode(t, mem, 2, 3)
				within(t, time.Second, "a link", func() bool { return linked(a, b) })
				for range 3 {
					p := dialRaw(t, mem, 1)
					p.nc.Write([]byte(tt.sends))
					p.nc.(*memConn).CloseWrite()
					told, _ := io.ReadAll(p.nc)
					if client := tt.name == "client"; strings.HasPrefix(string(told), "zkd: this port is for other servers") != client {
						t.Errorf("it is told %q", told)
					}
				}
				want := 1
				if tt.want == "" {
					want = 0
				}
				if n := a.logged("refused a connection"); n != want || a.logged(tt.want) < want {
					t.Errorf("%d lines, want %d with %q; log %v", n, want, tt.want, a.logs.All())
				}
				if a.links() != 1 || b.links() != 1 {
					t.Error("the link of others suffered")
				}
			})
		})
	}
}

// TestSilentStranger checks that a silent connection is closed, and that many of them do
// not keep a peer out for longer than that.
func TestSilentStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMemNet()
		a := newNode(t, mem, 1, 2)
		within(t, time.Second, "the listener", func() bool { return mem.listeners[addrOf(1)] != nil })
		for range mostGreeting + 10 {
			dialRaw(t, mem, 1)
			synctest.Wait()
		}
		if n := a.tr.greeting.Load(); n != mostGreeting {
			t.Errorf("%d connections in their handshake", n)
		}
		b := newNode(t, mem, 2, 2)
		within(t, 5*time.Second, "a link", func() bool { return linked(a, b) })
	})
}

// TestGarbageOnALink breaks the frames of an established link.
func TestGarbageOnALink(t *testing.T) {
	flipped := appendFrame(nil, kindApp, []byte("\x01hello"), true)
	flipped[7] ^= 1
	tests := []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"flipped bit", flipped, "checksum"},
		{"length 0", []byte{0, 0, 0, 0, 0}, "length"},
		{"length 2 GiB", []byte{0x80, 0, 0, 0, kindEntries}, "length"},
		{"unknown kind", appendFrame(nil, 99, nil, true), "unknown kind"},
		{"of a stream", appendFrame(nil, kindData, []byte("x"), true), "unknown kind"},
		{"empty app", appendFrame(nil, kindApp, nil, true), "out of place"},
		{"empty message", appendFrame(nil, kindMessage, nil, true), "makes no sense"},
		{"entries where none are", appendFrame(nil, kindMessage, (&zab.Message{Kind: zab.MsgAppend, Entries: []zab.Entry{{Zxid: 1 << 32, Data: []byte("x")}}}).Append(nil), true), ""},
		{"end", nil, "EOF"},
		{"end within a frame", []byte{0, 0, 0, 9, kindApp}, "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := newMemNet()
				a := newNode(t, mem, 1, 3)
				within(t, time.Second, "the listener", func() bool { return mem.listeners[addrOf(1)] != nil })
				p := dialRaw(t, mem, 1)
				if v := p.greet(validHello()); v.Cause != "" {
					t.Fatal(v)
				}
				p.nc.Write(appendFrame(nil, kindKeepAlive, nil, true))
				synctest.Wait()
				if a.gen(2) == 0 {
					t.Fatal("no link")
				}
				p.nc.Write(tt.bytes)
				p.nc.Close()
				synctest.Wait()
				if len(a.why()) != 1 || !strings.Contains(a.why()[0], tt.want) || len(a.apps())+len(a.received()) > 0 {
					t.Errorf("down because of %q, want %q; received %q", a.why(), tt.want, a.apps())
				}
			})
		})
	}
}

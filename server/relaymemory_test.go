package server

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	zk "github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	edgememory "github.com/zkd-project/zkd/edge/memory"
	"github.com/zkd-project/zkd/jute"
)

// glancer is a client of an edge that has one-shot watches on nodes which the others change, in the memory that all clients of the edge share as far as
// that goes. Now and then it asks the servers for something.
type glancer struct {
	*zk.Relay
	rng   *rand.Rand
	u     *relayUser // for its options
	wrong []string

	mu    sync.Mutex
	asked []glance
	told  []glimpse
}

type glance struct {
	op    jute.OpCode
	path  string
	watch bool
}

// glimpse is a reply, or an event.
type glimpse struct {
	zk.Forwarded
	event *jute.WatcherEvent
}

// openMemory opens the memory of an edge.
func openMemory(dials *relayDials, seed uint64, told *atomic.Int64) (*edgememory.Memory, error) {
	return edgememory.Open(edgememory.Options{
		Servers: relayServers, Paths: []string{"/shared", "/list", "/u0", "/u1"}, Room: cache.NewRoom(1 << 30), Told: told, Log: slog.New(slog.DiscardHandler),
		Client: zk.Options{Dial: dials.from("10.0.1.1"), Logger: zk.NoLog, Timeout: 6 * time.Second, Rand: rand.New(rand.NewPCG(seed, 3))},
	})
}

func (g *glancer) reply(a zk.Forwarded) {
	a.Body = slices.Clone(a.Body)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = append(g.told, glimpse{Forwarded: a})
}

func (g *glancer) event(zxid zk.Zxid, ev jute.WatcherEvent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = append(g.told, glimpse{Forwarded: zk.Forwarded{Zxid: zxid}, event: &ev})
}

func (g *glancer) ask(q glance) {
	g.mu.Lock()
	xid := int32(len(g.asked))
	g.asked = append(g.asked, q)
	g.mu.Unlock()
	body := jute.AppendBool(jute.AppendString(nil, q.path), q.watch)
	switch q.op {
	case jute.OpSetData:
		body = set(q.path, "").Append(nil)
	case jute.OpSync:
		body = jute.AppendString(nil, q.path)
	}
	g.Forward(xid, q.op, body)
}

func (g *glancer) options() zk.RelayOptions {
	o := g.u.options()
	o.Session = zk.SessionKey{}
	return o
}

// begin begins a session.
func (g *glancer) begin() error {
	g.Relay = g.u.relay(g.reply, g.event, g.options())
	_, err := g.WaitConnected(context.Background())
	return err
}

// work asks until stop is closed.
func (g *glancer) work(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-g.Done():
			g.wrong = append(g.wrong, fmt.Sprintf("the connection has ended: %v", g.Client().Status().Err))
			return
		default:
		}
		watched := []glance{{jute.OpGetData, "/shared", true}, {jute.OpGetData, "/shared/a", true}, {jute.OpExists, "/shared/a", true}, {jute.OpGetChildren2, "/list", true}}
		q := watched[g.rng.IntN(len(watched))]
		q.watch = g.rng.IntN(3) > 0
		switch g.rng.IntN(60) {
		case 0:
			q = glance{jute.OpSetData, "/shared/a", false}
		case 1:
			q = glance{jute.OpSync, "/", false}
		case 2:
			g.handOver()
			continue
		}
		g.ask(q)
		if g.rng.IntN(3) == 0 {
			g.Ping()
		}
		<-time.After(time.Duration(g.rng.IntN(300)) * time.Millisecond)
	}
}

// handOver lets another edge continue the session, if nothing is under way within a second.
func (g *glancer) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	held, err := g.Hold(ctx)
	if err != nil {
		return
	}
	o, d := g.options(), jute.NewDecoder(held.Append(nil))
	o.Record = new(zk.RelayRecord)
	if o.Record.Decode(&d); d.Err() != nil {
		g.wrong = append(g.wrong, d.Err().Error())
		g.Release()
		return
	}
	relay := g.u.relay(g.reply, g.event, o)
	g.Leave()
	g.Relay = relay
}

// check holds what the client was told against the history, whose texts are as those of eventsOfFeed.
func (g *glancer) check(history []string, zxids []zk.Zxid) (remembered int) {
	fails := func(format string, args ...any) { g.wrong = append(g.wrong, fmt.Sprintf(format, args...)) }
	type change struct {
		typ  zk.EventType
		path string
	}
	var changes []change
	for _, text := range history {
		var zxid, typ, path string
		fmt.Sscan(text, &zxid, &typ, &path)
		for _, known := range []jute.EventType{jute.EventCreated, jute.EventDeleted, jute.EventDataChanged, jute.EventChildrenChanged} {
			if fmt.Sprint(known) == typ {
				changes = append(changes, change{zk.EventType(known), path})
			}
		}
	}
	type watch struct {
		path string
		kind zk.WatchSet
	}
	armed := map[watch]zk.Zxid{}
	first := func(w watch, after zk.Zxid) zk.Zxid { // of the changes that fire it, or 0
		for i, c := range changes {
			if zxids[i] > after && c.path == w.path && w.kind.Fired(jute.EventType(c.typ)) != 0 {
				return zxids[i]
			}
		}
		return 0
	}
	missed := func(upto zk.Zxid) string {
		for w, since := range armed {
			if z := first(w, since); z > 0 && z <= upto {
				return fmt.Sprintf("%v, set at %v, fires at %v", w, since, z)
			}
		}
		return ""
	}
	seen, replies := zk.Zxid(0), 0
	for i, t := range g.told {
		if t.event != nil {
			fired := t.Zxid < 0 // a server that sets watches again tells it for each kind
			for w, since := range armed {
				if w.path == t.event.Path && w.kind.Fired(t.event.Type) != 0 {
					if z := first(w, since); z == 0 || t.Zxid >= 0 && z != t.Zxid {
						fails("%d: %v is told at %v, and the watch of %v fires at %v", i, *t.event, t.Zxid, since, z)
					}
					delete(armed, w)
					fired = true
				}
			}
			if !fired {
				fails("%d: %v is told at %v, and there is no watch", i, *t.event, t.Zxid)
			}
			if m := missed(t.Zxid - 1); m != "" {
				fails("%d: %v is told at %v, before the watch %s", i, *t.event, t.Zxid, m)
			}
			seen = max(seen, t.Zxid)
			continue
		}
		if t.Lost != nil || int(t.Xid) != replies {
			fails("reply %d is to %d: %v", replies, t.Xid, t.Lost)
			return remembered
		}
		replies++
		q := g.asked[t.Xid]
		if m := missed(t.Zxid); m != "" {
			fails("%d: the reply to %v shows %v, before the watch %s", i, q, t.Zxid, m)
		}
		if q.op == jute.OpSetData || q.op == jute.OpSync {
			seen = max(seen, t.Zxid)
			continue
		}
		if t.Zxid < seen {
			fails("%d: the reply to %v shows %v, and the client has seen %v", i, q, t.Zxid, seen)
		}
		seen = max(seen, t.Zxid)
		if t.Remembered {
			remembered++
		}
		version, pzxid := 0, zk.Zxid(0)
		for j, c := range changes {
			if c.path == q.path && zxids[j] <= t.Zxid {
				version, pzxid = version+1, zxids[j]
			}
		}
		d := jute.NewDecoder(t.Body)
		switch q.op {
		case jute.OpGetData:
			d.Buffer()
		case jute.OpGetChildren2:
			d.Strings()
		}
		var s jute.Stat
		if s.Decode(&d); t.Err != 0 || d.Err() != nil {
			fails("%d: the reply to %v: %v, %v", i, q, t.Err, d.Err())
		}
		right := int(s.Version) == version
		if q.op == jute.OpGetChildren2 {
			right = pzxid == 0 || s.Pzxid == pzxid
		}
		if !right {
			fails("%d: the reply to %v (remembered: %v) shows %v, and has %+v: want %d changes, the last one at %v", i, q, t.Remembered, t.Zxid, s, version, pzxid)
		}
		if w := (watch{q.path, zk.WatchesData}); q.watch {
			if q.op == jute.OpGetChildren2 {
				w.kind = zk.WatchesChildren
			}
			if _, ok := armed[w]; !ok {
				armed[w] = t.Zxid
			}
		}
	}
	if m := missed(1 << 62); m != "" {
		fails("not told: the watch %s", m)
	}
	if replies != len(g.asked) {
		fails("%d of %d replies: %s", replies, len(g.asked), strings.Join(history[max(0, len(history)-3):], ", "))
	}
	return remembered
}

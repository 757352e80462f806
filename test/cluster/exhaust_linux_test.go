package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	ours "github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// What each server of TestExhaustion has.
const (
	groupMiB     = 128
	descriptors  = 256
	scarceDisk   = 192 // MiB
	exhaustsFor  = 12 * time.Second
	exactTimeout = 2 * time.Minute
	greedyWindow = 2 << 20 // bytes of requests that one greedy client has under way
)

// group is a control group for the memory of one server.
type group string

// newGroup makes a control group, of version 1 or 2, or returns "" and says that this process may not.
func newGroup(t testing.TB, name string, mib int) group {
	t.Helper()
	root, limit := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(root); err != nil {
		root, limit = "/sys/fs/cgroup", "memory.max"
	}
	g := group(filepath.Join(root, fmt.Sprintf("zkd-%d-%s", os.Getpid(), name)))
	err := os.Mkdir(string(g), 0o755)
	if err == nil {
		t.Cleanup(func() {
			if err := os.Remove(string(g)); err != nil {
				t.Error(err)
			}
		})
		err = os.WriteFile(filepath.Join(string(g), limit), fmt.Append(nil, mib<<20), 0)
	}
	if err != nil {
		t.Logf("NOT TESTED: no control group for a server: %v", err)
		return ""
	}
	return g
}

// wrapper is put before the command of a server in the group.
func (g group) wrapper() []string {
	return []string{"sh", "-c", fmt.Sprintf(`echo $$ >%s/cgroup.procs && ulimit -n %d && exec "$@"`, g, descriptors), "sh"}
}

// TestExhaustion uses up what servers have while clients work with them: each has 128 MiB of memory, 256 descriptors, and a
// disk of 192 MiB with few inodes. No server may end, nothing acknowledged may be lost, no write of an exactly-once session may be
// in doubt or done twice, and all must be well when what was taken is given back.
func TestExhaustion(t *testing.T) {
	if *soakTime == 0 {
		t.Log("-time says how long")
		return
	}
	disks := make(map[int]*disk)
	groups := make(map[int]group)
	for id := 1; id <= 3; id++ {
		disks[id], groups[id] = newDisk(t, scarceDisk), newGroup(t, fmt.Sprint(id), groupMiB)
		if disks[id] == nil || groups[id] == "" {
			return
		}
	}
	c := newCampaign(t, shape{voters: 3, disk: func(id int) string { return disks[id].dir }, only: scarce,
		wrap: func(id int) []string { return groups[id].wrapper() }})
	writers := newExactWriters(t, c.e, exactTimeout)
	list := selected(exhaustions(disks))
	for n, end := 0, time.Now().Add(*soakTime); time.Now().Before(end) && !t.Failed(); n++ {
		f := list[c.rng.IntN(len(list))]
		if n < len(list) {
			f = list[n]
		}
		c.round(fault{f.name, func(c *campaign) {
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for _, w := range writers {
				all.Go(func() { w.keepSetting(ctx) })
			}
			f.run(c)
			stop()
			all.Wait()
		}})
		for _, w := range writers {
			w.check(c)
		}
	}
	c.summary()
}

// scarce are the settings of TestExhaustion.
var scarce = []string{
	fmt.Sprintf("tickTime=%d", tick), "initLimit=100", "syncLimit=20", "minSessionTimeout=400", "maxSessionTimeout=120000",
	"maxClientCnxns=0", "snapCount=5000", "autopurge.snapRetainCount=3", "autopurge.purgeInterval=1", "zkd.walSegmentSizeKb=4096",
}

// exhaustions are the faults of TestExhaustion.
func exhaustions(disks map[int]*disk) []fault {
	greeds := []greed{
		{"small nodes", func(g *greedy) error { return g.create(100, 1) }},
		{"big nodes", func(g *greedy) error { return g.create(100_000, 1) }},
		{"multis", func(g *greedy) error { return g.create(100, 2000) }},
		{"watches", (*greedy).watch},
		{"sessions", (*greedy).begin},
		{"slow readers", (*greedy).neverRead},
		{"unread feeds", (*greedy).follow},
		{"descriptors", (*greedy).connect},
	}
	var list []fault
	for _, g := range greeds {
		list = append(list, fault{g.name, func(c *campaign) { c.exhaust(nil, g) }})
	}
	return append(list,
		fault{"bytes of disks", func(c *campaign) { c.exhaust(c.fillAll(disks, (*disk).fill), greeds[0]) }},
		fault{"inodes of disks", func(c *campaign) { c.exhaust(c.fillAll(disks, (*disk).fillInodes), greeds[0]) }},
		fault{"memory, and one is killed", func(c *campaign) {
			c.exhaust(func() { c.restart(c.pick(c.e.servers)) }, greeds[0], greeds[3])
		}},
		fault{"memory, and one has lost its data", func(c *campaign) {
			c.exhaust(func() { c.wipe(c.pick(c.e.followers())) }, greeds[1], greeds[4])
		}},
		fault{"two at once", func(c *campaign) {
			c.exhaust(nil, greeds[c.rng.IntN(len(greeds))], greeds[c.rng.IntN(len(greeds))])
		}},
		fault{"all at once", func(c *campaign) { c.exhaust(c.fillAll(disks, (*disk).fill), greeds...) }})
}

// fillAll returns a function that fills a disk, or those of all servers, and empties them.
func (c *campaign) fillAll(disks map[int]*disk, fill func(d *disk, leave int64) error) func() {
	return func() {
		list := c.e.servers
		if c.rng.IntN(2) == 0 {
			list = list[:1]
		}
		for _, s := range list {
			c.must(fill(disks[s.id], 0))
		}
		c.wait(exhaustsFor)
		for _, s := range list {
			c.must(disks[s.id].empty())
		}
	}
}

// fillInodes makes files until there can be no more.
func (d *disk) fillInodes(int64) error {
	if err := os.Mkdir(d.inodes(), 0o755); err != nil {
		return err
	}
	for i := 0; ; i++ {
		err := os.WriteFile(filepath.Join(d.inodes(), fmt.Sprint(i)), nil, 0o644)
		if errors.Is(err, syscall.ENOSPC) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (d *disk) inodes() string { return filepath.Join(d.dir, "inodes") }

// greed is a way to use up what servers have.
type greed struct {
	name string
	take func(*greedy) error // once; it is called until it fails or time is over
}

// exhaust lets greedy clients take what they can, beside something else that happens. Then what they made is
// deleted.
func (c *campaign) exhaust(beside func(), greeds ...greed) {
	c.Helper()
	c.shortage.from, c.shortage.quorum = c.now(), true
	pids := make(map[*server]int)
	for _, s := range c.e.servers {
		pids[s] = s.ID()
	}
	under := fmt.Sprintf("/greed%d", c.rounds)
	c.admin(&op{code: jute.OpCreate2, path: under})
	ctx, cancel := context.WithTimeout(context.Background(), exhaustsFor)
	defer cancel()
	var wg sync.WaitGroup
	for i, g := range greeds {
		for j := range 2 {
			at := c.e.servers[(i+j)%len(c.e.servers)]
			k := &greedy{ctx: ctx, addr: at.addr, under: fmt.Sprintf("%s/%d", under, i), from: fmt.Sprintf("127.0.%d.%d", 1+i, 1+j)}
			wg.Go(func() {
				for ctx.Err() == nil {
					if err := g.take(k); err != nil {
						k.failed++
						k.last = err
						k.pause()
					}
				}
				k.end()
				c.Logf("%s at server %d: took %d, %d failures, the last: %v", g.name, at.id, k.took, k.failed, k.last)
			})
		}
	}
	if beside != nil {
		beside()
	}
	wg.Wait()
	c.removeAll(under)
	c.shortage.to = c.now()
	for _, s := range c.e.servers {
		switch {
		case !s.Running():
			c.Errorf("server %d has ended: %s", s.id, lastLine(s.LogNow()))
		case beside == nil && s.ID() != pids[s]:
			c.Errorf("server %d was started again", s.id)
		}
	}
}

// removeAll deletes a node and all below it, and ends when that is done.
func (c *campaign) removeAll(path string) {
	c.Helper()
	began := time.Now()
	var err error
	if !process.Poll(func() bool {
		err = remove(c.pick(c.e.servers).addr, path)
		return err == nil
	}) {
		c.Errorf("%s can't be deleted: %v", path, err)
	}
	c.Logf("%s is deleted after %v", path, time.Since(began).Round(time.Millisecond))
}

func remove(addr, path string) error {
	k, err := process.Dial(addr, jute.ConnectRequest{TimeoutMs: 20_000}, answerTime)
	if err != nil {
		return err
	}
	defer k.Close()
	return removeBelow(k, path)
}

func removeBelow(k *process.Conn, path string) error {
	for {
		k.Put(jute.OpGetChildren2, &jute.PathWatchRequest{Path: path})
		h, body, err := exchange(k)
		if err != nil || h.Err == jute.ErrNoNode {
			return err
		}
		if h.Err != 0 {
			return h.Err
		}
		var list jute.GetChildren2Response
		d := jute.NewDecoder(body)
		list.Decode(&d)
		deep := false
		for len(list.Children) > 0 && !deep {
			n := min(len(list.Children), 500)
			for _, name := range list.Children[:n] {
				k.Put(jute.OpDelete, &jute.DeleteRequest{Path: path + "/" + name, Version: -1})
			}
			if err := k.Flush(); err != nil {
				return err
			}
			for _, name := range list.Children[:n] {
				h, _, err := k.Next()
				switch {
				case err != nil:
					return err
				case h.Err == jute.ErrNotEmpty:
					if err := remove(k.Net.RemoteAddr().String(), path+"/"+name); err != nil {
						return err
					}
					deep = true
				case h.Err != 0 && h.Err != jute.ErrNoNode:
					return h.Err
				}
			}
			list.Children = list.Children[n:]
		}
		k.Put(jute.OpDelete, &jute.DeleteRequest{Path: path, Version: -1})
		if h, _, err = exchange(k); err != nil || h.Err == 0 || h.Err == jute.ErrNoNode {
			return err
		}
		if h.Err != jute.ErrNotEmpty {
			return h.Err
		}
	}
}

func exchange(k *process.Conn) (jute.ReplyHeader, []byte, error) {
	if err := k.Flush(); err != nil {
		return jute.ReplyHeader{}, nil, err
	}
	return k.Next()
}

// greedy is a client that takes what it can get. One goroutine has it.
type greedy struct {
	ctx   context.Context
	addr  string
	under string // its nodes
	from  string // its address

	conn   *process.Conn // of create, watch
	held   []net.Conn
	feeds  []*ours.Client
	paths  int
	took   int
	failed int
	last   error
}

// pause waits after a failure.
func (g *greedy) pause() {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-g.ctx.Done():
	}
}

// end closes what the client holds.
func (g *greedy) end() {
	if g.conn != nil {
		g.conn.Close()
	}
	for _, c := range g.held {
		c.Close()
	}
	for _, f := range g.feeds {
		f.Close(g.ctx)
	}
}

func (g *greedy) session() (*process.Conn, error) {
	nc, err := g.dial()
	if err != nil {
		return nil, err
	}
	return process.Begin(nc, jute.ConnectRequest{TimeoutMs: 4000}, silence)
}

func (g *greedy) dial() (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(g.from)}, Timeout: silence}
	return d.DialContext(g.ctx, "tcp", g.addr)
}

// with uses the client's connection, and gives it up after an error.
func (g *greedy) with(use func(k *process.Conn) error) (err error) {
	if g.conn == nil {
		if g.conn, err = g.session(); err != nil {
			return err
		}
	}
	if err = use(g.conn); err != nil {
		var code jute.Code
		if !errors.As(err, &code) {
			g.conn.Close()
			g.conn = nil
		}
	}
	return err
}

// create makes nodes of that many bytes, each request that many of them.
func (g *greedy) create(size, each int) error {
	return g.with(func(k *process.Conn) error {
		if g.paths == 0 {
			k.Put(jute.OpCreate, &jute.CreateRequest{Path: g.under, ACL: openACL})
			if _, _, err := exchange(k); err != nil {
				return err
			}
		}
		data := bytes.Repeat([]byte("x"), size)
		requests := max(greedyWindow/(each*(size+100)), 1)
		for range requests {
			m := &jute.MultiRequest{Ops: make([]jute.MultiOp, each)}
			for i := range m.Ops {
				g.paths++
				m.Ops[i] = jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprintf("%s/%d", g.under, g.paths), Data: data, ACL: openACL}
			}
			k.Put(jute.OpMulti, m)
		}
		var failed error
		for range requests {
			h, _, err := exchange(k)
			switch {
			case err != nil:
				return err
			case h.Err != 0:
				failed = h.Err
			default:
				g.took += each
			}
		}
		return failed
	})
}

// watch sets watches of nodes that are not there.
func (g *greedy) watch() error {
	return g.with(func(k *process.Conn) error {
		r := &jute.SetWatchesRequest{RelativeZxid: 1 << 60}
		for range 5000 {
			g.paths++
			r.Exist = append(r.Exist, fmt.Sprintf("%s/%d", g.under, g.paths))
		}
		k.PutXid(jute.XidSetWatches, jute.OpSetWatches, r)
		h, _, err := exchange(k)
		if err == nil && h.Err != 0 {
			err = h.Err
		}
		if err == nil {
			g.took += len(r.Exist)
		}
		return err
	})
}

// begin begins sessions, and holds their connections for a while.
func (g *greedy) begin() error {
	k, err := g.session()
	if err != nil {
		return err
	}
	g.took++
	g.hold(k.Net)
	return nil
}

// connect holds connections that say nothing.
func (g *greedy) connect() error {
	nc, err := g.dial()
	if err != nil {
		return err
	}
	g.took++
	g.hold(nc)
	return nil
}

// hold keeps a connection, and closes the oldest of many.
func (g *greedy) hold(nc net.Conn) {
	g.held = append(g.held, nc)
	if len(g.held) > 2*descriptors {
		g.held[0].Close()
		g.held = g.held[1:]
	}
}

// neverRead asks for more than the server can send.
func (g *greedy) neverRead() error {
	k, err := g.session()
	if err != nil {
		return err
	}
	defer g.hold(k.Net)
	data := bytes.Repeat([]byte("x"), 500_000)
	k.Put(jute.OpCreate, &jute.CreateRequest{Path: g.under, Data: data, ACL: openACL})
	for range 2000 {
		k.Put(jute.OpGetData, &jute.PathWatchRequest{Path: g.under, Watch: true})
	}
	g.took++
	return k.Flush()
}

// follow begins feeds of all changes, and takes none of them.
func (g *greedy) follow() error {
	c, err := ours.Connect(g.ctx, g.addr, ours.Options{Timeout: 4 * time.Second, Logger: ours.NoLog})
	if err != nil {
		return err
	}
	g.feeds = append(g.feeds, c)
	for range 20 {
		c.Follow("/", ours.FeedOptions{After: ours.FromNow, Data: true})
	}
	g.took += 20
	if len(g.feeds) > 20 {
		g.feeds[0].Close(g.ctx)
		g.feeds = g.feeds[1:]
	}
	return nil
}

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// TestBadWorlds puts an ensemble among what should not be there. Each time it must
// go on, and its log must say what is wrong.
func TestBadWorlds(t *testing.T) {
	if testing.Short() || apache() {
		t.Log("the messages are zkd's")
		return
	}
	t.Parallel()
	c := newCampaign(t, shape{voters: 3})
	for _, bad := range []struct {
		name string
		run  func(c *campaign)
	}{
		{"garbage at the quorum port", garbage},
		{"server of another ensemble", stranger},
		{"two servers with one id", twin},
		{"server that the file does not have", missing},
		{"no server id", nameless},
		{"names that do not resolve", unresolved},
		{"server without its data", admitted},
	} {
		begun := time.Now()
		bad.run(c)
		if t.Failed() {
			t.Fatalf("%s: the ensemble or its log are not as they should be", bad.name)
		}
		t.Logf("%s: %v", bad.name, time.Since(begun).Round(time.Millisecond))
	}
}

// goesOn checks that the ensemble works.
func (c *campaign) goesOn() {
	c.Helper()
	c.rounds++
	c.awaitWrite()
	c.e.awaitAll()
	c.converge()
}

// says waits until one of the servers has logged something that matches.
func (c *campaign) says(pattern string, servers ...*server) {
	c.Helper()
	want := regexp.MustCompile(pattern)
	if !process.Poll(func() bool {
		return slices.ContainsFunc(servers, func(s *server) bool { return want.MatchString(s.Log()) })
	}) {
		c.Errorf("no server says %q", pattern)
	}
}

// garbage sends what no peer sends to the ports for peers.
func garbage(c *campaign) {
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(c.rng.Uint32())
	}
	var wg sync.WaitGroup
	for _, s := range c.e.servers {
		for _, b := range [][]byte{
			nil, {0}, noise, bytes.Repeat([]byte{0xff}, 5000), make([]byte, 100_000),
			[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), []byte("ruok"), {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03},
			(&jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16)}).Append([]byte{0, 0, 0, 44}),
		} {
			wg.Go(func() {
				if err := swallows(s, b); err != nil {
					c.Errorf("server %d keeps a connection that began with %.20q: %v", s.id, b, err)
				}
			})
		}
	}
	c.goesOn()
	wg.Wait()
	for _, s := range c.e.servers {
		c.says("refused a connection to the quorum port", s)
	}
	c.goesOn()
}

// swallows returns an error if a server keeps a connection that begins with b.
func swallows(s *server, b []byte) error {
	nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.quorum))
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.Write(b) // the server may have closed already
	nc.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

// stranger gives a server the data of another ensemble. It must be let in by
// nobody, and keep its data.
func stranger(c *campaign) {
	other := newEnsemble(c, shape{voters: 3})
	other.start()
	other.awaitAll()
	theirs := &campaign{TB: c.TB, rng: c.rng, e: other, began: c.began, rounds: 1}
	theirs.awaitWrite()
	for _, s := range other.servers {
		s.Kill()
	}
	s := c.e.servers[2]
	s.Kill()
	own := s.Data + ".own"
	c.must(os.Rename(s.Data, own))
	c.must(os.CopyFS(s.Data, os.DirFS(other.servers[2].Data)))
	s.start()
	c.awaitWrite()
	c.says("another ensemble", c.e.servers...)
	c.awaitWrite()
	if got := s.mode(); got == "follower" || got == "leader" {
		c.Errorf("a server with another ensemble's data is %s", got)
	}
	s.Kill()
	c.must(os.RemoveAll(s.Data))
	c.must(os.Rename(own, s.Data))
	s.start()
	c.goesOn()
}

// twin starts a second server with the id of a follower.
func twin(c *campaign) {
	s := c.pick(c.e.followers())
	dir := filepath.Join(c.e.dir, "twin")
	two := newServer(c, s.id, dir, filepath.Join(dir, "data"))
	c.Cleanup(two.Kill)
	lines := c.e.members(s)
	own := fmt.Sprintf("server.%d=", s.id)
	for i, line := range lines {
		if strings.HasPrefix(line, own) {
			lines[i] = fmt.Sprintf("%s127.0.0.1:%d:%d", own, two.quorum, two.election)
		}
	}
	two.configure(append(slices.Clone(c.e.lines), lines...))
	two.start()
	c.says("same (my)?id", append(slices.Clone(c.e.servers), two)...)
	c.awaitWrite()
	two.Kill()
	c.goesOn()
}

// refusal starts a server with a configuration that can't be, and returns what it
// says before it ends.
func (c *campaign) refusal(prepare func(s *server)) string {
	c.Helper()
	dir := c.TempDir()
	s := newServer(c, 9, dir, filepath.Join(dir, "data"))
	prepare(s)
	s.start()
	c.Cleanup(s.Kill)
	if code := s.AwaitExit(); code == 0 {
		c.Errorf("the server ends without an error: %s", s.Log())
	}
	return s.Log()
}

func missing(c *campaign) {
	log := c.refusal(func(s *server) { s.configure(append(slices.Clone(c.e.lines), c.e.members(c.e.servers[0])...)) })
	if !strings.Contains(log, "server.9") {
		c.Errorf("a server that no line is for says %q", log)
	}
}

func nameless(c *campaign) {
	log := c.refusal(func(s *server) {
		s.configure(append(slices.Clone(c.e.lines), c.e.members(c.e.servers[0])...))
		c.must(os.Remove(filepath.Join(s.Data, "myid")))
	})
	if !strings.Contains(log, "myid") {
		c.Errorf("a server without an id says %q", log)
	}
}

// unresolved gives two servers a name of the third that leads nowhere: they work
// without it, and say so. When the name is right, the third is there again.
func unresolved(c *campaign) {
	third := c.e.servers[2]
	for _, s := range c.e.servers {
		s.Kill()
	}
	for _, s := range c.e.servers[:2] {
		lines := c.e.members(s)
		lines[2] = "server.3=third.invalid:2888:3888"
		s.configure(append(slices.Clone(c.e.lines), lines...))
		s.start()
	}
	c.awaitWrite()
	// The larger id dials, so with a third server that starts the name is not needed.
	third.start()
	c.goesOn()
	for _, s := range c.e.servers[:2] {
		s.Kill()
		s.configure(append(slices.Clone(c.e.lines), c.e.members(s)...))
		s.start()
		c.e.awaitAll()
	}
	// Now the third can't reach the others, who can't reach it: it says why.
	third.Kill()
	lines := c.e.members(third)
	lines[0], lines[1] = "server.1=first.invalid:2888:3888", "server.2=second.invalid:2888:3888"
	third.configure(append(slices.Clone(c.e.lines), lines...))
	third.start()
	c.says(`first\.invalid`, third)
	c.awaitWrite()
	third.Kill()
	third.configure(append(slices.Clone(c.e.lines), c.e.members(third)...))
	third.start()
	c.goesOn()
}

func admitted(c *campaign) {
	s := c.pick(c.e.followers())
	c.wipe(s)
	c.says("admitted", c.e.servers...)
	c.goesOn()
}

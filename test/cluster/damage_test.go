package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// wipe takes all data of a server away.
func (c *campaign) wipe(s *server) {
	s.Kill()
	c.must(os.RemoveAll(s.Data))
	c.must(os.MkdirAll(s.Data, 0o755))
	s.identify(s.id)
	c.wait(c.between(0, 300*time.Millisecond))
	s.start()
	c.awaitWrite()
	c.e.awaitAll()
}

// flip changes bits in a file of a server.
func (c *campaign) flip(s *server) {
	s.Kill()
	c.damage(s)
	s.start()
	c.awaitWrite()
	c.e.awaitAll()
}

// damage changes bits in a file of a server that does not run.
func (c *campaign) damage(s *server) {
	files := c.files(s.Data)
	name := files[c.rng.IntN(len(files))]
	b, err := os.ReadFile(name)
	c.must(err)
	used := len(strings.TrimRight(string(b), "\x00"))
	for range 1 + c.rng.IntN(8) {
		if used > 0 {
			at := c.rng.IntN(used)
			b[at] ^= 1 << c.rng.IntN(8)
			c.Logf("server %d: a bit flipped at byte %d of %d (%d in use) of %s", s.id, at, len(b), used, strings.TrimPrefix(name, s.Data))
		}
	}
	c.must(os.WriteFile(name, b, 0o644))
}

// oldCopy puts back a copy of a server's data that is some time old.
func oldCopy(c *campaign) {
	s := c.pick(c.e.voters())
	s.Kill()
	backup := s.Data + ".old"
	c.must(os.RemoveAll(backup))
	c.must(os.CopyFS(backup, os.DirFS(s.Data)))
	s.start()
	c.e.awaitAll()
	if c.rng.IntN(2) == 0 {
		c.restart(c.e.awaitLeader())
		c.e.awaitAll()
	}
	c.wait(c.between(300*time.Millisecond, time.Second))
	s.Kill()
	c.must(os.RemoveAll(s.Data))
	c.must(os.Rename(backup, s.Data))
	s.start()
	c.says("the data of this server is an old copy", s)
	c.awaitWrite()
	c.e.awaitAll()
}

// files returns the files with data of a server.
func (c *campaign) files(dir string) (list []string) {
	c.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "myid" && !strings.HasSuffix(d.Name(), "LOCK") {
			if info, err := d.Info(); err == nil && info.Size() > 0 {
				list = append(list, path)
			}
		}
		return err
	}))
	return list
}

func (c *campaign) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

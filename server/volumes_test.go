package server

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/fastfs"
	"github.com/zkd-project/zkd/server/zab"
)

var (
	everyOrder = flag.Bool("orders", false, "TestVolumes runs all orders, which takes long, and not only some")
	orderSeed  = flag.Uint64("orderseed", 1, "seed by which TestVolumes picks orders")
)

// fastFS waits for no disk: these tests make no power cuts.
type fastFS = fastfs.FS

// The states of a volume at a start.
const (
	present = "present" // as the last start left it
	absent  = "absent"  // no directory
	empty   = "empty"   // an empty directory, such as a mount point without its disk
	others  = "others"  // that of another server
	newer   = "newer"   // it was used by a later version of zkd
	crossed = "crossed" // the other volume of the server; of a single one, without the log
)

var volumeStates = []string{present, absent, empty, others, newer, crossed}

// volumeOrder is three starts of servers, some of whose volumes are in a wrong state.
type volumeOrder struct {
	servers int    // 1 is a single server
	hurt    int    // the number of servers with these states; the others have none
	volumes string // log, data, both: two volumes; one: one for both directories
	states  [3]string
}

func (o volumeOrder) String() string {
	return fmt.Sprintf("%d of %d, %s, %s", o.hurt, o.servers, o.volumes, strings.Join(o.states[:], " "))
}

// refused reports whether a server with these volumes in a state must not start. Without
// any data it is a new server, which may start with db.autocreate=true.
func (o volumeOrder) refused(state string) bool {
	whole := o.volumes == "both" || o.volumes == "one"
	switch state {
	case present:
		return false
	case absent, empty:
		return !whole
	case others: // a single server can't detect that a complete set of data is another server's
		return !whole || o.servers > 1
	}
	return true
}

// volumeOrders returns all orders, or some in which each state occurs for each set of
// servers and volumes. In short runs it occurs for each set of servers with some volumes, and
// for each set of volumes with some servers.
func volumeOrders(all bool, seed uint64) (list []volumeOrder) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, servers := range []int{3, 1} {
		for hurt := 1; hurt <= servers; hurt++ {
			for _, volumes := range []string{"log", "data", "both", "one"} {
				o := volumeOrder{servers: servers, hurt: hurt, volumes: volumes}
				if !all {
					two := o.some(rng)
					if testing.Short() {
						two[0].states = half(rng, len(list)/4+len(list)%4)
						two = two[:1]
					}
					list = append(list, two...)
					continue
				}
				n := len(volumeStates)
				for i := range n * n * n {
					o.states = [3]string{volumeStates[i%n], volumeStates[i/n%n], volumeStates[i/n/n]}
					list = append(list, o)
				}
			}
		}
	}
	return list
}

// some returns two orders with all states in them.
func (o volumeOrder) some(rng *rand.Rand) []volumeOrder {
	p := rng.Perm(len(volumeStates))
	a, b := o, o
	a.states = [3]string{volumeStates[p[0]], volumeStates[p[1]], volumeStates[p[2]]}
	b.states = [3]string{volumeStates[p[3]], volumeStates[p[4]], volumeStates[p[5]]}
	return []volumeOrder{a, b}
}

// half returns the first half of the states for even n, the second for odd n, in some order.
func half(rng *rand.Rand, n int) [3]string {
	states := [3]string(volumeStates[n%2*3:])
	rng.Shuffle(3, func(i, j int) { states[i], states[j] = states[j], states[i] })
	return states
}

// world is the initial data of TestVolumes: servers with snapshots, and logs that do not
// reach back to their beginning.
type world struct {
	dir   string            // has ID/data, and ID/log unless one volume has both
	acked map[string]string // the acknowledged data
}

// TestVolumes starts servers three times, with volumes that are absent, empty, another
// server's, a later version's or exchanged, and then once more with everything put back. All data
// that was ever acknowledged must then be there, and no start may have lost a file: it
// may be moved within its volume, but only the log may replace it.
func TestVolumes(t *testing.T) {
	worlds := make(map[string]*world)
	for _, o := range volumeOrders(*everyOrder, *orderSeed) {
		name := fmt.Sprint(o.servers, o.volumes == "one")
		if worlds[name] == nil {
			worlds[name] = newWorld(t, o.servers, o.volumes == "one")
		}
		t.Run(o.String(), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { o.run(t, worlds[name], dir) })
		})
	}
}

// newWorld makes the data of servers: n of an ensemble, or two single ones.
func newWorld(t *testing.T, n int, oneVolume bool) *world {
	w := &world{dir: t.TempDir(), acked: make(map[string]string)}
	synctest.Test(t, func(t *testing.T) {
		if n > 1 {
			w.fill(t, newVolumeEnsemble(t, w.dir, n, oneVolume), w.acked, "x")
			return
		}
		w.fill(t, newVolumeEnsemble(t, w.dir, 1, oneVolume), w.acked, "x")
		other := t.TempDir()
		w.fill(t, newVolumeEnsemble(t, other, 1, oneVolume), map[string]string{}, "y")
		check(t, os.Rename(filepath.Join(other, "1"), filepath.Join(w.dir, "2")))
	})
	return w
}

// volumeEnsemble is an ensemble, or a single server, on the operating system's files.
type volumeEnsemble struct {
	*testEnsemble
	n         int
	oneVolume bool
}

func newVolumeEnsemble(t *testing.T, dir string, n int, oneVolume bool) *volumeEnsemble {
	e := &volumeEnsemble{newEnsemble(t, n, "autopurge.purgeInterval=1"), n, oneVolume}
	if n == 1 {
		e.size, e.lines = 0, []string{"autopurge.purgeInterval=1"}
	}
	e.dir = dir
	return e
}

func (e *volumeEnsemble) dataDir(id int) string { return filepath.Join(e.dir, fmt.Sprint(id), "data") }

func (e *volumeEnsemble) logDir(id int) string {
	if e.oneVolume {
		return e.dataDir(id)
	}
	return filepath.Join(e.dir, fmt.Sprint(id), "log")
}

// volumes returns the volumes of a server.
func (e *volumeEnsemble) volumes(id int) []string {
	return slices.Compact([]string{e.dataDir(id), e.logDir(id)})
}

// boot starts a server, with a snapshot after each snapCount transactions.
func (e *volumeEnsemble) boot(id, snapCount int) error {
	_, err := e.tryStart(id, func(o *Options) {
		o.FS = fastFS{}
		o.Config.DataDir, o.Config.DataLogDir, o.Config.SnapCount = e.dataDir(id), e.logDir(id), snapCount
	})
	return err
}

// fill lets servers work until their logs are purged, and stops them. Their data consists
// of a letter.
func (w *world) fill(t *testing.T, e *volumeEnsemble, acked map[string]string, letter string) {
	for id := 1; id <= e.n; id++ {
		check(t, e.boot(id, 30))
	}
	s := e.servers[e.leader()]
	time.Sleep(2 * time.Second) // all are admitted
	c := s.connect(t)
	for i := range 10 {
		c.create(fmt.Sprintf("/base%d", i), "")
	}
	for i := 0; !e.purged(); i++ {
		path, value := fmt.Sprintf("/base%d", i%10), fmt.Sprint(i, strings.Repeat(letter, 2000))
		c.set(path, value)
		acked[path] = value
		if i%20 == 0 {
			time.Sleep(time.Second) // snapshots are written meanwhile
			c.ping()
		}
	}
	e.settled()
	e.stopAll()
}

// purged reports whether no log reaches back to its beginning.
func (e *volumeEnsemble) purged() bool {
	for _, s := range e.servers[1:] {
		if r, err := s.logWriter.NewReader(0); err == nil {
			r.Close()
			return false
		}
	}
	return true
}

func (e *volumeEnsemble) stopAll() {
	for id, s := range e.servers {
		if s != nil {
			e.stop(id)
		}
	}
}

// run executes an order.
func (o volumeOrder) run(t *testing.T, w *world, dir string) {
	e := newVolumeEnsemble(t, filepath.Join(dir, "mounted"), o.servers, o.volumes == "one")
	own := filepath.Join(dir, "own") // the volumes that are not mounted
	for id := 1; id <= o.servers; id++ {
		check(t, os.CopyFS(filepath.Join(own, fmt.Sprint(id)), os.DirFS(filepath.Join(w.dir, fmt.Sprint(id)))))
	}
	acked := maps.Clone(w.acked)
	for n, state := range o.states {
		o.startWith(t, e, w, own, state, acked, n)
	}
	o.startWith(t, e, w, own, present, acked, len(o.states))
	if t.Failed() {
		return
	}
	for id := 1; id <= o.servers; id++ {
		o.mountAll(t, e, w, own, id, present)
		check(t, e.boot(id, 1<<30))
	}
	e.settled()
	for id := 1; id <= o.servers; id++ {
		c := e.servers[id].connect(t)
		for path, want := range acked {
			if got, _ := c.get(path); got != want {
				t.Errorf("server %d: %s is %.20q, and %.20q was acknowledged", id, path, got, want)
			}
		}
	}
}

// startWith starts the servers once with volumes in a state, lets them work, stops
// them, and checks that no file is lost.
func (o volumeOrder) startWith(t *testing.T, e *volumeEnsemble, w *world, own, state string, acked map[string]string, n int) {
	before := make([]map[string]string, o.servers+1)
	refused := make([]bool, o.servers+1)
	for id := 1; id <= o.servers; id++ {
		o.mountAll(t, e, w, own, id, state)
		before[id] = inventory(t, e.volumes(id))
		err := e.boot(id, 1<<30)
		refused[id] = err != nil
		if want := id <= o.hurt && o.refused(state); refused[id] != want {
			t.Errorf("start %d (%s) of server %d: %v; want a refusal: %t", n+1, state, id, err, want)
		}
	}
	time.Sleep(15 * time.Second)
	e.write(t, acked, n)
	e.stopAll()
	for id := 1; id <= o.servers; id++ {
		after := inventory(t, e.volumes(id))
		for _, name := range slices.Sorted(maps.Keys(before[id])) {
			if lost(name, before[id], after, refused[id]) {
				t.Errorf("start %d (%s) of server %d lost %s", n+1, state, id, name)
			}
		}
		o.unmountAll(t, e, own, id, state)
	}
}

// mountAll mounts the volumes of a server for a start.
func (o volumeOrder) mountAll(t *testing.T, e *volumeEnsemble, w *world, own string, id int, state string) {
	for _, v := range e.volumes(id) {
		s := state
		if !o.hits(e, id, v) {
			s = present
		}
		e.mountAs(t, w, own, id, v, s)
	}
}

// hits reports whether the states apply to this volume of a server.
func (o volumeOrder) hits(e *volumeEnsemble, id int, volume string) bool {
	is := map[string]bool{"log": volume == e.logDir(id), "data": volume == e.dataDir(id), "both": true, "one": true}
	return id <= o.hurt && is[o.volumes]
}

// unmountAll puts the server's own volumes back, and deletes the others.
func (o volumeOrder) unmountAll(t *testing.T, e *volumeEnsemble, own string, id int, state string) {
	for _, v := range e.volumes(id) {
		if !o.hits(e, id, v) || state == present {
			check(t, os.Rename(v, filepath.Join(own, fmt.Sprint(id), filepath.Base(v))))
		} else {
			check(t, os.RemoveAll(v))
		}
	}
}

// mountAs mounts a volume of a server in a state.
func (e *volumeEnsemble) mountAs(t *testing.T, w *world, own string, id int, volume, state string) {
	check(t, os.MkdirAll(filepath.Dir(volume), 0o700))
	home := filepath.Join(own, fmt.Sprint(id), filepath.Base(volume))
	switch state {
	case present:
		check(t, os.Rename(home, volume))
	case empty:
		check(t, os.Mkdir(volume, 0o700))
	case others:
		other := id%max(e.n, 2) + 1
		check(t, os.CopyFS(volume, os.DirFS(filepath.Join(w.dir, fmt.Sprint(other), filepath.Base(volume)))))
	case newer:
		check(t, os.CopyFS(volume, os.DirFS(home)))
		makeNewer(t, volume)
	case crossed:
		other := "data"
		if volume == e.dataDir(id) && !e.oneVolume {
			other = "log"
		}
		check(t, os.CopyFS(volume, os.DirFS(filepath.Join(w.dir, fmt.Sprint(id), other))))
		if e.oneVolume {
			check(t, os.RemoveAll(filepath.Join(volume, "journal")))
		}
	}
}

// write makes the servers acknowledge more data if they serve the original data: data
// that an empty ensemble acknowledges belongs to another ensemble.
func (e *volumeEnsemble) write(t *testing.T, acked map[string]string, n int) {
	for id, s := range e.servers {
		if s == nil || !s.standing.leads() || !e.followed(id) {
			continue
		}
		c := s.connect(t)
		if got, _ := c.get("/base0"); got == acked["/base0"] {
			path := fmt.Sprintf("/start%d", n+1)
			c.create(path, "done")
			acked[path] = "done"
			e.settled()
		}
		return
	}
}

// followed reports whether a majority follows a leader.
func (e *volumeEnsemble) followed(leader int) bool {
	following := 1
	for id, s := range e.servers {
		if s != nil && id != leader {
			if st := s.standing.role.Load(); st.Role == zab.Following && int(st.Leader) == leader {
				following++
			}
		}
	}
	return following > e.n/2
}

// inventory returns the hashes of the files with data in volumes, by their names.
func inventory(t *testing.T, volumes []string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, v := range volumes {
		err := filepath.WalkDir(v, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, "LOCK") || strings.HasSuffix(path, ".tmp") {
				return err
			}
			b, err := os.ReadFile(path)
			files[path] = fmt.Sprintf("%x", sha256.Sum256(b))
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return files
}

// lost reports whether a file is gone. A refused start changes nothing. Another one may
// move files, and the log may have replaced its last segment if nothing in it was proven
// to be durable.
func lost(name string, before, after map[string]string, refused bool) bool {
	if refused {
		return after[name] != before[name]
	}
	for path, hash := range after {
		if hash == before[name] && volumeOf(path) == volumeOf(name) {
			return false
		}
	}
	if filepath.Ext(name) != ".wal" || after[name] == "" {
		return true
	}
	for other := range before {
		if filepath.Ext(other) == ".wal" && filepath.Base(other) > filepath.Base(name) {
			return true
		}
	}
	return false
}

// volumeOf returns the directory of a server's volume that contains a file.
func volumeOf(path string) string {
	for _, dir := range []string{"/data/", "/log/"} {
		if at := strings.Index(path, dir); at >= 0 {
			return path[:at+len(dir)]
		}
	}
	return path
}

// makeNewer makes the files of a volume look as if a later version had written the newest
// ones, with its numbers and correct checksums.
func makeNewer(t *testing.T, volume string) {
	t.Helper()
	table := crc32.MakeTable(crc32.Castagnoli)
	edit := func(pattern string, change func(b []byte)) {
		names, err := filepath.Glob(filepath.Join(volume, pattern))
		check(t, err)
		if len(names) == 0 {
			return
		}
		b, err := os.ReadFile(names[len(names)-1])
		check(t, err)
		change(b)
		check(t, os.WriteFile(names[len(names)-1], b, 0o600))
	}
	edit("journal/*.wal", func(b []byte) {
		b[8] = 99
		binary.LittleEndian.PutUint32(b[4092:], crc32.Checksum(b[:4092], table))
	})
	sealed := func(version byte) string {
		b := []byte{version}
		return string(binary.LittleEndian.AppendUint32(b, crc32.Checksum(append([]byte("zkd snapshot"), b...), table)))
	}
	edit("snap/*.db", func(b []byte) {
		changed := strings.ReplaceAll(string(b), sealed(2), sealed(99))
		if changed == string(b) {
			t.Error("the snapshot does not state its format")
		}
		copy(b, changed)
	})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

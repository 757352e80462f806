package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// content is the content of a snapshot: by section, by key.
type content map[string]map[string]string

func open(t testing.TB, opts Options) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sections returns c in the order of names, the keys in ascending order.
func (c content) sections() (list []Section) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		list = append(list, Section{Name: name, Items: items(c[name], slices.Sorted(maps.Keys(c[name])))})
	}
	return list
}

// items yields m in the order of keys. Like a caller may, it reuses its buffers.
func items(m map[string]string, keys []string) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		var k, v []byte
		for _, key := range keys {
			k, v = append(k[:0], key...), append(v[:0], m[key]...)
			if !yield(k, v) {
				return
			}
		}
	}
}

func load(t testing.TB, s *Store, ref Ref) (content, Meta) {
	t.Helper()
	into := func(c content) Visitor {
		last := ""
		return func(section string, k, v []byte) error {
			if c[section] == nil {
				c[section] = make(map[string]string)
				last = ""
			}
			if string(k) <= last {
				t.Errorf("section %s: key %.50q comes after %.50q", section, k, last)
			}
			last = string(k)
			c[section][last] = string(v)
			return nil
		}
	}
	c, same := make(content), make(content)
	meta, err := s.Load(t.Context(), ref, into(c))
	if err != nil {
		t.Fatal(err)
	}
	found, sameMeta, err := s.LoadFile(t.Context(), ref.Name, into(same))
	if err != nil || !found.Equal(&ref) || !equal(same, c) || fmt.Sprint(sameMeta) != fmt.Sprint(meta) {
		t.Errorf("LoadFile returned %+v, %+v, %v and perhaps other content; Load of %+v returned %+v", found, sameMeta, err, ref, meta)
	}
	return c, meta
}

// bboltContent reads a snapshot with bbolt's cursor: the dumb twin of Load.
func bboltContent(t *testing.T, path string) content {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c := make(content)
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			if string(name) == metaName {
				return nil
			}
			m := make(map[string]string)
			c[string(name)] = m
			return b.ForEach(func(k, v []byte) error {
				key, value, err := lengthen(k, v)
				m[string(key)] = string(value)
				if found := b.Get(k); !bytes.Equal(found, v) {
					err = fmt.Errorf("Get returned another value for %.50q", k)
				}
				return err
			})
		})
	})
	if err == nil {
		err = db.View(func(tx *bbolt.Tx) (err error) {
			for e := range tx.Check() {
				err = errors.Join(err, e)
			}
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheckFindsKeysOutOfOrder(t *testing.T) {
	s := open(t, Options{})
	const name = "0000000000000001-1.db"
	f, err := s.opts.FS.OpenFile(s.Path(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := builder{out: &output{ctx: t.Context(), file: f, wrote: func(int) error { return nil }, next: firstPage}, roots: make(map[string]uint64)}
	wrong := tree{out: b.out}
	for _, key := range []string{"b", "a"} {
		wrong.last = nil // add has nothing to compare with
		if err := wrong.add([]byte(key), nil); err != nil {
			t.Fatal(err)
		}
	}
	if b.roots["n"], err = wrong.finish(); err != nil {
		t.Fatal(err)
	}
	root, err := b.rootBucket()
	if err == nil {
		err = b.out.finish(root)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(name); err == nil {
		t.Error("bbolt finds nothing wrong")
	}
}

func equal(a, b content) bool {
	return maps.EqualFunc(a, b, func(x, y map[string]string) bool { return maps.Equal(x, y) })
}

// dropEmpty removes empty sections, for which Load makes no calls.
func (c content) dropEmpty() content {
	c = maps.Clone(c)
	maps.DeleteFunc(c, func(_ string, m map[string]string) bool { return len(m) == 0 })
	return c
}

func randomContent(r *rand.Rand) content {
	sizes := []int{0, 1, 3, 40, 3000}
	c := make(content)
	for _, name := range []string{"acls", "nodes", "sessions"}[:1+r.IntN(3)] {
		m := make(map[string]string)
		for range sizes[r.IntN(len(sizes))] {
			key, value := 1+r.IntN(60), r.IntN(400)
			switch r.IntN(200) {
			case 0:
				key = plainKeyMax - 2 + r.IntN(5)
			case 1:
				value = r.IntN(30000) // several pages
			}
			m[randomString(r, key)] = randomString(r, value)
		}
		c[name] = m
	}
	return c
}

func randomString(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "\x00\x01ab\xff"[r.IntN(5)]
	}
	return string(b)
}

// TestLoadReturnsWhatWasWritten writes random snapshots, and compares the results of Load and
// of bbolt with the written items.
func TestLoadReturnsWhatWasWritten(t *testing.T) {
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := open(t, Options{SyncStep: 1 + r.IntN(1<<20)})
		want := randomContent(r)
		list := want.sections()
		meta := Meta{Zxid: jute.Zxid(r.Uint64()), Epoch: r.Uint32(), Time: 5, Digest: []byte{1, 2},
			Extra: map[string][]byte{"cluster": []byte("c"), "config": {}}}
		ref, err := s.Write(t.Context(), meta, list...)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, gotMeta := load(t, s, ref)
		if !equal(got, want.dropEmpty()) {
			t.Fatalf("seed %d: Load returned other content", seed)
		}
		if !equal(bboltContent(t, s.Path(ref.Name)), want) {
			t.Fatalf("seed %d: bbolt returned other content", seed)
		}
		if err := s.Check(ref.Name); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if fmt.Sprint(gotMeta) != fmt.Sprint(meta) || ref.Zxid != meta.Zxid || !bytes.Equal(ref.Digest, meta.Digest) {
			t.Fatalf("seed %d: meta %+v, want %+v", seed, gotMeta, meta)
		}
	}
}

// TestManyPages writes more than is buffered, with several levels of branch pages.
func TestManyPages(t *testing.T) {
	const n = 100_000 // 20 MB
	s := open(t, Options{})
	ref, err := s.Write(t.Context(), Meta{Zxid: 1}, Section{Name: "sessions", Items: nodes(10)}, Section{Name: "nodes", Items: nodes(n)})
	if err != nil {
		t.Fatal(err)
	}
	want, stop := iter.Pull2(nodes(n))
	defer stop()
	count := make(map[string]int)
	if _, err := s.Load(t.Context(), ref, func(section string, k, v []byte) error {
		count[section]++
		if section == "sessions" {
			return nil
		}
		if wk, wv, _ := want(); !bytes.Equal(k, wk) || !bytes.Equal(v, wv) {
			return fmt.Errorf("got %q, want %q", k, wk)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if count["nodes"] != n || count["sessions"] != 10 {
		t.Error(count)
	}
	// The pages are full: 16 bytes for each key, and some branch pages.
	if limit := int64(n) * (200 + 16) * 102 / 100; ref.Size > limit {
		t.Errorf("the file has %d bytes, want at most %d", ref.Size, limit)
	}
}

// TestLongKeys checks keys that bbolt would refuse: they are returned complete and in
// order, among the others.
func TestLongKeys(t *testing.T) {
	base := strings.Repeat("x", plainKeyMax-1)
	keys := []string{base, base + "a", base + "a\x00", base + "ab", base + "ab" + strings.Repeat("y", 1<<20), base + "b", base + "bz", base + "c", "y"}
	m := make(map[string]string)
	for i, k := range keys {
		m[k] = fmt.Sprint("value ", i)
	}
	s := open(t, Options{})
	ref, err := s.Write(t.Context(), Meta{}, Section{Name: "nodes", Items: items(m, keys)})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := load(t, s, ref); !equal(got, content{"nodes": m}) {
		t.Error("other content")
	}
}

// TestEarly checks that an early section is loaded before one that was written
// before it.
func TestEarly(t *testing.T) {
	one := func(key string) iter.Seq2[[]byte, []byte] { return items(nil, []string{key}) }
	s := open(t, Options{})
	ref, err := s.Write(t.Context(), Meta{}, Section{Name: "a", Items: one("1")}, Section{Name: "b", Items: one("2"), Early: true},
		Section{Name: "c", Items: one("3")}, Section{Name: "d", Items: one("4"), Early: true})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if _, err := s.Load(t.Context(), ref, func(section string, k, _ []byte) error {
		got += section + string(k)
		return nil
	}); err != nil || got != "b2d4a1c3" {
		t.Errorf("loaded %s, %v", got, err)
	}
}

func TestBadSections(t *testing.T) {
	one := map[string]string{"a": "1", "b": "2"}
	for _, test := range []struct {
		name     string
		sections []Section
	}{
		{"a key twice in a row", []Section{{Name: "n", Items: items(one, []string{"a", "a"})}}},
		{"keys out of order", []Section{{Name: "n", Items: items(one, []string{"b", "a"})}}},
		{"an empty key", []Section{{Name: "n", Items: items(one, []string{""})}}},
		{"a section twice", []Section{{Name: "n", Items: items(one, nil)}, {Name: "n", Items: items(one, nil)}}},
		{"a section called meta", []Section{{Name: metaName, Items: items(one, nil)}}},
		{"a section without name", []Section{{Name: "", Items: items(one, nil)}}},
	} {
		s := open(t, Options{})
		if ref, err := s.Write(t.Context(), Meta{}, test.sections...); err == nil {
			t.Errorf("%s: got %v", test.name, ref)
		}
		checkEmpty(t, s)
	}
}

// checkEmpty checks that there is neither a snapshot nor an unfinished file.
func checkEmpty(t *testing.T, s *Store) {
	t.Helper()
	for _, dir := range []string{s.snap, s.tmp} {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 0 {
			t.Errorf("%s has %v (%v)", dir, entries, err)
		}
	}
}

// TestCancel ends the context during a Write and during a Load.
func TestCancel(t *testing.T) {
	why := errors.New("shutting down")
	s := open(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancelAt := func(n int) iter.Seq2[[]byte, []byte] {
		return func(yield func(k, v []byte) bool) {
			i := 0
			for k, v := range nodes(60_000) {
				if i++; i == n {
					cancel(why)
				}
				if !yield(k, v) {
					return
				}
			}
		}
	}
	if _, err := s.Write(ctx, Meta{}, Section{Name: "nodes", Items: cancelAt(10_000)}); !errors.Is(err, why) {
		t.Errorf("Write returned %v", err)
	}
	checkEmpty(t, s)

	ref := mustWrite(t, s, 1, 1000)
	ctx, cancel = context.WithCancelCause(t.Context())
	n := 0
	_, err := s.Load(ctx, ref, func(string, []byte, []byte) error {
		if n++; n == 100 {
			cancel(why)
		}
		return nil
	})
	if !errors.Is(err, why) || fault.KindOf(err) != 0 || n == 1000 {
		t.Errorf("Load returned %v after %d items", err, n)
	}
	if _, _, err := s.LoadFile(ctx, ref.Name, func(string, []byte, []byte) error { return errors.New("an item") }); !errors.Is(err, why) {
		t.Errorf("LoadFile returned %v", err)
	}
}

// written returns the bytes of a snapshot of n nodes.
func written(t testing.TB, meta Meta, n int) []byte {
	t.Helper()
	s := open(t, Options{})
	ref, err := s.Write(t.Context(), meta, Section{Name: "nodes", Items: nodes(n)})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(s.Path(ref.Name))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func mustWrite(t testing.TB, s *Store, zxid jute.Zxid, n int) Ref {
	t.Helper()
	ref, err := s.Write(t.Context(), Meta{Zxid: zxid, Epoch: 1}, Section{Name: "nodes", Items: nodes(n)})
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestNoSpace checks the ways in which the disk may be full.
func TestNoSpace(t *testing.T) {
	s := open(t, Options{SyncStep: 1, Reserve: 1 << 62})
	if _, err := s.Write(t.Context(), Meta{}, Section{Name: "nodes", Items: nodes(100)}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("beyond the reserve: %v", err)
	}
	checkEmpty(t, s)
	s.opts.Reserve, s.opts.FS = 0, fullFS{vfs.OS{}}
	if _, err := s.Write(t.Context(), Meta{}, Section{Name: "nodes", Items: nodes(60_000)}); !errors.Is(err, errFull) {
		t.Errorf("on a full disk: %v", err)
	}
	checkEmpty(t, s)
	s.opts.FS = vfs.OS{}
	mustWrite(t, s, 1, 100)
}

// fullFS has 4 MiB of room for each file.
type fullFS struct{ vfs.FS }

type fullFile struct{ vfs.File }

var errFull = errors.New("no space left on device")

func (f fullFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	return fullFile{file}, err
}

func (f fullFile) WriteAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) > 4<<20 {
		return 0, errFull
	}
	return f.File.WriteAt(b, off)
}

// TestRests checks that a snapshot leaves half of the disk's time to others.
func TestRests(t *testing.T) {
	s := open(t, Options{FS: slowFS{vfs.OS{}}})
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		mustWrite(t, s, 1, 50_000)
		const steps = 50_000 * 200 / defaultSyncStep // at least so many
		if d := time.Since(begin); d < (2*steps-1)*slowSync {
			t.Errorf("took %v, want %d times %v and as long without the disk", d, steps, slowSync)
		}
		ctx, cancel := context.WithTimeout(t.Context(), slowSync*3/2)
		defer cancel()
		if _, err := s.Write(ctx, Meta{Zxid: 2}, Section{Name: "nodes", Items: nodes(50_000)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("canceled while it rests: %v", err)
		}
	})
}

const slowSync = time.Second

// slowFS has files that take slowSync to become durable.
type slowFS struct{ vfs.FS }

type slowFile struct{ vfs.File }

func (f slowFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	return slowFile{file}, err
}

func (f slowFile) SyncData() error {
	time.Sleep(slowSync)
	return nil
}

// TestInvalid damages files, and the references to them.
func TestInvalid(t *testing.T) {
	s := open(t, Options{})
	ref := mustWrite(t, s, 0x100000002, 1000)
	if ref.Name != "0000000100000002-1.db" {
		t.Errorf("the file is called %s", ref.Name)
	}
	good, err := os.ReadFile(s.Path(ref.Name))
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	another := written(t, Meta{Zxid: 7, Epoch: 1, Server: 3, Incarnation: []byte{10, 11, 12, 13, 14}}, 900)
	anotherBad := bytes.Replace(another, []byte("node-00007"), []byte("node-0000x"), 1)
	later := bytes.ReplaceAll(good, encodeFormat(2), encodeFormat(3))
	laterRef := ref
	laterRef.CRC = crcOf(later)
	other := ref
	other.Zxid++
	digest := ref
	digest.Digest = []byte("x")
	for _, test := range []struct {
		name string
		file []byte
		ref  Ref
		kind fault.Kind
		want string
	}{
		{"a bit in the first page", flip(20), ref, fault.Damaged, "CRC32C"},
		{"a bit in the middle", flip(len(good) / 2), ref, fault.Damaged, "CRC32C"},
		{"the last bit", flip(len(good) - 1), ref, fault.Damaged, "CRC32C"},
		{"cut", good[:len(good)-4096], ref, fault.Damaged, "bytes, not"},
		{"longer", append(bytes.Clone(good), 0), ref, fault.Damaged, "bytes, not"},
		{"empty", nil, ref, fault.Damaged, "0 bytes"},
		{"another snapshot", another, ref, fault.Foreign, "the snapshot of zxid 0x7 by server 3 (incarnation 0a0b0c0d)"},
		{"another snapshot, damaged", anotherBad, ref, fault.Damaged, "bytes, not"},
		{"of a later format", later, laterRef, fault.Newer, "snapshot format 3 was written by a later version of zkd; this version reads 1 to 2"},
		{"another one of a later format", later, ref, fault.Newer, "snapshot format 3"},
		{"of another zxid", good, other, fault.Inconsistent, "zxid 0x100000002"},
		{"of another digest", good, digest, fault.Inconsistent, "digest"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile(s.Path(ref.Name), test.file, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := s.Verify(t.Context(), test.ref)
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.File != s.Path(ref.Name) || f.Kind != test.kind || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q and %v", err, test.want, test.kind)
			}
			found, _, err := s.LoadFile(t.Context(), ref.Name, func(string, []byte, []byte) error { return nil })
			if err == nil && found.Equal(&test.ref) {
				t.Errorf("LoadFile returned %+v", found)
			}
		})
	}
	if err := os.WriteFile(s.Path(ref.Name), good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Verify(t.Context(), ref); err != nil {
		t.Error(err)
	}
	why := errors.New("bad node")
	_, err = s.Load(t.Context(), ref, func(string, []byte, []byte) error { return why })
	if fault.KindOf(err) != fault.Inconsistent || !errors.Is(err, why) {
		t.Errorf("an error of the visitor: %v", err)
	}
	if err := s.Remove(ref.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Verify(t.Context(), ref); fault.KindOf(err) != fault.Missing || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.Mkdir(s.Path(ref.Name), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Verify(t.Context(), ref); fault.KindOf(err) != fault.Unreadable {
		t.Errorf("a directory in its place: %v", err)
	}
}

// TestUnfinished opens a file without the last transaction of Write.
func TestUnfinished(t *testing.T) {
	s := open(t, Options{})
	ref := mustWrite(t, s, 1, 10)
	db, err := bbolt.Open(s.Path(ref.Name), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(metaName)).Delete([]byte("complete")) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(s.Path(ref.Name))
	if err != nil {
		t.Fatal(err)
	}
	ref.Size, ref.CRC = int64(len(file)), crc32.Checksum(file, castagnoli)
	if _, err := s.Verify(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "never finished") {
		t.Errorf("got %v", err)
	}
}

// TestListAndRemove checks which files count as snapshots, and that one can be removed by
// name.
func TestListAndRemove(t *testing.T) {
	s := open(t, Options{})
	for _, name := range []string{"stranger.db", "00-1.db", "0000000000000001-01.db"} {
		if err := os.WriteFile(s.Path(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var refs []Ref
	for _, zxid := range []jute.Zxid{3, 1, 0x100000000, 5, 4} {
		refs = append(refs, mustWrite(t, s, zxid, 1))
	}
	zxids := func() (list []jute.Zxid) {
		infos, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			list = append(list, info.Zxid)
		}
		return list
	}
	if got := zxids(); !slices.Equal(got, []jute.Zxid{0x100000000, 5, 4, 3, 1}) {
		t.Errorf("List: %v", got)
	}
	if err := errors.Join(s.Remove(refs[1].Name), s.Remove(refs[4].Name)); err != nil {
		t.Error(err)
	}
	if got := zxids(); !slices.Equal(got, []jute.Zxid{0x100000000, 5, 3}) {
		t.Errorf("after two were removed: %v", got)
	}
	if _, err := s.Write(t.Context(), Meta{Zxid: 0x100000000, Epoch: 1}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the same snapshot again: %v", err)
	}
	if ref, err := s.WriteAnother(t.Context(), Meta{Zxid: 0x100000000, Epoch: 1}); err != nil || ref.Name != receivedName(0x100000000, 1, ref.CRC) {
		t.Errorf("another one at the same zxid: %v, %v", ref.Name, err)
	}
	if err := errors.Join(s.Remove(refs[2].Name), s.Remove(refs[2].Name)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Path("stranger.db")); err != nil {
		t.Errorf("a file of someone else: %v", err)
	}
}

// TestOpenCleansUp checks that Open removes the files that a killed Write left, and nothing
// else.
func TestOpenCleansUp(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ref := mustWrite(t, s, 1, 1)
	for _, name := range []string{"/tmp/snapshot-0000000000000002-1.db", "/tmp/00000000000000000001.wal"} {
		if err := os.WriteFile(dir+name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(s.tmp)
	if err != nil || len(entries) != 1 || entries[0].Name() != "00000000000000000001.wal" {
		t.Errorf("tmp has %v (%v)", entries, err)
	}
	if _, err := s.Verify(t.Context(), ref); err != nil {
		t.Error(err)
	}
}

// faultyFS records the operations that change something, and fails operation number failAt.
type faultyFS struct {
	vfs.FS
	ops    []string
	failAt int
}

var errFault = errors.New("input/output error")

func (f *faultyFS) op(name string) error {
	f.ops = append(f.ops, name)
	if len(f.ops) == f.failAt {
		return errFault
	}
	return nil
}

func (f *faultyFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if err := f.op("open"); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenFile(name, flag, perm)
	return &faultyFile{file, f}, err
}

func (f *faultyFS) Rename(from, to string) error {
	if err := f.op("rename"); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *faultyFS) SyncDir(name string) error {
	if err := f.op("syncdir"); err != nil {
		return err
	}
	return f.FS.SyncDir(name)
}

type faultyFile struct {
	vfs.File
	fs *faultyFS
}

func (f *faultyFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.fs.op("write"); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, off)
}

func (f *faultyFile) SyncData() error {
	if err := f.fs.op("syncdata"); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *faultyFile) Sync() error {
	if err := f.fs.op("sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Close() error {
	return errors.Join(f.fs.op("close"), f.File.Close())
}

// TestFaults fails each operation in turn: Write returns the error, leaves no file, and
// works again afterwards. The order of the operations makes a file durable before it has
// its name, and its name durable before there is a reference.
func TestFaults(t *testing.T) {
	const order = "open write syncdata write syncdata write sync close rename syncdir"
	for failAt := 0; ; failAt++ {
		s := open(t, Options{SyncStep: 1})
		f := &faultyFS{FS: s.opts.FS, failAt: failAt}
		s.opts.FS = f
		_, err := s.Write(t.Context(), Meta{Zxid: 1}, Section{Name: "nodes", Items: nodes(1500)})
		if failAt == 0 || failAt > len(f.ops) {
			if got := strings.Join(f.ops, " "); err != nil || got != order {
				t.Errorf("Write did %q (%v), want %q", got, err, order)
			}
			if failAt > 0 {
				break
			}
			continue
		}
		if !errors.Is(err, errFault) {
			t.Errorf("%s failed, but Write returned %v", f.ops[failAt-1], err)
		}
		checkEmpty(t, s)
		ref := mustWrite(t, s, 1, 100)
		if _, err := s.Verify(t.Context(), ref); err != nil {
			t.Error(err)
		}
	}
}

// TestReadFaults fails each read of a Load in turn.
func TestReadFaults(t *testing.T) {
	s := open(t, Options{})
	ref := mustWrite(t, s, 1, 3000)
	f := &readFaults{FS: s.opts.FS}
	s.opts.FS = f
	for f.failAt = 1; ; f.failAt++ {
		f.n = 0
		_, err := s.Verify(t.Context(), ref)
		if f.n < f.failAt {
			if err != nil {
				t.Error(err)
			}
			return
		}
		if fault.KindOf(err) != fault.Unreadable || !errors.Is(err, errFault) {
			t.Errorf("read %d failed, but Load returned %v", f.failAt, err)
		}
		f.n = 0
		if _, _, err := s.LoadFile(t.Context(), ref.Name, func(string, []byte, []byte) error { return nil }); !errors.Is(err, errFault) {
			t.Errorf("read %d failed, but LoadFile returned %v", f.failAt, err)
		}
	}
}

type readFaults struct {
	vfs.FS
	n, failAt int
}

func (f *readFaults) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	return &readFaultsFile{file, f}, err
}

type readFaultsFile struct {
	vfs.File
	fs *readFaults
}

func (f *readFaultsFile) ReadAt(b []byte, off int64) (int, error) {
	if f.fs.n++; f.fs.n == f.fs.failAt {
		return 0, errFault
	}
	return f.File.ReadAt(b, off)
}

// TestLoadAllocations checks that allocations do not depend on the number of items.
func TestLoadAllocations(t *testing.T) {
	s := open(t, Options{})
	ref := mustWrite(t, s, 1, 20_000)
	visit := func(string, []byte, []byte) error { return nil }
	n := testing.AllocsPerRun(3, func() {
		if _, err := s.Load(t.Context(), ref, visit); err != nil {
			t.Fatal(err)
		}
	})
	if n > 500 {
		t.Errorf("%v allocations for 20000 items", n)
	}
}

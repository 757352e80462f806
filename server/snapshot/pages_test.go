package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// small returns sections with every kind of page: branches, leaves and overflow pages.
func small() []Section {
	big := map[string]string{"a": string(make([]byte, 10_000)), "b": "1", "c": "2", "d": string(make([]byte, 5000))}
	return []Section{
		{Name: "acls", Items: items(big, []string{"b", "c"})},
		{Name: "big", Items: items(big, []string{"a", "b", "c", "d"})},
		{Name: "nodes", Items: nodes(150)},
	}
}

// smallFile returns a snapshot of small.
func smallFile(t testing.TB) []byte {
	t.Helper()
	s := open(t, Options{})
	ref, err := s.Write(t.Context(), Meta{Zxid: 1, Extra: map[string][]byte{"x": {1}}}, small()...)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(s.Path(ref.Name))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// earlierFile returns the same snapshot as earlier versions of zkd wrote it: by bbolt, which
// stores small buckets inside the root bucket, and leaves pages free.
func earlierFile(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "earlier.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: pageSize})
	if err != nil {
		t.Fatal(err)
	}
	var done complete
	add := func(sec Section) {
		count := SectionCount{Name: sec.Name}
		err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket([]byte(sec.Name))
			for k, v := range sec.Items {
				count.Count++
				count.Sum += itemSum(k, v)
				err = errors.Join(err, b.Put(bytes.Clone(k), bytes.Clone(v)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		done.Sections = append(done.Sections, count)
	}
	for _, sec := range small() {
		add(sec)
	}
	entries, err := metaItems(Meta{Zxid: 1}, &done)
	if err != nil {
		t.Fatal(err)
	}
	add(Section{Name: metaName, Items: entries})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// readBytes reads a file as Load does after the checks of size and CRC. It counts the
// items.
func readBytes(file []byte) (n int, err error) {
	_, err = read(context.Background(), bytes.NewReader(file), int64(len(file)), func(_ string, k, v []byte) error {
		n++
		if len(k) == 0 {
			return fmt.Errorf("empty key")
		}
		return nil
	})
	return n, err
}

const smallItems = 2 + 4 + 150

// TestStructure damages the structures that Load relies on, with a matching CRC: as if the
// file had been written that way.
func TestStructure(t *testing.T) {
	good := smallFile(t)
	if n, err := readBytes(good); err != nil || n != smallItems {
		t.Fatalf("%d items, %v", n, err)
	}
	branch, leaf := 0, 0
	for id := 2; id < len(good)/pageSize; id++ {
		page := good[id*pageSize:][:pageSize]
		if native.Uint64(page) != uint64(id) {
			continue // part of an overflow page
		}
		switch native.Uint16(page[8:]) {
		case flagBranch:
			branch = id * pageSize
		case flagLeaf:
			if native.Uint16(page[10:]) > 10 { // of nodes
				leaf = id * pageSize
			}
		}
	}
	if branch == 0 || leaf == 0 {
		t.Fatal("the file has no branch or no leaf")
	}
	for _, test := range []struct {
		name   string
		damage func(b []byte)
	}{
		{"a page is its own child", func(b []byte) { native.PutUint64(b[branch+24:], uint64(branch/pageSize)) }},
		{"a child comes twice", func(b []byte) { copy(b[branch+24:branch+32], b[branch+40:]) }},
		{"a child beyond the file", func(b []byte) { native.PutUint64(b[branch+24:], 1<<40) }},
		{"a meta page as a child", func(b []byte) { native.PutUint64(b[branch+24:], 0) }},
		{"a branch without children", func(b []byte) { native.PutUint16(b[branch+10:], 0) }},
		{"too many children", func(b []byte) { native.PutUint16(b[branch+10:], 60000) }},
		{"a page with another id", func(b []byte) { b[leaf]++ }},
		{"a page of another type", func(b []byte) { b[leaf+8] = 0x10 }},
		{"overflow beyond the file", func(b []byte) { native.PutUint32(b[leaf+12:], 1<<31) }},
		{"too many items", func(b []byte) { native.PutUint16(b[leaf+10:], 60000) }},
		{"fewer items", func(b []byte) { native.PutUint16(b[leaf+10:], native.Uint16(b[leaf+10:])-1) }},
		{"an item beyond its page", func(b []byte) { native.PutUint32(b[leaf+20:], 1<<31) }},
		{"a key of 4 GiB", func(b []byte) { native.PutUint32(b[leaf+24:], 1<<32-1) }},
		{"an empty key", func(b []byte) { native.PutUint32(b[leaf+24:], 0) }},
		{"a value of 4 GiB", func(b []byte) { native.PutUint32(b[leaf+28:], 1<<32-1) }},
		{"an item that is a bucket", func(b []byte) { b[leaf+16] = flagBucket }},
		{"no meta page", func(b []byte) { b[20], b[pageSize+20] = b[20]^1, b[pageSize+20]^1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := bytes.Clone(good)
			test.damage(file)
			if n, err := readBytes(file); err == nil {
				t.Errorf("%d items and no error", n)
			} else {
				t.Log(err)
			}
		})
	}
	// One bad meta page is harmless if the other is the newer one; if the other is the older one,
	// it describes a file that was not complete.
	for _, at := range []int{20, pageSize + 20} {
		file := bytes.Clone(good)
		file[at] ^= 1
		if n, err := readBytes(file); err == nil && n != smallItems {
			t.Errorf("%d items without the meta page at %d", n, at)
		}
	}
}

// TestMutations changes random bytes of files of this and of earlier versions, and skips the CRC check: Load returns an
// error or as many items as before, and does not crash.
func TestMutations(t *testing.T) {
	files := [][]byte{smallFile(t), earlierFile(t)}
	for _, good := range files {
		if n, err := readBytes(good); err != nil || n != smallItems {
			t.Fatalf("%d items, %v", n, err)
		}
	}
	for seed := range uint64(6000) {
		r := rand.New(rand.NewPCG(seed, 3))
		file := bytes.Clone(files[seed%2])
		for range 1 + r.IntN(4) {
			at := r.IntN(len(file))
			if r.IntN(2) == 0 {
				at = at/pageSize*pageSize + r.IntN(256) // where headers and elements are
			}
			file[at] = byte(r.Uint32())
		}
		if n, err := readBytes(file); err == nil && n != smallItems {
			t.Errorf("seed %d: %d items and no error", seed, n)
		}
	}
}

// FuzzPages applies a list of changes (3 bytes offset, 1 byte value) to a file of this or of
// earlier versions.
func FuzzPages(f *testing.F) {
	files := map[bool][]byte{false: smallFile(f), true: earlierFile(f)}
	f.Add(false, []byte{0, 0, 0, 0})
	f.Add(true, []byte{0, 16, 16, 1, 0, 32, 10, 255})
	f.Fuzz(func(t *testing.T, earlier bool, changes []byte) {
		file := bytes.Clone(files[earlier])
		for ; len(changes) >= 4; changes = changes[4:] {
			file[int(binary.BigEndian.Uint32(changes)>>8)%len(file)] = changes[3]
		}
		if n, err := readBytes(file); err == nil && n != smallItems {
			t.Errorf("%d items and no error", n)
		}
	})
}

// FuzzMeta decodes arbitrary bytes as Meta; decoded input must encode to the same bytes.
func FuzzMeta(f *testing.F) {
	for _, meta := range []Meta{{}, {Zxid: -1, Epoch: 1 << 31, Time: 1, Digest: []byte{}, Extra: map[string][]byte{"a": nil, "b": {1}}}} {
		b, err := encode(&meta)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff}) // a map of 4 G entries
	f.Fuzz(func(t *testing.T, b []byte) {
		var meta Meta
		if err := decode(b, &meta); err != nil {
			return
		}
		again, err := encode(&meta)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x encodes to %x, %v", b, again, err)
		}
	})
}

package snapshot

import (
	"bytes"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/jute"
)

// TestSetAsideAndReclaim moves files away and takes the right one back.
func TestSetAsideAndReclaim(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ref := mustWrite(t, s, 5, 10)
	good, err := os.ReadFile(s.Path(ref.Name))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{ref.Name, ref.Name + ".2", ref.Name + ".3"} {
		path, err := s.SetAside(ref.Name)
		if err != nil || path != filepath.Join(dir, "unreferenced", want) {
			t.Fatalf("set aside to %s, %v", path, err)
		}
		if err := os.WriteFile(s.Path(ref.Name), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := s.Reclaim(t.Context(), ref); ok || err != nil {
		t.Errorf("reclaimed over another file: %v", err)
	}
	if err := s.Remove(ref.Name); err != nil {
		t.Fatal(err)
	}
	other := ref
	other.CRC++
	if ok, err := s.Reclaim(t.Context(), other); ok || err != nil {
		t.Errorf("reclaimed a file that is another one: %v", err)
	}
	if ok, err := s.Reclaim(t.Context(), ref); !ok || err != nil {
		t.Errorf("not reclaimed: %v", err)
	}
	if b, err := os.ReadFile(s.Path(ref.Name)); err != nil || !bytes.Equal(b, good) {
		t.Errorf("the file has %d bytes, %v", len(b), err)
	}
	if _, err := s.SetAside("none.db"); err == nil {
		t.Error("set aside a file that does not exist")
	}
}

func TestDescribe(t *testing.T) {
	s := open(t, Options{})
	want := Meta{Zxid: 9, Epoch: 1, Server: 2, Incarnation: []byte{1, 2}}
	ref, err := s.Write(t.Context(), want, Section{Name: "nodes", Items: nodes(10)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Describe(t.Context(), ref.Name); err != nil || got.Zxid != 9 || got.Server != 2 || !bytes.Equal(got.Incarnation, want.Incarnation) {
		t.Errorf("described as %+v, %v", got, err)
	}
	if _, err := s.Describe(t.Context(), "none.db"); fault.KindOf(err) != fault.Missing {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(s.Path(ref.Name), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Describe(t.Context(), ref.Name); fault.KindOf(err) != fault.Damaged {
		t.Errorf("a damaged file: %v", err)
	}
}

// TestFormat1 reads a snapshot of format 1: without checksums in it, and without the name
// of its writer.
func TestFormat1(t *testing.T) {
	s := open(t, Options{})
	ref := Ref{Name: FileName(5, 1), Zxid: 5}
	db, err := bbolt.Open(s.Path(ref.Name), 0o600, &bbolt.Options{PageSize: pageSize, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	info, err := encode(&Meta{Zxid: 5, Epoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	done, err := encode(&complete{Sections: []SectionCount{{Name: "nodes", Count: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		put := func(bucket string, kv ...string) error {
			b, err := tx.CreateBucket([]byte(bucket))
			for ; err == nil && len(kv) > 0; kv = kv[2:] {
				err = b.Put([]byte(kv[0]), []byte(kv[1]))
			}
			return err
		}
		if err := put("nodes", "k", "v"); err != nil {
			return err
		}
		return put(metaName, "format", "\x01", "info", string(info), "complete", string(done))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(s.Path(ref.Name))
	if err != nil {
		t.Fatal(err)
	}
	ref.Size, ref.CRC = int64(len(file)), crc32.Checksum(file, castagnoli)
	c, meta := load(t, s, ref)
	if c["nodes"]["k"] != "v" || meta.Zxid != jute.Zxid(5) || len(meta.Incarnation) != 0 {
		t.Errorf("loaded %v, %+v", c, meta)
	}
}

// TestFormatByte: no flipped bit of the format makes it look like a later version.
func TestFormatByte(t *testing.T) {
	good := encodeFormat(2)
	for bit := range 8 * len(good) {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := decodeFormat(b); err == nil || fault.KindOf(err) == fault.Newer {
			t.Errorf("bit %d flipped: %v", bit, err)
		}
	}
}

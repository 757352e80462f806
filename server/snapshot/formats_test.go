package snapshot

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/golden"
)

// TestFormats reads the records of a snapshot's bucket meta as they were written once: of formats 1 and 2.
func TestFormats(t *testing.T) {
	golden.Run(t, "testdata/formats.golden", map[string]golden.Format{
		"format": func(b []byte) (any, []byte, error) {
			version, err := decodeFormat(b)
			if version == 1 {
				return version, nil, err
			}
			return version, encodeFormat(byte(version)), err
		},
		"info": func(b []byte) (any, []byte, error) {
			var m Meta
			err := decode(b, &m)
			again, _ := encode(&m)
			return m, again, err
		},
		"complete": func(b []byte) (any, []byte, error) {
			var c complete
			err := decode(b, &c)
			again, _ := encode(&c)
			return c, again, err
		},
	})
}

// kept is the content of testdata/snapshot.db.gz.
var (
	keptMeta = Meta{Zxid: 0x300000009, Epoch: 3, Time: 1764000000000, Digest: []byte("digest"), Extra: map[string][]byte{"state": []byte("of the replication")},
		Server: 2, Incarnation: []byte("incarnationoftwo")}
	keptContent = content{"acls": {"\x00\x00\x00\x01": "list"}, "nodes": {"\x00": "root", "\x00a": "1", "\x00a\x00b": "2"}}
)

// TestKeptSnapshot reads a whole file that was written once: its pages are bbolt's.
func TestKeptSnapshot(t *testing.T) {
	packed, err := os.ReadFile("testdata/snapshot.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{})
	name := FileName(keptMeta.Zxid, keptMeta.Epoch)
	if err := os.WriteFile(s.Path(name), file, 0o600); err != nil {
		t.Fatal(err)
	}
	ref, err := s.RefOf(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	c, meta := load(t, s, ref)
	if !equal(c, keptContent) || golden.Text(meta.Digest) != golden.Text(keptMeta.Digest) || meta.Zxid != keptMeta.Zxid ||
		meta.Server != keptMeta.Server || string(meta.Extra["state"]) != "of the replication" {
		t.Errorf("read %+v with %v", meta, c)
	}
}

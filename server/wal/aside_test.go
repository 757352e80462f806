package wal

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkd-project/zkd/internal/crashfs"
)

// TestSetAside: a damaged log gives way to an empty one that keeps the newest
// promise.
func TestSetAside(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	for n := 1; n <= 60; n++ {
		mustAppend(t, l, entry(n, string(make([]byte, 600))), Record{Kind: Promise, Payload: []byte{byte(n)}})
	}
	files := fsys.Files()
	err := fsys.Corrupt(files[1], func(b []byte) []byte { b[headerSize+100]++; return b })
	if err != nil {
		t.Fatal(err)
	}
	o := testOptions(fsys)
	o.SetAside, o.SetAsideIdent, o.Registerer = true, []byte("anew"), prometheus.NewRegistry()
	l, rec := mustOpen(t, o)
	if rec.Damaged == nil || rec.New || rec.LastZxid != 0 || string(rec.Ident) != "anew" || string(rec.Promise) != "\x3c" || len(rec.Snaps) > 0 {
		t.Fatalf("recovered %+v", rec)
	}
	if len(rec.Damaged.Renamed) != len(files) {
		t.Errorf("renamed %q, want all of %q", rec.Damaged.Renamed, files)
	}
	t.Log(rec.Damaged)
	mustAppend(t, l, SnapRef{Zxid: 100, Name: "snap", Installed: true}.Record(), entry(101, "new"))
	o.Registerer = nil
	_, rec = mustOpen(t, o)
	if rec.Damaged != nil || rec.LastZxid != 101 || string(rec.Ident) != "anew" || string(rec.Promise) != "\x3c" {
		t.Fatalf("after that: %+v", rec)
	}
}

package apachefiles

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vector returns the bytes of a file in testdata, which ZooKeeper 3.8.0 has written. It is in
// hex, and each line ends a record.
func vector(t testing.TB, name string) (all []byte, lines [][]byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(text)) {
		b, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
		lines = append(lines, b)
	}
	return all, lines
}

// TestFreshServer reads what a server of 3.8.0 has after its first two transactions. It
// computes the same digests.
func TestFreshServer(t *testing.T) {
	snap, _ := vector(t, "fresh.snapshot.hex")
	_, records := vector(t, "records.hex")
	d := newDir(t)
	d.write("snapshot.0", snap)
	d.write("log.1", append(bytes.Join(records[:3], nil), make([]byte, 100)...))
	tree, sum := d.mustLoad(Options{})
	if tree.Last != 2 || sum.Digests != 2 || sum.Proven != 2 || sum.Nodes != 5 || sum.Sessions != 1 || sum.Version != "3.6 or later" {
		t.Errorf("zxid %v, %+v", tree.Last, sum)
	}
	if tree.Digest() != 0x123243ff2 {
		t.Errorf("digest %x", tree.Digest())
	}
	if n := tree.find("/q"); n == nil || string(n.Data) != "12345" || n.Czxid != 2 || tree.root.Cversion != 1 {
		t.Errorf("/q: %+v", n)
	}
}

// TestTransactions decodes one transaction of each type.
func TestTransactions(t *testing.T) {
	_, records := vector(t, "records.hex")
	for i, want := range []string{
		"0x1 -10 30000", "0x2 1 /q v1", "0x90000000d 1 /vt v15 ttl=60000", "0x90000000e 1 /vc v16 container",
		"0x90000000f 7 /vc v1", "0x900000010 1 /vm v17 5 /vm v1", "0x900000011", "0x900000013 2 /vt v0", "0x900000014 5 /vm v2",
		"0x900000015 -11 [/ve]", "0x900000008 5 /zookeeper/config v-1",
	} {
		rec := records[i+1]
		x, err := DecodeTxn(rec[recordHeader : len(rec)-1])
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if got := x.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if x.Digest == nil {
			t.Errorf("%s: no digest", want)
		}
	}
}

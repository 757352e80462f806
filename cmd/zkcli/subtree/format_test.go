package subtree_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	. "github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/testing/seeds"
)

// readAll reads an export to its end.
func readAll(file []byte) ([]Node, error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	var nodes []Node
	for n, err := range r.Nodes() {
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// small is an export with all kinds of data.
func small(t testing.TB) []byte {
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{Source: "a:1,b:2/x", Path: "/app", Zxid: 0x100000002, About: 3})
	if err != nil {
		t.Fatal(err)
	}
	odd := []client.ACL{{Perms: 0x7f, ID: client.ID{Scheme: "digest", ID: "u:h:="}}}
	for _, n := range []Node{
		{Path: "/", ACL: client.OpenACL()},
		{Path: "/a", Data: []byte{}, ACL: client.ReadACL(), Stat: client.Stat{Czxid: 5, EphemeralOwner: 7}},
		{Path: "/a-b", Data: []byte("<ü>\n"), ACL: odd, Stat: client.Stat{EphemeralOwner: -1 << 63}},
		{Path: "/b", Data: []byte{0xff}, ACL: client.OpenACL()},
	} {
		if err := w.Write(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReaderReadsWhatWriterWrote(t *testing.T) {
	nodes, err := readAll(small(t))
	if err != nil || len(nodes) != 4 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	for i, want := range [][]byte{nil, {}, []byte("<ü>\n"), {0xff}} {
		if !SameData(nodes[i].Data, want) {
			t.Errorf("%s: data %q (null: %v), want %q", nodes[i].Path, nodes[i].Data, nodes[i].Data == nil, want)
		}
	}
	if got := FormatACL(nodes[2].ACL[0]); got != "digest:u:h:=:127" {
		t.Errorf("acl %s", got)
	}
	if nodes[1].Kind() != Ephemeral || nodes[1].Stat.Czxid != 5 || nodes[2].Kind() != Container {
		t.Errorf("stats %+v", nodes)
	}
}

// A file that was cut or changed at any byte must not be taken.
func TestDamageAtEveryByte(t *testing.T) {
	file := small(t)
	for i := range file {
		if _, err := readAll(file[:i]); err == nil {
			t.Errorf("cut at %d: taken", i)
		}
		for _, flip := range []byte{1, 0x20, 0x80} {
			changed := bytes.Clone(file)
			changed[i] ^= flip
			if _, err := readAll(changed); err == nil {
				t.Errorf("byte %d ^ %#x: taken", i, flip)
			}
		}
	}
	if _, err := readAll(append(bytes.Clone(file), '\n')); err == nil {
		t.Error("a byte behind the end: taken")
	}
}

// The same with a server: nothing may be written.
func TestDamagedFileIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	file := small(t)
	before := s.Requests()
	for i := 0; i < len(file); i += 7 {
		changed := bytes.Clone(file)
		changed[i] ^= 1
		for _, damaged := range [][]byte{file[:i], changed} {
			_, err := Import(t.Context(), c, "/to", from(damaged), ImportOptions{Overwrite: true, Prune: true})
			if _, ok := errors.AsType[*CorruptError](err); !ok {
				t.Fatalf("byte %d: %v, want a CorruptError", i, err)
			}
		}
	}
	if n := s.Requests().Since(before).Total(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestReaderWantsATree(t *testing.T) {
	for name, paths := range map[string][]string{
		"root is missing":   {"/a"},
		"order":             {"/", "/b", "/a"},
		"twice":             {"/", "/a", "/a"},
		"parent is missing": {"/", "/a", "/b/c"},
		"no path":           {"/", "a"},
		"empty name":        {"/", "/a", "/a//b"},
	} {
		var b bytes.Buffer
		w, _ := NewWriter(&b, Header{Path: "/"})
		for _, path := range paths {
			if err := w.Write(Node{Path: path, ACL: client.OpenACL()}); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		if _, err := readAll(b.Bytes()); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// What is read must be what writes the same file again.
func FuzzReader(f *testing.F) {
	f.Add(small(f))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		var again bytes.Buffer
		w, err := NewWriter(&again, r.Header())
		if err != nil {
			return // a time that JSON can't write
		}
		var first []Node
		for n, err := range r.Nodes() {
			if err != nil {
				return
			}
			first = append(first, n)
			if err := w.Write(n); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		second, err := readAll(again.Bytes())
		if err != nil || len(first) != len(second) {
			t.Fatalf("%d nodes became %d: %v", len(first), len(second), err)
		}
		for i := range first {
			if !SameData(first[i].Data, second[i].Data) || !SameACL(first[i].ACL, second[i].ACL) || first[i].Stat != second[i].Stat {
				t.Errorf("%+v became %+v", first[i], second[i])
			}
		}
	})
}

func TestExportImportExportIsTheSame(t *testing.T) {
	a, b := zktest.Start(t).Client(t), zktest.Start(t).Client(t)
	first := seeds.First(t)
	for i := range 5 {
		seed := first + uint64(i)
		root := string(rune('a'+i)) + "-forest"
		plant(t, a, forest(rand.New(rand.NewPCG(seed, 0)), "/"+root, 150)...)
		file := export(t, a, "/"+root)
		r, err := Import(t.Context(), b, "/other/place/"+root, from(file), ImportOptions{Batch: 1 + i*20})
		if err != nil {
			t.Fatal(err)
		}
		if r.Created != 150 || r.Left != 0 || r.Total != 150 {
			t.Errorf("report %+v", r)
		}
		if d := differences(t, a, "/"+root, b, "/other/place/"+root); len(d) > 0 {
			t.Errorf("differences: %q", d)
		}
		r, err = Import(t.Context(), b, "/other/place/"+root, from(file), ImportOptions{})
		if err != nil || r.Same != 150 || r.Created != 0 {
			t.Errorf("the second time: %+v, %v", r, err)
		}
	}
}

// TestConsoleExport reads an export that the console has written, and writes it again: the bytes are the same.
func TestConsoleExport(t *testing.T) {
	file, err := os.ReadFile("../../../server/console/testdata/a.zkexport")
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := readAll(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	w, err := NewWriter(&again, r.Header())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if err := w.Write(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || !bytes.Equal(again.Bytes(), file) {
		t.Errorf("%v\n%s\nwant\n%s", err, again.Bytes(), file)
	}
}

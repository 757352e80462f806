package monitor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

func TestNamespaces(t *testing.T) {
	var all Namespaces
	var c NamespaceCount
	for i, path := range []string{
		"/", "/app", "/app/a", "/application/a", "/app", "/ap", "/app/a/b", "/", "/b/app", "/b/a",
	} {
		c.Add(&all, path, 1<<i)
	}
	c.Flush()
	c.Flush() // adds nothing
	want := []NamespaceBytes{
		{"ap", 1, 1 << 5, 1 << 5, 1 << 5},
		{"app", 4, 1<<1 + 1<<2 + 1<<4 + 1<<6, 1 << 1, 1 << 6},
		{"application", 1, 1 << 3, 1 << 3, 1 << 3},
		{"b", 2, 1<<8 + 1<<9, 1 << 8, 1 << 9},
	}
	if got := all.All(); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// A client that makes up names can't fill the memory with them.
func TestNamespacesAreBounded(t *testing.T) {
	var all Namespaces
	var c NamespaceCount
	for i := range MaxNamespaces + 10 {
		c.Add(&all, fmt.Sprintf("/n%d", i), 1)
	}
	c.Flush()
	got := all.All()
	if len(got) != MaxNamespaces+1 || got[0].Name != OtherNamespaces || got[0].Count != 10 {
		t.Errorf("%d namespaces, the first is %v; want %d, and 10 for %s", len(got), got[0], MaxNamespaces+1, OtherNamespaces)
	}
}

// Nor with long ones, of which each answer to mntr and each page of metrics would have several copies.
func TestLongNamespacesAreOthers(t *testing.T) {
	var all Namespaces
	var c NamespaceCount
	limit := strings.Repeat("x", MaxNamespaceName)
	for i, path := range []string{"/a", "/" + limit, "/" + limit + "x", "/" + limit + "y/b", "/a/b", "/" + limit + "/c"} {
		c.Add(&all, path, 1<<i)
	}
	c.Flush()
	want := []NamespaceBytes{
		{OtherNamespaces, 2, 1<<2 + 1<<3, 1 << 2, 1 << 3},
		{"a", 2, 1<<0 + 1<<4, 1 << 0, 1 << 4},
		{limit, 2, 1<<1 + 1<<5, 1 << 1, 1 << 5},
	}
	if got := all.All(); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestNamespaceNamesAreCopied(t *testing.T) {
	var all Namespaces
	var c NamespaceCount
	buffer := []byte("/one/a")
	c.Add(&all, unsafe.String(&buffer[0], len(buffer)), 1)
	copy(buffer, "/two/a")
	c.Add(&all, unsafe.String(&buffer[0], len(buffer)), 2)
	c.Flush()
	if got := all.All(); len(got) != 2 || got[0].Name != "one" || got[1].Name != "two" {
		t.Errorf("got %v, want one and two", got)
	}
}

func BenchmarkNamespaces(b *testing.B) {
	var all Namespaces
	var c NamespaceCount
	b.ReportAllocs()
	for b.Loop() {
		c.Add(&all, "/zb-12345678/000001", 1024)
	}
}

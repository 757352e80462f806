package datatree

import (
	"slices"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestNew is the tree that an Apache server of version 3.8 starts with.
func TestNew(t *testing.T) {
	tree := New()
	worldRead := []jute.ACL{{Perms: jute.PermRead, ID: jute.WorldAnyone}}
	tests := []struct {
		path string
		stat jute.Stat
		acl  []jute.ACL
	}{
		{"/", jute.Stat{Cversion: -1, NumChildren: 1}, openACL},
		{"", jute.Stat{Cversion: -1, NumChildren: 1}, openACL},
		{"/zookeeper", jute.Stat{Cversion: -2, NumChildren: 2}, openACL},
		{"/zookeeper/quota", jute.Stat{}, openACL},
		{"/zookeeper/config", jute.Stat{Aversion: -1}, worldRead},
	}
	for _, tt := range tests {
		data, node, ok := tree.GetData(tt.path)
		if !ok || data == nil || len(data) != 0 {
			t.Errorf("GetData(%q) = %v, %v; want empty data", tt.path, data, ok)
		}
		if node.Stat() != tt.stat || !slices.Equal(node.ACL, tt.acl) {
			t.Errorf("%q: stat %+v, ACL %v; want %+v, %v", tt.path, node.Stat(), node.ACL, tt.stat, tt.acl)
		}
	}
	for _, path := range []string{"/x", "zookeeper", "//", "/zookeeper/", "//zookeeper", "/zookeeper//quota"} {
		if _, ok := tree.Get(path); ok {
			t.Errorf("Get(%q) finds a node", path)
		}
	}
	if n := tree.CountDescendants("/"); n != 3 {
		t.Errorf("CountDescendants(/) = %d, want 3", n)
	}
	want := Stats{Nodes: 5, DataSize: 44}
	if got := tree.Stats(); got != want {
		t.Errorf("Stats() = %+v, want %+v", got, want)
	}
}

// Package treetest makes trees for tests.
package treetest

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// Sessions of the tree that Imported returns.
const (
	ApachesSession jute.SessionID = 0x100002d57e4000d
	OwnSession     jute.SessionID = 7
)

// Imported returns a tree as an import from Apache's server makes it.
func Imported(t testing.TB) *datatree.Tree {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l := datatree.NewLoader()
	check(l.AddSession(ApachesSession, 30000, true))
	check(l.AddSession(OwnSession, 30000, false))
	for _, path := range []string{"", "/a", "/a/b", "/a-b", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		row := datatree.NodeRow{Czxid: 5, Mzxid: 0x300000002, Version: -7, Cversion: 9, Data: []byte(path)}
		if path == "/a/b" {
			row.Owner = jute.OwnerSession(ApachesSession)
		}
		check(l.AddZnode(path, &row, []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "world", ID: "anyone"}}}))
	}
	tree, err := l.FinishAt(0x300000005)
	check(err)
	return tree
}

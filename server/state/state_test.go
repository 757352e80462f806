package state

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/zab"
)

// TestDigests applies entries, some of which are no transactions: operators are shown digests of transactions alone, at
// multiples of DigestEvery, the oldest first. Servers can compare all of them. Old ones are forgotten.
func TestDigests(t *testing.T) {
	var d Digests
	tree := datatree.New()
	const kept, all = digestsKept, digestsKept + 10
	for i := range jute.Zxid(all * DigestEvery) {
		n := i / DigestEvery // of the next digest
		if kept := d.Applied(i+1, tree, n%2 == 0); kept != ((i+1)%DigestEvery == 0) {
			t.Fatalf("at %v: kept %v", i+1, kept)
		}
	}
	list := d.Transactions()
	if len(list) != kept/2 {
		t.Errorf("%d digests are shown, want %d", len(list), kept/2)
	}
	for i, one := range list {
		if want := jute.Zxid((all - kept + 2*i + 1) * DigestEvery); one.Zxid != want {
			t.Fatalf("digest %d is at %v, want %v", i, one.Zxid, want)
		}
	}
	for zxid, want := range map[jute.Zxid]bool{
		all * DigestEvery:              true, // no transaction's
		(all - kept + 1) * DigestEvery: true,
		(all - kept) * DigestEvery:     false, // forgotten
		all*DigestEvery - 1:            false,
	} {
		if got, ok := d.At(zxid); ok != want || ok && got != tree.Digest() {
			t.Errorf("at %v: %v, %v, want %v", zxid, got, ok, want)
		}
	}
}

// TestKeys has the passwords of sessions before and after the history has a secret, and after a snapshot of another one.
func TestKeys(t *testing.T) {
	s := State{Tree: datatree.New()}
	own, first, other := [32]byte{1}, [32]byte{2}, [32]byte{3}
	s.Begin(own)
	check := func(what string, secret [32]byte, cluster byte) {
		t.Helper()
		if s.Keys().Password(7) != session.NewKeys(secret).Password(7) {
			t.Errorf("%s: the passwords are those of another secret", what)
		}
		if id, ok := s.Cluster(); ok != (cluster != 0) || id[0] != cluster {
			t.Errorf("%s: the ensemble is %x, %v", what, id, ok)
		}
	}
	check("at first", own, 0)
	s.Ensemble.Init = zab.ClusterInit{Cluster: zab.ID{2}, Secret: first}
	s.DeriveKeys()
	check("when the history has a secret", first, 2)
	s.Ensemble.Init = zab.ClusterInit{Cluster: zab.ID{3}, Secret: other}
	s.DeriveKeys()
	check("of another history", other, 3)
	s.Ensemble = zab.State{}
	s.DeriveKeys()
	check("of a history without a secret", own, 0)
}

// TestSlices has readers that wait for the end of a transaction which is applied in slices.
func TestSlices(t *testing.T) {
	s := State{Tree: datatree.New()}
	s.EndSlices() // there are none
	if s.Slicing() != nil {
		t.Error("nothing is applied")
	}
	s.BeginSlices()
	waits := s.Slicing()
	select {
	case <-waits:
		t.Error("it has ended")
	default:
	}
	s.EndSlices()
	<-waits
	if s.Slicing() != nil {
		t.Error("it has ended, and readers would wait")
	}
}

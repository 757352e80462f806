package jute

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
)

// TestEncodedChange checks that what is read of an encoded change without decoding it is right.
func TestEncodedChange(t *testing.T) {
	seed := seeds.First(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		var want Change
		example(&want, rng)
		if rng.IntN(4) == 0 {
			want.Data = nil
		}
		encoded := want.Append(nil)
		head, n := CutChangeHead(append(want.AppendHead(nil), make([]byte, rng.IntN(9))...))
		c := EncodedChange{head, want.Data}
		if n != len(want.Data) || !bytes.Equal(c.Append(nil), encoded) || c.Len() != len(encoded) || c.Zxid() != want.Zxid || c.Kind() != want.Kind || string(c.Path()) != want.Path || !reflect.DeepEqual(c.Change(), want) {
			t.Fatalf("seed %d: %+v is cut to %x, with %d bytes of data", seed, want, head, n)
		}
		want.Stat = Stat{}
		if got := c.AppendLost([]byte("before")); !bytes.Equal(got, want.Append([]byte("before"))) {
			t.Fatalf("seed %d: %+v without its Stat is %x", seed, want, got)
		}
		want = c.Change()
		want.Data = nil
		if got := c.AppendWithoutData([]byte("before")); !bytes.Equal(got, want.Append([]byte("before"))) {
			t.Fatalf("seed %d: %+v without its data is %x", seed, want, got)
		}
		want.Stat, want.Path, want.Kind = Stat{}, "/"+want.Path, ChangeChildren
		c.Head, _ = CutChangeHead((&Change{
			Zxid: want.Zxid, Index: want.Index, Kind: ChangeDeleted, Time: want.Time, Session: want.Session,
			ParentCversion: want.ParentCversion, ParentChildren: want.ParentChildren, Path: strings.TrimSuffix(want.Path, "/") + "/child",
		}).AppendHead(nil))
		if got := c.AppendChildren([]byte("before")); !bytes.Equal(got, want.Append([]byte("before"))) {
			t.Fatalf("seed %d: %+v of the parent is %x", seed, want, got)
		}
	}
}

func TestChangeKinds(t *testing.T) {
	all := []ChangeKind{ChangeCreated, ChangeDeleted, ChangeData, ChangeACL, ChangeChildren}
	some := ChangeKindsOf(ChangeDeleted, ChangeACL)
	for _, k := range all {
		if ChangeKinds(0).Has(k) != (k != ChangeChildren) || some.Has(k) != (k == ChangeDeleted || k == ChangeACL) || !ChangeKindsOf(k).Has(k) {
			t.Errorf("%v: %b", k, some)
		}
	}
	if !ChangeKindsOf(all...).Valid() || !some.Valid() || ChangeKinds(32).Valid() || ChangeKinds(-1).Valid() {
		t.Error("valid sets")
	}
}

package copies

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

var (
	ours, others = zab.ID{1}, zab.ID{2}
	four, five   = zab.Admission{Server: 4, Incarnation: zab.ID{44}}, zab.Admission{Server: 5, Incarnation: zab.ID{55}}
	z            = jute.MakeZxid(7, 9)
)

func state(of zab.ID, z jute.Zxid) *zab.State {
	return &zab.State{Zxid: z, Members: new(zab.Members), Init: zab.ClusterInit{Cluster: of, Secret: [32]byte{3}}}
}

// treeAt returns a tree that is at z, and says that the ensemble is retired or not.
func treeAt(z jute.Zxid, retired bool) *datatree.Tree {
	path := "/a"
	if retired {
		path = jute.RetiredPath
	}
	tree := datatree.New()
	var out datatree.Applied
	tree.Apply(&datatree.Txn{Zxid: z, Time: 1, Ops: []datatree.Op{{Kind: datatree.OpCreate, Path: path}}}, &out)
	return tree
}

// rule is what a rule says of a case, and what it should.
type rule struct {
	name      string
	got, want any
}

func rules() (list []rule) {
	add := func(name string, got, want any) { list = append(list, rule{name, got, want}) }
	add("a server that has as much", Sends(Point{ours, z}, Point{ours, z}), Fits)
	add("a server that has less", Sends(Point{ours, z}, Point{ours, z + 1}), Behind)
	add("a server of another ensemble", Sends(Point{ours, z}, Point{others, z}), OtherHistory)
	add("an entry that is applied", Settled(z, z), true)
	add("an entry that is not applied", Settled(z+1, z), false)
	add("the stream that was asked for", Begins(Point{ours, z}, Point{ours, z}), true)
	add("a stream of another ensemble", Begins(Point{ours, z}, Point{others, z}), false)
	add("a stream with a gap", Begins(Point{ours, z}, Point{ours, z + 1}), false)
	add("the first state", Installs(&zab.State{}, state(others, z)), Fits)
	add("a later state", Installs(state(ours, z), state(ours, z+1)), Fits)
	add("the same state", Installs(state(ours, z), state(ours, z)), Fits)
	add("an earlier state", Installs(state(ours, z), state(ours, z-1)), Behind)
	add("a state of another ensemble", Installs(state(ours, z), state(others, z)), OtherHistory)
	add("a state without an ensemble", Installs(state(ours, z), &zab.State{Zxid: z}), NoEnsemble)
	add("all of a retired ensemble", Complete(treeAt(z, true), z), true)
	add("all of a retired ensemble, not on disk", Complete(treeAt(z, true), z-1), false)
	add("an ensemble that serves", Complete(treeAt(z, false), z), false)
	add("a complete copy", Consent{RetiredSince: z}.Covers(treeAt(z, true), z), true)
	add("a complete copy, not on disk", Consent{RetiredSince: z}.Covers(treeAt(z, true), z-1), false)
	add("a copy of an earlier retirement", Consent{RetiredSince: z + 1}.Covers(treeAt(z, true), z), false)
	add("a retirement that nobody has asked for", Consent{}.Covers(treeAt(z, true), z), false)
	add("an ensemble that has served again", Consent{RetiredSince: z}.Covers(treeAt(z, false), z), false)
	add("a loss that nobody was told", Consent{}.Covers(treeAt(z, false), z), false)
	add("a loss that was accepted", Consent{LossAfter: z}.Covers(treeAt(z, false), z), true)
	add("another loss than was accepted", Consent{LossAfter: z - 1}.Covers(treeAt(z, false), z), false)
	add("another loss of a complete copy", Consent{LossAfter: z - 1}.Covers(treeAt(z, true), z), false)
	add("both", Consent{RetiredSince: z, LossAfter: z}.Covers(treeAt(z, true), z), false)

	list = append(list, lagRules()...)

	equal := []Member{{four, z}, {five, z}}
	add("equal members", says(Check(equal[0], equal)), "")
	add("a member that is behind", says(Check(equal[0], []Member{{four, z}, {five, z - 1}})), "that of server 5 at "+(z-1).String())
	add("a member that comes twice", says(Check(equal[0], []Member{{four, z}, {four, z}})), "server 4 comes twice")
	add("a stranger", says(Check(Member{zab.Admission{Server: 4}, z}, equal)), "is not among the members")

	next := Succeed(state(ours, z), treeAt(z, true), []zab.Admission{five, four})
	again := Succeed(state(ours, z), treeAt(z, true), []zab.Admission{four, five})
	add("the same for each member", again.State.Init, next.State.Init)
	add("its first zxid, which the other ensemble never has", next.State.Zxid, jute.MakeZxid(next.Epoch, 1))
	// Members may be of several versions, and each must come to the same id.
	add("its id", hex.EncodeToString(next.State.Init.Cluster[:]), "29c75d0a32f8677d1f166c24f64450be")
	other := Succeed(state(others, z), treeAt(z, true), []zab.Admission{five, four})
	add("the id that follows another ensemble", other.State.Init.Cluster != next.State.Init.Cluster, true)
	later := Succeed(state(ours, z+1), treeAt(z+1, true), []zab.Admission{five, four})
	add("the id that follows another zxid", later.State.Init.Cluster != next.State.Init.Cluster, true)
	add("the passwords of sessions", next.State.Init.Secret == [32]byte{3}, true)
	add("its epochs", next.Epoch, z.Epoch()+EpochMargin)
	next.State.Zxid = z
	add("the epochs of one that follows before this has a list", Succeed(&next.State, treeAt(z, false), []zab.Admission{four}).Epoch, z.Epoch()+2*EpochMargin)
	add("its members", slices.Equal(next.State.Admitted, []zab.Admission{four, five}), true)
	served := treeAt(z, true)
	if next.Serves != nil {
		var out datatree.Applied
		served.Apply(next.Serves, &out)
	}
	add("it is retired", served.RetiredSince(), jute.Zxid(0))
	lost := Succeed(state(ours, z), treeAt(z, false), []zab.Admission{four})
	add("the zxid after a loss", lost.State.Zxid, z)
	add("nothing is served again", lost.Serves == nil, true)
	add("the ids of two that follow", lost.State.Init.Cluster != next.State.Init.Cluster, true)
	return list
}

// lagRules are those of how far a copy is behind.
func lagRules() (list []rule) {
	add := func(name string, got, want any) { list = append(list, rule{name, got, want}) }
	c := &zab.State{Zxid: jute.MakeZxid(5, 3), Epochs: []zab.EpochEnd{{Epoch: 2, Last: 9}, {Epoch: 4, Last: 0}, {Epoch: 5, Last: 3}}}
	lacks := func(after jute.Zxid, entries, bytes int64) {
		add(fmt.Sprintf("what follows %v", after), fmt.Sprint(LeftAfter(c, after, 40)), fmt.Sprint(Left{Zxid: c.Zxid, Entries: entries, Bytes: bytes}))
	}
	lacks(c.Zxid, 0, 0)
	lacks(jute.MakeZxid(5, 1), 2, 40)
	lacks(jute.MakeZxid(2, 7), 7, 40) // with the first entries of two epochs
	lacks(jute.MakeZxid(3, 1), -1, 40)
	lacks(0, -1, 40)
	near := Left{Zxid: 7, Entries: 2, Bytes: 100, Via: []zab.ID{{4}}}
	sum := near.Add(Left{Zxid: 9, Entries: 3, Bytes: 50, Behind: time.Second, Via: []zab.ID{{5}}})
	add("a copy of a copy lacks the sum", fmt.Sprint(sum), fmt.Sprint(Left{7, 5, 150, time.Second, []zab.ID{{4}, {5}}}))
	unknown := near.Add(Left{Entries: -1, Bytes: 50, Behind: -1})
	add("of which a part is unknown", fmt.Sprint(unknown.Entries, unknown.Bytes, unknown.Behind), "-1 150 -1ns")
	add("a copy that follows itself through others", Circle(zab.ID{5}, sum.Via), true)
	add("a copy that follows others", Circle(zab.ID{6}, sum.Via), false)

	at := func(s int) time.Duration { return time.Duration(s) * time.Second }
	after := func(steps func(a *Age)) int {
		var a Age
		a.Had(0)
		steps(&a)
		of, _ := a.At()
		return int(of / time.Second)
	}
	var never Age
	never.Answered(Left{Zxid: 5}, at(9), 4)
	_, known := never.At()
	add("it never had all", known, false)
	add("it has all at a time", after(func(a *Age) { a.All(at(9)) }), 9)
	add("it has what an answer says", after(func(a *Age) { a.Answered(Left{Zxid: 5}, at(9), 5) }), 9)
	add("an earlier time says nothing", after(func(a *Age) { a.All(at(9)); a.All(at(8)) }), 9)
	add("it does not have yet what an answer says", after(func(a *Age) { a.Answered(Left{Zxid: 5}, at(9), 4); a.Has(4) }), 0)
	add("it has it later, of the time of the answer", after(func(a *Age) { a.Answered(Left{Zxid: 5}, at(9), 4); a.Has(5) }), 9)
	add("it passes one answer of two", after(func(a *Age) { a.Answered(Left{Zxid: 5}, at(9), 4); a.Answered(Left{Zxid: 6}, at(10), 4); a.Has(5) }), 9)
	add("what was long under way", after(func(a *Age) { a.Answered(Left{Zxid: 5}, at(9), 4); a.All(at(20)) }), 9)
	add("an answer of a copy that is behind", after(func(a *Age) { a.Answered(Left{Zxid: 5, Behind: 4 * time.Second}, at(9), 5) }), 5)
	add("an answer of a copy that never had all", after(func(a *Age) { a.Answered(Left{Zxid: 5, Behind: -1}, at(9), 5) }), 0)
	add("many answers", after(func(a *Age) {
		for i := range 3 * mostMarks {
			a.Answered(Left{Zxid: jute.Zxid(i + 10)}, at(i), 4)
		}
		a.Has(mostMarks)
	}) > mostMarks-100, true)
	return list
}

func says(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// broken returns the rules that don't hold.
func broken() (list []rule) {
	for _, r := range rules() {
		got, isText := r.got.(string)
		want, _ := r.want.(string)
		if r.got != r.want && (!isText || want == "" || !strings.Contains(got, want)) {
			list = append(list, r)
		}
	}
	return list
}

func TestRules(t *testing.T) {
	for _, r := range broken() {
		t.Errorf("%s: got %v, want %v", r.name, r.got, r.want)
	}
}

// TestMember reads what names a member.
func TestMember(t *testing.T) {
	m := Member{four, z}
	if got, err := ParseMember(m.String()); got != m || err != nil {
		t.Errorf("%v is read as %v, %v", m, got, err)
	}
	for _, text := range []string{"", "4", "4:2c:0x1", "0:" + m.String()[2:], "x" + m.String(), m.String() + "x", m.String() + ":1"} {
		if got, err := ParseMember(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

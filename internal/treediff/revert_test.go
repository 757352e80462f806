package treediff

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// stateOf returns a state of nodes like "/a=data", "/a?" for one that may not be read, and "/a!" for an ephemeral.
func stateOf(words string) (list []Node) {
	for word := range strings.FieldsSeq(words) {
		path, data, _ := strings.Cut(word, "=")
		n := Node{Path: path, Data: []byte(data), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}}
		if p, ok := strings.CutSuffix(path, "?"); ok {
			n = Node{Path: p, Hidden: true}
		} else if p, ok := strings.CutSuffix(path, "!"); ok {
			n.Path, n.Stat.EphemeralOwner = p, 7
		}
		list = append(list, n)
	}
	return list
}

// TestWhatIsHiddenStays checks that a reversal neither changes nor deletes what may not be read, nor what is above it, and creates
// nothing below it.
func TestWhatIsHiddenStays(t *testing.T) {
	for _, tt := range []struct{ former, present, want string }{
		{"/ /a=1", "/ /a=2 /b", "change /a, delete /b"},
		{"/ /a=1", "/ /a? /b", "delete /b; hidden /a"},
		{"/ /a? /b", "/ /a=2", "create /b; hidden /a"},
		{"/ /a? /b", "/ /a=2 /a/x /b", "; hidden /a /a/x"}, // which may have been there
		{"/", "/ /a /a/x /a/y?", "delete /a/x; kept /a; hidden /a/y"},
		{"/ /a? /a/b /a/b/c /d", "/", "create /d; hidden /a /a/b /a/b/c"},
		{"/ /a? /a/b /d", "/ /a=1 /d", "create /a/b; hidden /a"},
		{"/ /a?", "/ /a?", "; hidden /a"},
		{"", "/ /a!", "; kept / /a"},
		{"", "/?", "; hidden /"},
		{"/ /e!", "/", ""},
	} {
		r, err := Revert("/r", Stream(stateOf(tt.former)), Stream(stateOf(tt.present)), 0)
		if err != nil {
			t.Fatal(err)
		}
		var does []string
		for _, d := range r.Changes {
			op := "change"
			if d.A == nil {
				op = "delete"
			} else if d.B == nil {
				op = "create"
			}
			does = append(does, op+" "+d.Path)
		}
		got := strings.Join(does, ", ")
		if len(r.Kept) > 0 {
			got += "; kept" + paths(r.Kept)
		}
		if len(r.Hidden) > 0 {
			got += "; hidden" + paths(r.Hidden)
		}
		if got != tt.want || r.Existed != (tt.former != "") {
			t.Errorf("%q, now %q: %q, want %q; existed: %v", tt.former, tt.present, got, tt.want, r.Existed)
		}
	}
	if _, err := Revert("/", Stream(stateOf("/ /a /b /c")), Stream(stateOf("/")), 500); !errors.Is(err, ErrTooMuch) {
		t.Errorf("with room for 500 bytes: %v", err)
	}
}

// paths returns the paths of nodes, in their order.
func paths(nodes []Node) string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.Path
	}
	slices.Sort(list)
	return " " + strings.Join(list, " ")
}

// TestHiddenHashesAreNoDifference compares a list with what servers show of it.
func TestHiddenHashesAreNoDifference(t *testing.T) {
	list := func(ids ...string) (acl []jute.ACL) {
		for _, id := range ids {
			acl = append(acl, jute.ACL{Perms: jute.PermRead, ID: jute.ID{Scheme: "digest", ID: id}})
		}
		return acl
	}
	for _, tt := range []struct {
		list, shown []jute.ACL
		same        bool
	}{
		{list("a:hash"), list("a:x"), true},
		{list("b:1", "a:2"), list("a:x", "b:x"), true},
		{list("a:hash"), list("b:x"), false},
		{list("a:hash"), list("a:other"), false},
		{list("a:hash"), list("a:hash"), true},
	} {
		if got := sameShown(tt.list, tt.shown); got != tt.same {
			t.Errorf("%v shown as %v: %v", tt.list, tt.shown, got)
		}
	}
}

// TestCountsOfQuotasStay checks that a reversal brings limits back, and not what the servers count of the nodes that there are now.
func TestCountsOfQuotasStay(t *testing.T) {
	former := Stream(stateOf("/a /a/zookeeper_limits=10 /a/zookeeper_stats=3 /b /b/zookeeper_limits=1 /b/zookeeper_stats=1"))
	present := Stream(stateOf("/a /a/zookeeper_limits=20 /a/zookeeper_stats=7"))
	r, err := Revert("/zookeeper/quota", former, present, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range r.Changes {
		got = append(got, d.Path)
	}
	if s := strings.Join(got, " "); s != "/a/zookeeper_limits /b /b/zookeeper_limits /b/zookeeper_stats" {
		t.Errorf("it changes %s", s)
	}
}

package subtree_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	. "github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
)

func TestImportDoesAsItIsTold(t *testing.T) {
	c := zktest.Start(t).Client(t)
	plant(t, c, node{path: "/f"}, node{path: "/f/same", data: []byte("s")}, node{path: "/f/data", data: []byte("file")},
		node{path: "/f/acl", acl: client.ReadACL()}, node{path: "/f/new"}, node{path: "/f/eph", mode: client.Ephemeral})
	file := export(t, c, "/f")
	there := []node{{path: "/"}, {path: "/same", data: []byte("s")}, {path: "/data", data: []byte("other")}, {path: "/acl"},
		{path: "/more"}, {path: "/more/below"}}
	for i, test := range []struct {
		name string
		o    ImportOptions
		want string // counts, or an error
		left string // differences
	}{
		{"careful", ImportOptions{}, "2 of the file's nodes exist and differ: /to0/acl, /to0/data",
			"/acl acl|/data data|/eph A|/more B|/more/below B|/new A"},
		{"skip", ImportOptions{Skip: true}, "created 1 changed 0 deleted 0 same 2 skipped 2 ephemerals 1",
			"/acl acl|/data data|/eph A|/more B|/more/below B"},
		{"overwrite", ImportOptions{Overwrite: true}, "created 1 changed 2 deleted 0 same 2 skipped 0 ephemerals 1",
			"/eph A|/more B|/more/below B"},
		{"prune", ImportOptions{Overwrite: true, Prune: true}, "created 1 changed 2 deleted 2 same 2 skipped 0 ephemerals 1", "/eph A"},
		{"ephemerals", ImportOptions{Overwrite: true, Ephemerals: true}, "created 2 changed 2 deleted 0 same 2 skipped 0 ephemerals 0",
			"/eph kind|/more B|/more/below B"},
		{"no ACLs", ImportOptions{Overwrite: true, NoACL: true}, "created 1 changed 1 deleted 0 same 3 skipped 0 ephemerals 1",
			"/acl acl|/eph A|/more B|/more/below B"},
		{"small batches", ImportOptions{Overwrite: true, Prune: true, Batch: 1, MaxBytes: 1},
			"created 1 changed 2 deleted 2 same 2 skipped 0 ephemerals 1", "/eph A"},
	} {
		root := fmt.Sprintf("/to%d", i)
		for _, n := range there {
			n.path = treediff.Join(root, n.path)
			plant(t, c, n)
		}
		dry := test.o
		dry.DryRun = true
		zxid := c.Status().LastZxid
		planned, dryErr := Import(t.Context(), c, root, from(file), dry)
		if c.Status().LastZxid != zxid {
			t.Errorf("%s: a dry run has written", test.name)
		}
		r, err := Import(t.Context(), c, root, from(file), test.o)
		got := counts(r.Counts)
		if err != nil {
			got = err.Error()
		} else if planned.Plan != r.Counts || r.Left != 0 {
			t.Errorf("%s: planned %+v, done %+v", test.name, planned, r)
		}
		if got != test.want || (err == nil) != (dryErr == nil) {
			t.Errorf("%s:\ngot  %s\nwant %s\ndry run: %v", test.name, got, test.want, dryErr)
		}
		if left := brief(t, c, "/f", root); left != test.left {
			t.Errorf("%s: differences\ngot  %s\nwant %s", test.name, left, test.left)
		}
	}
}

func counts(c Counts) string {
	return fmt.Sprintf("created %d changed %d deleted %d same %d skipped %d ephemerals %d",
		c.Created, c.Changed, c.Deleted, c.Same, c.Skipped, c.Ephemerals)
}

// brief is what differs between two subtrees, in few words.
func brief(t *testing.T, c *client.Client, a, b string) string {
	var list []string
	for _, d := range differences(t, c, a, c, b) {
		path, what, _ := strings.Cut(d, " ")
		for _, word := range []struct{ in, out string }{{" b=false", "A"}, {" a=false", "B"}, {" data=true", "data"}, {" acl=true", "acl"}, {" kind=true", "kind"}} {
			if strings.Contains(" "+what, word.in) {
				path += " " + word.out
			}
		}
		list = append(list, path)
	}
	return strings.Join(list, "|")
}

// Whatever request is lost, or its reply, the import continues, does all, and knows
// what it did.
func TestImportSurvivesLostConnections(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	nodes := forest(rand.New(rand.NewPCG(3, 0)), "/f", 60)
	plant(t, c, nodes...)
	file := export(t, c, "/f")
	for i, cutter := range []func(zktest.Match) *zktest.Cut{s.CutBefore, s.CutAfter} {
		for nth := 1; nth <= 6; nth++ {
			root := fmt.Sprintf("/to-%d-%d", i, nth)
			// A multi is matched once for each of its ten operations.
			cut := cutter(zktest.Nth(nth*10-5, zktest.Op(jute.OpMulti)))
			fresh := s.Client(t) // which does not hesitate to connect again
			r, err := Import(t.Context(), fresh, root, from(file), ImportOptions{Batch: 10})
			if err != nil || r.Created != 60 || r.Left != 0 {
				t.Fatalf("cutter %d, multi %d: %+v, %v", i, nth, r, err)
			}
			<-cut.Done()
			if d := brief(t, fresh, "/f", root); d != "" {
				t.Errorf("cutter %d, multi %d: %s", i, nth, d)
			}
		}
	}
}

// An import that is stopped says exactly what it did, and the next one does the
// rest.
func TestInterruptedImportReportsAndResumes(t *testing.T) {
	c := zktest.Start(t).Client(t)
	plant(t, c, forest(rand.New(rand.NewPCG(4, 0)), "/f", 50)...)
	file := export(t, c, "/f")
	ctx, cancel := context.WithCancel(t.Context())
	stop := func(p Progress) {
		if p.Doing == "writing" && p.Done == 20 {
			cancel()
		}
	}
	r, err := Import(ctx, c, "/to", from(file), ImportOptions{Batch: 10, Progress: stop})
	done := paths(t, c, "/to")
	if !errors.Is(err, context.Canceled) || r.Created != 20 || r.Left != 30 || len(done) != 20 || r.Unknown != nil {
		t.Fatalf("%+v, %v; %d nodes", r, err, len(done))
	}
	all := paths(t, c, "/f")
	if !slices.Equal(done, all[:20]) || r.Next != all[20] {
		t.Errorf("next %q; there are %q", r.Next, done)
	}
	r, err = Import(t.Context(), c, "/to", from(file), ImportOptions{})
	if err != nil || r.Created != 30 || r.Same != 20 {
		t.Errorf("resumed: %+v, %v", r, err)
	}
}

// A batch that servers refuse is not written, and what is left is told.
func TestImportThatServersRefuse(t *testing.T) {
	c := zktest.Start(t).Client(t)
	plant(t, c, node{path: "/f"}, node{path: "/f/a"}, node{path: "/f/b", acl: client.ReadACL()}, node{path: "/f/c"})
	file := export(t, c, "/f")
	plant(t, c, node{path: "/to"}, node{path: "/to/b", data: []byte("x"), acl: client.ReadACL()})
	r, err := Import(t.Context(), c, "/to", from(file), ImportOptions{Overwrite: true, Batch: 2})
	if !errors.Is(err, client.ErrNoAuth) || r.Created != 1 || r.Left != 2 || r.Next != "/b" {
		t.Errorf("%+v, %v", r, err)
	}
	if got := paths(t, c, "/to"); !slices.Equal(got, []string{"/", "/a", "/b"}) {
		t.Errorf("there are %q", got)
	}
}

func TestImportKnowsWhatItDidWhenNoServerAnswers(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	plant(t, c, forest(rand.New(rand.NewPCG(5, 0)), "/f", 30)...)
	file := export(t, c, "/f")
	all := paths(t, c, "/f")
	cut := s.CutAfter(zktest.Nth(15, zktest.Op(jute.OpMulti)))
	s.Refuse() // before the cut: the client must not be back to look
	var closing sync.WaitGroup
	closing.Go(func() {
		<-cut.Done()
		c.Close(context.Background()) // the session ends as an expired one does
	})
	r, err := Import(t.Context(), c, "/to", from(file), ImportOptions{Batch: 10})
	closing.Wait()
	if err == nil || r.Created != 10 || r.Left != 20 || r.Next != all[10] || !slices.Equal(r.Unknown, all[10:20]) {
		t.Fatalf("%+v, %v; want %q unknown", r, err, all[10:20])
	}
	s.Accept()
	if done := paths(t, s.Client(t), "/to"); cut.Err() != nil || !slices.Equal(done, all[:20]) {
		t.Errorf("there are %q, %v", done, cut.Err())
	}
}

func TestImportRefusesHiddenDigests(t *testing.T) {
	s := zktest.Start(t)
	owner := s.Client(t, func(o *client.Options) { o.Auth = []client.Auth{{Scheme: "digest", Data: []byte("u:p")}} })
	acl := []client.ACL{client.DigestACL(client.PermAll, "u", "p"), {Perms: client.PermRead, ID: client.ID{Scheme: "world", ID: "anyone"}}}
	plant(t, owner, node{path: "/f", acl: acl})
	file := export(t, s.Client(t), "/f")
	_, err := Import(t.Context(), owner, "/to", from(file), ImportOptions{})
	if err == nil || !strings.Contains(err.Error(), "hid") {
		t.Errorf("a hidden digest: %v", err)
	}
	if _, err := Import(t.Context(), owner, "/to", from(file), ImportOptions{NoACL: true}); err != nil {
		t.Errorf("without ACLs: %v", err)
	}
	if _, err := Import(t.Context(), owner, "/to2", from(export(t, owner, "/f")), ImportOptions{}); err != nil {
		t.Errorf("exported by the owner: %v", err)
	}
}

// Sequential nodes must go on where they were, not begin again.
func TestImportRaisesCounters(t *testing.T) {
	c := zktest.Start(t).Client(t)
	plant(t, c, node{path: "/f"}, node{path: "/f/q"})
	for range 30 {
		made, err := c.Create(t.Context(), "/f/q/n-", nil, client.CreateOptions{Mode: client.PersistentSequential})
		if err == nil && !strings.HasSuffix(made.Path, "7") {
			err = c.Delete(t.Context(), made.Path, client.AnyVersion)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := Import(t.Context(), c, "/to", from(export(t, c, "/f")), ImportOptions{Counters: true, Batch: 4})
	if err != nil || r.Counters != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	made2, err := c.Create(t.Context(), "/to/q/n-", nil, client.CreateOptions{Mode: client.PersistentSequential})
	if err != nil || made2.Path != "/to/q/n-0000000030" {
		t.Errorf("the next is %s, %v", made2.Path, err)
	}
}

func TestChangedSince(t *testing.T) {
	c := zktest.Start(t).Client(t)
	plant(t, c, node{path: "/f"}, node{path: "/f/a"}, node{path: "/f/b"}, node{path: "/f/c"}, node{path: "/f/d"})
	file := export(t, c, "/f")
	changed := func() string {
		in, err := NewReader(strings.NewReader(string(file)))
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for d, err := range ChangedSince(t.Context(), c, "/f", in) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, fmt.Sprintf("%s %v %v data=%v acl=%v children=%v replaced=%v",
				d.Path, d.A != nil, d.B != nil, d.Data, d.ACL, d.Children, d.Replaced))
		}
		return strings.Join(list, "|")
	}
	if got := changed(); got != "" {
		t.Errorf("nothing was changed: %s", got)
	}
	c.Set(t.Context(), "/f/a", nil, client.AnyVersion)
	c.SetACL(t.Context(), "/f/b", client.ReadACL(), client.AnyVersion)
	c.Delete(t.Context(), "/f/c", client.AnyVersion)
	plant(t, c, node{path: "/f/d/x"})
	const want = "/ true true data=false acl=false children=true replaced=false|" +
		"/a true true data=true acl=false children=false replaced=false|" +
		"/b true true data=false acl=true children=false replaced=false|" +
		"/c true false data=false acl=false children=false replaced=false|" +
		"/d true true data=false acl=false children=true replaced=false|" +
		"/d/x false true data=false acl=false children=false replaced=false"
	if got := changed(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSetACL(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	plant(t, c, forest(rand.New(rand.NewPCG(8, 0)), "/f", 5)...)
	plant(t, c, node{path: "/g"}, node{path: "/g/a"}, node{path: "/g/b", acl: append(client.OpenACL(), client.ReadACL()...)}, node{path: "/g/a/c"})
	acl := []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "world", ID: "anyone"}}, {Perms: client.PermRead, ID: client.ID{Scheme: "ip", ID: "10.0.0.1"}}}
	r, err := SetACL(t.Context(), c, "/g", acl, SetACLOptions{DryRun: true})
	if err != nil || r.Plan.Changed != 4 || r.Changed != 0 {
		t.Fatalf("dry run: %+v, %v", r, err)
	}
	cut := s.CutAfter(zktest.Nth(2, zktest.Op(jute.OpSetACL)))
	r, err = SetACL(t.Context(), c, "/g", acl, SetACLOptions{})
	<-cut.Done()
	if err != nil || r.Changed != 4 || r.Left != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	for n, err := range Live(t.Context(), c, "/g", ReadOptions{ACL: true}) {
		if err != nil || !SameACL(n.ACL, acl) {
			t.Errorf("%s: %v, %v", n.Path, n.ACL, err)
		}
	}
	if r, err = SetACL(t.Context(), c, "/g", acl, SetACLOptions{}); err != nil || r.Same != 4 || r.Changed != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
	if _, err = SetACL(cancelled(), c, "/g", client.ReadACL(), SetACLOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

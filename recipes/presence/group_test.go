package presence_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/presence"
)

func newGroup(w *trial.World, c *client.Client, o presence.Options) *presence.Group {
	w.Helper()
	g, err := presence.NewGroup(c, "/g", o)
	w.Must(err)
	return g
}

func join(w *trial.World, g *presence.Group, id, data string) *presence.Membership {
	w.Helper()
	var b []byte
	if data != "" {
		b = []byte(data)
	}
	m, err := g.Join(w.Ctx, id, b)
	w.Must(err)
	w.Cleanup(func() { _ = m.Release(context.WithoutCancel(w.Ctx)) })
	return m
}

// ids renders members as "a=1 b=2", or "a b" if they have no data.
func ids(members []presence.Member) string {
	var list []string
	for _, m := range members {
		if len(m.Data) > 0 {
			list = append(list, m.ID+"="+string(m.Data))
			continue
		}
		list = append(list, m.ID)
	}
	return strings.Join(list, " ")
}

// views pulls Views that say something.
type views struct {
	w    *trial.World
	next func() (presence.View, error, bool)
}

func follow(w *trial.World, g *presence.Group) *views {
	next, stop := iter.Pull2(g.Follow(w.Ctx))
	w.Cleanup(stop)
	return &views{w, next}
}

// want waits for a view that is not stale, and checks what is different in it.
func (v *views) want(diff, members string) {
	v.w.Helper()
	for {
		view, err, ok := v.next()
		if err != nil || !ok {
			v.w.Fatalf("view is %+v, %v", view, err)
		}
		got := fmt.Sprintf("+[%s] -[%s] *[%s]", ids(view.Joined), ids(view.Left), ids(view.Changed))
		if got == "+[] -[] *[]" && diff != got {
			continue
		}
		if got != diff || ids(view.Members) != members {
			v.w.Errorf("view is %s of [%s], want %s of [%s]", got, ids(view.Members), diff, members)
		}
		return
	}
}

// One joins, others see it; one leaves, one dies, and others see that, too.
func TestGroupMembersComeAndGo(t *testing.T) {
	for _, layout := range []presence.Layout{presence.Named, presence.Party, presence.ShallowParty} {
		t.Run(layout.String(), func(t *testing.T) {
			w := trial.New(t)
			o := presence.Options{Layout: layout}
			v := follow(w, newGroup(w, w.Look, o))
			v.want("+[] -[] *[]", "")
			a := join(w, newGroup(w, w.C, o), "a", "")
			v.want("+[a] -[] *[]", "a")
			mortal := w.Proxy.Client(t).Namespace(w.Dir())
			b := join(w, newGroup(w, mortal, o), "b", "")
			v.want("+[b] -[] *[]", "a b")
			members, err := newGroup(w, w.Look, o).Members(w.Ctx)
			if ids(members) != "a b" || err != nil {
				t.Errorf("members are %q, %v", ids(members), err)
			}
			size, err := newGroup(w, w.Look, o).Size(w.Ctx)
			if size != 2 || err != nil {
				t.Errorf("size is %d, %v", size, err)
			}
			w.Must(a.Release(w.Ctx))
			v.want("+[] -[a] *[]", "b")
			id := mortal.Session().ID()
			w.Proxy.ExpireSession(id)
			v.want("+[] -[b] *[]", "")
			<-b.Done()
			mustBe(t, b.Err(), recipes.ErrLost)
		})
	}
}

func TestGroupDataOfMembers(t *testing.T) {
	w := trial.New(t)
	g := newGroup(w, w.C, presence.Options{})
	v := follow(w, newGroup(w, w.Look, presence.Options{}))
	v.want("+[] -[] *[]", "")
	a := join(w, g, "a", "1")
	v.want("+[a=1] -[] *[]", "a=1")
	w.Must(a.SetData(w.Ctx, []byte("2")))
	v.want("+[] -[] *[a=2]", "a=2")
	members, err := g.Members(w.Ctx)
	if ids(members) != "a=2" || err != nil {
		t.Errorf("members are %q, %v", ids(members), err)
	}
	if own := w.C.Session().ID(); members[0].Stat.EphemeralOwner != own || a.ID() != "a" || !a.State().There {
		t.Errorf("member is %+v, state %+v", members[0], a.State())
	}
}

// A member whose session ends is back with the next one; to others it has left and
// joined.
func TestGroupMemberComesBack(t *testing.T) {
	w := trial.New(t)
	c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
	join(w, newGroup(w, c, presence.Options{}), "a", "1")
	var first client.Zxid
	for view, err := range newGroup(w, w.Look, presence.Options{}).Follow(w.Ctx) {
		w.Must(err)
		if len(view.Joined) == 1 && first == 0 {
			first = view.Joined[0].Stat.Czxid
			id := c.Session().ID()
			w.Proxy.ExpireSession(id)
			continue
		}
		if len(view.Joined) == 1 && view.Joined[0].Stat.Czxid != first {
			break
		}
	}
}

// A follower continues after the end of its own session, and says when it is stale.
func TestGroupFollowerIsCutOff(t *testing.T) {
	w := trial.New(t)
	c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
	a := join(w, newGroup(w, w.Look, presence.Options{}), "a", "")
	next, stop := iter.Pull2(newGroup(w, c, presence.Options{}).Follow(w.Ctx))
	defer stop()
	view, err, _ := next()
	if w.Must(err); ids(view.Joined) != "a" || view.Stale {
		t.Errorf("view is %+v", view)
	}
	id := c.Session().ID()
	w.Proxy.Refuse()
	w.Proxy.ExpireSession(id)
	for !view.Stale {
		view, err, _ = next()
		w.Must(err)
	}
	if ids(view.Members) != "a" {
		t.Errorf("view is %+v", view)
	}
	w.Must(a.Release(w.Ctx))
	w.Proxy.Accept()
	var left []presence.Member
	for view.Stale || len(left) == 0 {
		view, err, _ = next()
		w.Must(err)
		left = append(left, view.Left...)
	}
	if ids(left) != "a" || len(view.Members) != 0 {
		t.Errorf("view is %+v", view)
	}
}

func TestGroupTraceOfMember(t *testing.T) {
	w := trial.New(t)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/g", client.CreateOptions{}))
	rec := w.Record()
	m := join(w, newGroup(w, w.C, presence.Options{}), "a", "1")
	awaitTrace(w, rec, "create2 /g/a", "getChildren2 /g/a watch")
	// Others come and go: that is no concern of a member that doesn't follow.
	for range 3 {
		w.Must(join(w, newGroup(w, w.Look, presence.Options{}), "b", "").Release(w.Ctx))
	}
	w.Must(m.Release(w.Ctx))
	awaitTrace(w, rec, "delete /g/a", "event NodeDeleted /g/a")
}

// A change costs a follower one event, and two small reads if a member joins or
// leaves, or one if its data has changed. However many members there are, nobody reads the
// list again.
func TestGroupTraceOfFollower(t *testing.T) {
	w := trial.New(t)
	theirs := newGroup(w, w.Look, presence.Options{})
	for i := range 5 {
		join(w, theirs, fmt.Sprint("m", i), "")
	}
	rec := w.Record()
	v := follow(w, newGroup(w, w.C, presence.Options{}))
	v.want("+[m0 m1 m2 m3 m4] -[] *[]", "m0 m1 m2 m3 m4")
	spent(w, rec, "addWatch /g", "getChildren2 /g", "getData /g", "getData /g/m0", "getData /g/m1", "getData /g/m2", "getData /g/m3", "getData /g/m4", "sync /g")

	a := join(w, theirs, "a", "1")
	v.want("+[a=1] -[] *[]", "a=1 m0 m1 m2 m3 m4")
	spent(w, rec, "event NodeCreated /g/a", "exists /g", "getData /g/a")
	w.Must(a.SetData(w.Ctx, []byte("2")))
	v.want("+[] -[] *[a=2]", "a=2 m0 m1 m2 m3 m4")
	spent(w, rec, "event NodeDataChanged /g/a", "getData /g/a")
	w.Must(a.Release(w.Ctx))
	v.want("+[] -[a=2] *[]", "m0 m1 m2 m3 m4")
	spent(w, rec, "event NodeDeleted /g/a", "exists /g", "getData /g/a")
}

// spent compares what was recorded, in whatever order.
func spent(w *trial.World, rec *zktest.Recording, want ...string) {
	w.Helper()
	_, err := w.C.Exists(w.Ctx, "/end") // what was asked for before is recorded
	w.Must(err)
	got := w.Trace(rec)
	slices.Sort(got)
	want = append(want, "exists /end")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.Errorf("trace is\n%q, want\n%q", got, want)
	}
}

func TestGroupTraceOfReads(t *testing.T) {
	w := trial.New(t)
	for _, layout := range []presence.Layout{presence.ShallowParty, presence.Named} {
		g := newGroup(w, w.C, presence.Options{Layout: layout})
		m := join(w, g, "a-b", "")
		w.Must(m.Release(w.Ctx))
	}
	join(w, newGroup(w, w.Look, presence.Options{Layout: presence.ShallowParty}), "a-b", "")
	rec := w.Record()
	g := newGroup(w, w.C, presence.Options{Layout: presence.ShallowParty})
	if members, err := g.Members(w.Ctx); ids(members) != "a-b" || err != nil {
		t.Errorf("members are %q, %v", ids(members), err)
	}
	if n, err := g.Size(w.Ctx); n != 1 || err != nil {
		t.Errorf("size is %d, %v", n, err)
	}
	awaitTrace(w, rec, "getChildren2 /g", "getChildren2 /g")
}

// The nodes of kazoo's parties, as it makes and reads them.
func TestGroupKazooLayouts(t *testing.T) {
	w := trial.New(t)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/g", client.CreateOptions{}))
	for name, data := range map[string]string{
		"0123456789abcdef0123456789abcdef__party__": "ann", "fedcba9876543210fedcba9876543210__party__": "bob",
		"00000000000000000000000000000000__party__": "bob", "somebody-else": "",
	} {
		_, err := w.Look.Create(w.Ctx, "/g/"+name, []byte(data), client.CreateOptions{Mode: client.Ephemeral})
		w.Must(err)
	}
	o := presence.Options{Layout: presence.Party}
	join(w, newGroup(w, w.C, o), "cat", "")
	members, err := newGroup(w, w.C, o).Members(w.Ctx)
	if ids(members) != "ann bob bob cat" || err != nil {
		t.Errorf("members are %q, %v", ids(members), err)
	}
	follow(w, newGroup(w, w.C, o)).want("+[ann bob bob cat] -[] *[]", "ann bob bob cat")
	if n, err := newGroup(w, w.C, o).Size(w.Ctx); n != 4 || err != nil {
		t.Errorf("size is %d, %v", n, err)
	}
	if node, err := w.Look.Get(w.Ctx, "/g/"+members[3].Name); string(node.Data) != "cat" || node.Stat.EphemeralOwner == 0 || err != nil {
		t.Errorf("own node has %q, %+v, %v", node.Data, node.Stat, err)
	}
}

func TestGroupBadUse(t *testing.T) {
	w := trial.New(t)
	for _, path := range []string{"", "/", "g", "/g/"} {
		if _, err := presence.NewGroup(w.C, path, presence.Options{}); err == nil || !strings.Contains(err.Error(), "path") {
			t.Errorf("New(%q) = %v", path, err)
		}
	}
	if _, err := presence.NewGroup(w.C, "/g", presence.Options{Layout: 3}); err == nil || !strings.Contains(err.Error(), "Options.Layout") {
		t.Errorf("New = %v", err)
	}
	g := newGroup(w, w.C, presence.Options{})
	for _, id := range []string{"", "a/b", ".."} {
		if _, err := g.Join(w.Ctx, id, nil); err == nil {
			t.Errorf("Join(%q) went well", id)
		}
	}
	shallow := newGroup(w, w.C, presence.Options{Layout: presence.ShallowParty})
	if _, err := shallow.Join(w.Ctx, "a", []byte("data")); err == nil || !strings.Contains(err.Error(), "no data") {
		t.Errorf("Join = %v", err)
	}
	m := join(w, shallow, "a", "")
	if err := m.SetData(w.Ctx, nil); err == nil || !strings.Contains(err.Error(), "no data") {
		t.Errorf("SetData = %v", err)
	}
	w.Must(m.Release(w.Ctx))
	mustBe(t, m.Release(w.Ctx), recipes.ErrNotHeld)

	m = join(w, g, "a", "")
	_, err := newGroup(w, w.Look, presence.Options{}).Join(w.Ctx, "a", nil)
	mustBe(t, err, client.ErrNodeExists)
	w.Must(m.Release(w.Ctx))
	mustBe(t, m.SetData(w.Ctx, nil), recipes.ErrClosed)
	mustBe(t, m.Err(), recipes.ErrClosed)
	w.AwaitChildren("/g", 0)
}

// An ID is taken also if it is this client that has taken it, and its member stays.
func TestGroupJoinTwice(t *testing.T) {
	w := trial.New(t)
	g := newGroup(w, w.C, presence.Options{})
	first := join(w, g, "a", "first")
	_, err := g.Join(w.Ctx, "a", []byte("second"))
	mustBe(t, err, client.ErrNodeExists)
	w.Must(first.SetData(w.Ctx, []byte("still")))
	members, err := g.Members(w.Ctx)
	if w.Must(err); len(members) != 1 || string(members[0].Data) != "still" {
		t.Errorf("members are %+v", members)
	}
}

// One waits for the ID to be free, gives it up, and leaves nothing behind.
func TestGroupPatientJoin(t *testing.T) {
	w := trial.New(t)
	m := join(w, newGroup(w, w.Look, presence.Options{}), "a", "")
	g := newGroup(w, w.C, presence.Options{Patient: true})
	ctx, cancel := context.WithCancelCause(w.Ctx)
	cancel(errors.New("enough"))
	if _, err := g.Join(ctx, "a", nil); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("Join = %v", err)
	}
	joined := make(chan error)
	go func() {
		_, err := g.Join(w.Ctx, "a", nil)
		joined <- err
	}()
	w.Must(m.Release(w.Ctx))
	w.Must(<-joined)
}

func TestGroupForeignChildren(t *testing.T) {
	w := trial.New(t)
	_, err := settle.CreateAll(w.Ctx, w.Look, "/g/foreign", nil, client.CreateOptions{})
	w.Must(err)
	for _, layout := range []presence.Layout{presence.Named, presence.ShallowParty} {
		g := newGroup(w, w.C, presence.Options{Layout: layout})
		_, err = g.Members(w.Ctx)
		mustBe(t, err, recipes.ErrLayout)
		for _, err = range g.Follow(w.Ctx) {
		}
		mustBe(t, err, recipes.ErrLayout)
		if !strings.Contains(err.Error(), `"foreign"`) {
			t.Errorf("the error does not name the child: %v", err)
		}
	}
}

func TestGroupACLs(t *testing.T) {
	w := trial.New(t)
	_, err := w.Look.Create(w.Ctx, "/g", nil, client.CreateOptions{ACL: client.ReadACL()})
	w.Must(err)
	_, err = newGroup(w, w.C, presence.Options{}).Join(w.Ctx, "a", nil)
	mustBe(t, err, client.ErrNoAuth)
	if !strings.Contains(err.Error(), "/g/a") {
		t.Errorf("error is %v", err)
	}
	_, err = w.Look.Create(w.Ctx, "/h", nil, client.CreateOptions{ACL: []client.ACL{client.DigestACL(client.PermAll, "ann", "pw")}})
	w.Must(err)
	h, err := presence.NewGroup(w.C, "/h", presence.Options{})
	w.Must(err)
	_, err = h.Members(w.Ctx)
	mustBe(t, err, client.ErrNoAuth)
	for _, err = range h.Follow(w.Ctx) {
	}
	mustBe(t, err, client.ErrNoAuth)
}

func TestGroupFollowEnds(t *testing.T) {
	w := trial.New(t)
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	g := newGroup(w, w.C, presence.Options{})
	var err error
	for _, err = range g.Follow(ctx) {
		cancel()
	}
	mustBe(t, err, context.Canceled)
	id := w.C.Session().ID()
	for _, err = range g.Follow(w.Ctx) {
		if err == nil {
			w.Proxy.ExpireSession(id)
		}
	}
	mustBe(t, err, recipes.ErrLost)
	mustBe(t, err, client.ErrSessionExpired)
}

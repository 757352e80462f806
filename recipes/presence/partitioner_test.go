package presence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/presence"
)

var four = []string{"q1", "q2", "q3", "q4"}

// member is a Partitioner that runs.
type member struct {
	*presence.Partitioner
	end  context.CancelFunc
	done chan struct{}
	err  error // once done
}

// idle is work that waits for its end.
func idle(ctx context.Context, _ *presence.Partition) { <-ctx.Done() }

func run(w *trial.World, c *client.Client, id string, work func(context.Context, *presence.Partition)) *member {
	w.Helper()
	p, err := presence.NewPartitioner(c, "/p", four, presence.PartitionerOptions{ID: id})
	w.Must(err)
	ctx, end := context.WithCancel(w.Ctx)
	m := &member{p, end, make(chan struct{}), nil}
	go func() {
		defer close(m.done)
		m.err = p.Run(ctx, work)
	}()
	w.Cleanup(func() { m.stop() })
	return m
}

func (m *member) stop() error {
	m.end()
	<-m.done
	return m.err
}

// await waits until the member is as fits says.
func (m *member) await(w *trial.World, what string, fits func(s presence.PartitionerState) bool) presence.PartitionerState {
	w.Helper()
	var last presence.PartitionerState
	for s, err := range m.Follow(w.Ctx) {
		if err != nil {
			w.Fatalf("%s is %+v, not %s: %v", m.ID(), last, what, err)
		}
		if last = s; fits(s) {
			break
		}
	}
	return last
}

// acquired waits until the member has what is its own among n members.
func (m *member) acquired(w *trial.World, n int) string {
	w.Helper()
	s := m.await(w, "acquired", func(s presence.PartitionerState) bool {
		return s.Phase == presence.Acquired && len(s.Members) == n
	})
	return strings.Join(s.Owned, " ")
}

func TestPartitionerEven(t *testing.T) {
	for _, c := range []struct {
		id, members, want string
	}{
		{"a", "a", "q1 q2 q3 q4"},
		{"a", "a b", "q1 q3"}, {"b", "a b", "q2 q4"},
		{"a", "a b c", "q1 q4"}, {"b", "a b c", "q2"}, {"c", "a b c", "q3"},
		{"e", "a b c d e", ""}, {"x", "a b", ""},
	} {
		got := presence.Even(c.id, strings.Fields(c.members), four)
		if strings.Join(got, " ") != c.want {
			t.Errorf("of %s %s has %q, want %q", c.members, c.id, got, c.want)
		}
	}
}

// Members come, share, and go: one in order, one dead.
func TestPartitionerMembersComeAndGo(t *testing.T) {
	w := trial.New(t)
	a := run(w, w.Look, "a", idle)
	if got := a.acquired(w, 1); got != "q1 q2 q3 q4" {
		t.Errorf("alone a has %q", got)
	}
	b := run(w, w.Other(), "b", idle)
	c := run(w, w.C, "c", idle)
	if got := a.acquired(w, 3) + ", " + b.acquired(w, 3) + ", " + c.acquired(w, 3); got != "q1 q4, q2, q3" {
		t.Errorf("three have %q", got)
	}
	mustBe(t, b.stop(), context.Canceled)
	if got := a.acquired(w, 2) + ", " + c.acquired(w, 2); got != "q1 q3, q2 q4" {
		t.Errorf("two have %q", got)
	}
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	<-c.done
	mustBe(t, c.err, recipes.ErrLost)
	if s := c.State(); s.Phase != presence.Failed || !errors.Is(s.Err, recipes.ErrLost) || len(s.Owned) != 0 {
		t.Errorf("state is %+v", s)
	}
	if got := a.acquired(w, 1); got != "q1 q2 q3 q4" {
		t.Errorf("alone a has %q", got)
	}
	mustBe(t, a.stop(), context.Canceled)
	if s := a.State(); s.Phase != presence.Stopped || len(s.Members)+len(s.Assigned)+len(s.Owned) != 0 {
		t.Errorf("state is %+v", s)
	}
	for _, dir := range []string{"/p/party", "/p/locks/q1", "/p/locks/q2", "/p/locks/q3", "/p/locks/q4"} {
		if got := w.AwaitChildren(dir, 0); len(got) != 0 {
			t.Errorf("%s has %q", dir, got)
		}
	}
}

// What stays with a member is not interrupted; what goes is another's only when the work
// has returned.
func TestPartitionerReleasing(t *testing.T) {
	w := trial.New(t)
	var mu sync.Mutex
	ended := map[string]error{}
	let := make(chan struct{})
	a := run(w, w.Look, "a", func(ctx context.Context, own *presence.Partition) {
		<-ctx.Done()
		mu.Lock()
		ended[own.Name()] = context.Cause(ctx)
		mu.Unlock()
		<-let
		if err := own.Err(); err != nil {
			t.Errorf("%s is another one's while the work goes on: %v", own.Name(), err)
		}
	})
	a.acquired(w, 1)
	b := run(w, w.C, "b", idle)
	s := a.await(w, "releasing", func(s presence.PartitionerState) bool { return s.Phase == presence.Releasing })
	if len(s.Owned) != 4 || !slices.Equal(s.Assigned, []string{"q1", "q3"}) {
		t.Errorf("a is %+v", s)
	}
	s = b.await(w, "allocating", func(s presence.PartitionerState) bool { return len(s.Members) == 2 })
	if s.Phase != presence.Allocating || len(s.Owned) != 0 || !slices.Equal(s.Assigned, []string{"q2", "q4"}) {
		t.Errorf("b is %+v", s)
	}
	w.AwaitChildren("/p/locks/q2", 2) // b waits behind a
	w.AwaitChildren("/p/locks/q4", 2)
	close(let)
	if got := a.acquired(w, 2) + ", " + b.acquired(w, 2); got != "q1 q3, q2 q4" {
		t.Errorf("they have %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ended) != 2 || ended["q2"] == nil || ended["q4"] == nil || errors.Is(ended["q2"], recipes.ErrLost) {
		t.Errorf("work that has ended is %v", ended)
	}
}

// The token grows with each owner, and what is guarded by an owner of the past isn't
// done.
func TestPartitionerTokenAndGuard(t *testing.T) {
	w := trial.New(t)
	_, err := w.Look.Create(w.Ctx, "/data", nil, client.CreateOptions{})
	w.Must(err)
	owners := make(chan *presence.Partition, 100)
	tell := func(ctx context.Context, own *presence.Partition) {
		if own.Name() == "q2" {
			owners <- own
		}
		<-ctx.Done()
	}
	other := w.Other()
	a := run(w, other, "a", tell)
	first := <-owners
	w.Must(first.Err())
	_, err = other.Multi(w.Ctx, first.Guard(client.SetOp("/data", []byte("1"), 0))...)
	w.Must(err)
	b := run(w, w.C, "b", tell)
	second := <-owners
	if second.Token() <= first.Token() {
		t.Errorf("tokens are %v, then %v", first.Token(), second.Token())
	}
	if first.Err() == nil {
		t.Error("the first owner doesn't know")
	}
	_, err = other.Multi(w.Ctx, first.Guard(client.SetOp("/data", []byte("2"), 1))...)
	mustBe(t, err, client.ErrNoNode)
	mustBe(t, a.stop(), context.Canceled)
	mustBe(t, b.stop(), context.Canceled)
}

// A member whose session ends loses its partitions, and joins again with the next one.
func TestPartitionerMemberComesBack(t *testing.T) {
	w := trial.New(t)
	c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
	causes := make(chan error, 100)
	a := run(w, c, "a", func(ctx context.Context, _ *presence.Partition) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
	})
	a.acquired(w, 1)
	id := c.Session().ID()
	w.Proxy.ExpireSession(id)
	for range four {
		mustBe(t, <-causes, recipes.ErrLost)
	}
	if got := a.acquired(w, 1); got != "q1 q2 q3 q4" {
		t.Errorf("a has %q", got)
	}
}

// A change of the members costs a member that stays an event and two small reads for the member
// that has come, and nothing for partitions that stay; a partition that goes costs the delete
// of its node and the event of that, and one that comes at most one wake-up.
func TestPartitionerTrace(t *testing.T) {
	w := trial.New(t)
	a := run(w, w.Look, "a", idle)
	a.acquired(w, 1)
	rec := w.Record()
	b := run(w, w.C, "b", idle)
	b.acquired(w, 2)
	a.acquired(w, 2)
	if got := count(w.Trace(rec), "event NodeDeleted /p/locks"); got > 2 {
		t.Errorf("to get two partitions b was woken %d times", got)
	}
	third := run(w, w.Other(), "x", idle) // b keeps q2, and q4 goes to a
	third.acquired(w, 3)
	a.acquired(w, 3)
	b.acquired(w, 3)
	_, err := w.C.Exists(w.Ctx, "/end") // what was asked for before is recorded
	w.Must(err)
	all := w.Trace(rec)
	for _, c := range []struct {
		what string
		want int
	}{{"event NodeCreated /p/party/", 1}, {"event NodeDeleted /p/locks/q4/", 1}, {"event", 2}, {"delete /p/locks/q4/", 1}, {"getData /p/party", 1}, {"exists /p/party", 1}, {"getChildren", 0}, {"create", 0}} {
		if got := count(all, c.what); got != c.want {
			t.Errorf("%d times %q, want %d:\n%q", got, c.what, c.want, all)
		}
	}
}

func count(lines []string, prefix string) (n int) {
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

func TestPartitionerOwnAssign(t *testing.T) {
	w := trial.New(t)
	p, err := presence.NewPartitioner(w.C, "/p", four, presence.PartitionerOptions{Assign: func(_ string, _, partitions []string) []string {
		return append(partitions[:1], "unknown")
	}})
	w.Must(err)
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	err = p.Run(ctx, func(_ context.Context, own *presence.Partition) {
		if s := p.State(); own.Name() != "q1" || !slices.Equal(s.Assigned, []string{"q1"}) || !slices.Equal(s.Members, []string{p.ID()}) {
			t.Errorf("owns %s, state is %+v", own.Name(), s)
		}
		cancel()
	})
	mustBe(t, err, context.Canceled)
}

func TestPartitionerBadUse(t *testing.T) {
	w := trial.New(t)
	for _, path := range []string{"", "p", "/p/"} {
		if _, err := presence.NewPartitioner(w.C, path, four, presence.PartitionerOptions{}); err == nil || !strings.Contains(err.Error(), "path") {
			t.Errorf("New(%q) = %v", path, err)
		}
	}
	for _, set := range [][]string{{""}, {"a/b"}, {"a", "b", "a"}} {
		if _, err := presence.NewPartitioner(w.C, "/p", set, presence.PartitionerOptions{}); err == nil || !strings.Contains(err.Error(), "partition") {
			t.Errorf("New of %q = %v", set, err)
		}
	}
	if _, err := presence.NewPartitioner(w.C, "/p", four, presence.PartitionerOptions{ID: "a/b"}); err == nil || !strings.Contains(err.Error(), "Options.ID") {
		t.Errorf("New = %v", err)
	}
	a := run(w, w.C, "a", idle)
	a.acquired(w, 1)
	if err := a.Run(w.Ctx, idle); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("second Run = %v", err)
	}
	mustBe(t, a.stop(), context.Canceled)
	b := run(w, w.C, "b", idle)
	b.acquired(w, 1)
	mustBe(t, b.stop(), context.Canceled)
	_, err := settle.CreateAll(w.Ctx, w.Look, "/p/locks/q1/foreign", nil, client.CreateOptions{})
	w.Must(err)
	c := run(w, w.C, "c", idle)
	<-c.done
	mustBe(t, c.err, recipes.ErrLayout)
	if s := c.State(); s.Phase != presence.Failed || s.Phase.String() != "failed" {
		t.Errorf("state is %+v", s)
	}
	if got := w.AwaitChildren("/p/party", 0); len(got) != 0 {
		t.Errorf("members are %q", got)
	}
}

func TestPartitionerACLs(t *testing.T) {
	w := trial.New(t)
	_, err := w.Look.Create(w.Ctx, "/p", nil, client.CreateOptions{ACL: client.ReadACL()})
	w.Must(err)
	a := run(w, w.C, "a", idle)
	<-a.done
	mustBe(t, a.err, client.ErrNoAuth)
	if !strings.Contains(fmt.Sprint(a.err), "/p/party") {
		t.Errorf("error is %v", a.err)
	}
}

// A member that was restarted has the ID of the one before, whose session is still alive: it
// waits for its partitions until that session has ended.
func TestPartitionerRestarted(t *testing.T) {
	w := trial.New(t)
	before := run(w, w.C, "a", idle)
	before.acquired(w, 1)
	after := run(w, w.Look, "a", idle)
	after.await(w, "allocating", func(s presence.PartitionerState) bool { return len(s.Assigned) == 4 })
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	if got := after.acquired(w, 1); got != "q1 q2 q3 q4" {
		t.Errorf("it has %q", got)
	}
}

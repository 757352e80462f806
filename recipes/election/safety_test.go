package election_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// A leader that is cut off has stopped to lead by the time that the next one begins: the
// servers end its session no sooner than it expects.
func TestContextEndsBeforeTheNextLeads(t *testing.T) {
	w := trial.New(t)
	c := w.Proxy.Client(t, func(o *client.Options) { o.Timeout = 10 * time.Second }).Namespace(w.Dir())
	a, err := election.NewLatch(c, "/e", election.Options{})
	w.Must(err)
	w.Must(a.Start())
	leadership := await(w, a)
	b := start(t, w.Look, "/e", election.Options{})
	reach(w, b, election.Standing)
	w.Proxy.Stall()
	next := await(w, b)
	if err := leadership.Err(); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("the next one leads, and the one before believes to lead still: %v", err)
	}
	<-leadership.Context().Done()
	if err := context.Cause(leadership.Context()); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("leadership ends with %v", err)
	}
	if next.Token() <= leadership.Token() {
		t.Errorf("tokens %v, %v", leadership.Token(), next.Token())
	}
	w.Proxy.Resume()
	if _, err := a.Await(w.Ctx); !errors.Is(err, client.ErrSessionExpired) {
		t.Errorf("await without a session = %v", err)
	}
	w.Must(a.Close(w.Ctx))
}

// A latch whose node somebody deletes, or whose session is renewed, joins again.
func TestLatchJoinsAgain(t *testing.T) {
	for _, how := range []string{"its session ends", "its node is deleted"} {
		t.Run(how, func(t *testing.T) {
			w := trial.New(t)
			c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
			l := start(t, c, "/e", election.Options{Options: hold.Options{Data: []byte("a")}})
			first := await(w, l)
			w.Must(first.Acknowledge(w.Ctx, nil))
			if how == "its session ends" {
				id := c.Session().ID()
				w.Proxy.ExpireSession(id)
			} else {
				w.Must(w.Look.Delete(w.Ctx, first.Path(), client.AnyVersion))
			}
			<-first.Context().Done()
			if err := first.Err(); !errors.Is(err, recipes.ErrLost) {
				t.Errorf("error of who was deposed = %v", err)
			}
			if err := first.Acknowledge(w.Ctx, nil); !errors.Is(err, recipes.ErrLost) {
				t.Errorf("acknowledgement of who was deposed = %v", err)
			}
			second := await(w, l)
			if second.Token() <= first.Token() {
				t.Errorf("tokens %v, %v", first.Token(), second.Token())
			}
			w.AwaitChildren("/e-acknowledged", 0)
			if leader, ok, err := l.Election().Leader(w.Ctx); err != nil || !ok || leader.Acknowledged || leader.Token != second.Token() {
				t.Errorf("leader is %+v, %v, %v", leader, ok, err)
			}
			if err := first.Release(w.Ctx); !errors.Is(err, recipes.ErrLost) {
				t.Errorf("release of who was deposed = %v", err)
			}
			if err := second.Err(); err != nil {
				t.Errorf("it has taken the second leadership: %v", err)
			}
		})
	}
}

// That somebody leads, and that it has said so, are two things; the acknowledgement of a
// leader does not count for the next one, though it is there still.
func TestAcknowledgement(t *testing.T) {
	w := trial.New(t)
	e, err := election.New(w.Look, "/e", election.Options{Layout: election.ElectionSupport})
	w.Must(err)
	if _, ok, err := e.Leader(w.Ctx); ok || err != nil {
		t.Errorf("leader of nobody = %v, %v", ok, err)
	}
	l := start(t, w.C, "/e", election.Options{Options: hold.Options{Data: []byte("a")}, Layout: election.ElectionSupport})
	first := await(w, l)
	leader, ok, err := e.Leader(w.Ctx)
	if err != nil || !ok || string(leader.Data) != "a" || leader.Acknowledged {
		t.Errorf("leader is %+v, %v, %v", leader, ok, err)
	}
	for _, say := range []string{"loading", "ready"} {
		w.Must(first.Acknowledge(w.Ctx, []byte(say)))
		leader, err := e.WaitAcknowledged(w.Ctx)
		if err != nil || string(leader.Acknowledgement) != say || leader.Token != first.Token() || leader.Path != first.Path() {
			t.Errorf("leader is %+v, %v", leader, err)
		}
	}
	// The same name, another node: as if the path had been deleted and created again.
	ack, err := w.Look.Get(w.Ctx, "/e-acknowledged/n_0000000000")
	w.Must(err)
	w.Must(first.Release(w.Ctx))
	w.Must(l.Close(w.Ctx))
	_, err = tree.Delete(w.Ctx, w.Look, "/e", tree.DeleteOptions{})
	w.Must(err)
	l = start(t, w.C, "/e", election.Options{Options: hold.Options{Data: []byte("b")}, Layout: election.ElectionSupport})
	second := await(w, l)
	if second.Path() != first.Path() {
		t.Fatalf("paths %s, %s", first.Path(), second.Path())
	}
	_, err = settle.CreateAll(w.Ctx, w.Look, "/e-acknowledged/n_0000000000", ack.Data, client.CreateOptions{Mode: client.Ephemeral})
	w.Must(err)
	leader, ok, err = e.Leader(w.Ctx)
	if err != nil || !ok || string(leader.Data) != "b" || leader.Acknowledged {
		t.Errorf("leader is %+v, %v, %v", leader, ok, err)
	}
	w.Must(w.Look.Delete(w.Ctx, "/e-acknowledged/n_0000000000", client.AnyVersion))
	w.Must(second.Acknowledge(w.Ctx, nil))
	if leader, err := e.WaitAcknowledged(w.Ctx); err != nil || string(leader.Data) != "b" {
		t.Errorf("leader is %+v, %v", leader, err)
	}
	ended, cancel := context.WithCancelCause(w.Ctx)
	enough := errors.New("enough")
	cancel(enough)
	w.Must(second.Release(w.Ctx))
	if _, err := e.WaitAcknowledged(ended); !errors.Is(err, enough) {
		t.Errorf("wait with a context that has ended = %v", err)
	}
}

// A guard refuses once leadership is lost, also for changes outside the election's path.
func TestGuard(t *testing.T) {
	w := trial.New(t)
	l := start(t, w.C, "/e", election.Options{})
	leadership := await(w, l)
	_, err := w.C.Multi(w.Ctx, leadership.Guard(client.CreateOp("/a", nil, client.CreateOptions{}))...)
	w.Must(err)
	w.Must(w.Look.Delete(w.Ctx, leadership.Path(), client.AnyVersion))
	_, err = w.C.Multi(w.Ctx, leadership.Guard(client.CreateOp("/b", nil, client.CreateOptions{}))...)
	if !errors.Is(err, client.ErrNoNode) {
		t.Errorf("guarded change of who was deposed = %v", err)
	}
}

// An acknowledgement that is under way when the leader releases is deleted: the first one
// takes longest, as its parent does not exist yet.
func TestAcknowledgeWhileReleasing(t *testing.T) {
	w := trial.New(t)
	for i := range 10 {
		path := fmt.Sprintf("/e%d", i)
		l := start(t, w.C, path, election.Options{})
		leadership := await(w, l)
		acknowledged := make(chan error, 1)
		go func() { acknowledged <- leadership.Acknowledge(w.Ctx, nil) }()
		w.Must(w.Proxy.AwaitRequests(w.Ctx, jute.OpCreate, i+1))
		w.Must(leadership.Release(w.Ctx))
		if err := <-acknowledged; err != nil && !errors.Is(err, recipes.ErrNotHeld) {
			t.Errorf("acknowledge = %v", err)
		}
		w.Must(l.Close(w.Ctx))
		if names := w.Children(path + "-acknowledged"); len(names) > 0 {
			t.Errorf("there are %q left", names)
		}
	}
}

// With an anonymous layout, and a path that was deleted and created again, the acknowledgement
// of the next leader may have the name of the last one's. It is not deleted.
func TestAcknowledgementOfALaterLeader(t *testing.T) {
	w := trial.New(t)
	o := election.Options{Options: hold.Options{Data: []byte("a")}, Layout: election.ElectionSupport}
	e, err := election.New(w.C, "/e", o)
	w.Must(err)
	ack := fmt.Appendf(nil, "0x%016x\nother", uint64(1)<<62)
	path := "/e-acknowledged/n_0000000000"
	err = e.Run(w.Ctx, func(ctx context.Context, l *election.Leadership) error {
		w.Must(l.Acknowledge(ctx, nil))
		_, err := w.Look.Set(w.Ctx, path, ack, client.AnyVersion) // as if it had been created again
		w.Must(err)
		if err := l.Acknowledge(ctx, nil); !errors.Is(err, recipes.ErrLost) {
			t.Errorf("acknowledge in place of a later leader = %v", err)
		}
		return nil
	})
	w.Must(err)
	if node, err := w.Look.Get(w.Ctx, path); err != nil || string(node.Data) != string(ack) {
		t.Errorf("the later leader's acknowledgement is %q, %v", node.Data, err)
	}
}

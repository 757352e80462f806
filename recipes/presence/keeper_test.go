package presence

import (
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// The servers still have the node of the session before: it is waited for, as by the
// time that it could be deleted it might be somebody else's.
func TestNodeNodeOfTheSessionBefore(t *testing.T) {
	w := trial.New(t)
	before := w.Other()
	_, err := before.Create(w.Ctx, "/a", []byte("1"), client.CreateOptions{Mode: client.Ephemeral})
	w.Must(err)
	n, err := NewNode(w.C, "/a", NodeOptions{})
	w.Must(err)
	n.want, n.asked, n.started = []byte("2"), 1, true
	k := newKeeper(n)
	id := before.Session().ID()
	k.tried = []client.SessionID{id}
	go func() {
		defer close(n.done)
		n.end(k.run(), k.left)
	}()
	for s, err := range n.Follow(w.Ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Err != nil && !s.There {
			w.Must(before.Close(w.Ctx))
		}
		if s.There {
			break
		}
	}
	node, err := w.Look.Get(w.Ctx, "/a")
	ours := w.C.Session().ID()
	if string(node.Data) != "2" || node.Stat.EphemeralOwner != ours {
		t.Errorf("the node is %q of session %v, %v", node.Data, node.Stat.EphemeralOwner, err)
	}
	w.Must(n.Close(w.Ctx))
	if _, err := w.Look.Get(w.Ctx, "/a"); !errors.Is(err, client.ErrNoNode) {
		t.Errorf("after Close: %v", err)
	}
}

// What the keeper comes to when there is another session already is not done there: by
// what it knows it would take the end of the session for a deletion, or a node that it
// makes for somebody else's.
func TestNodeNothingIsDoneInTheNextSession(t *testing.T) {
	w := trial.New(t)
	c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
	n, err := NewNode(c, "/a", NodeOptions{EndIfDeleted: true})
	w.Must(err)
	n.want, n.asked = []byte("1"), 1
	k := newKeeper(n)
	k.begin()
	w.Must(k.step()) // makes the node
	w.Proxy.ExpireSession(k.session)
	for id := k.session; id == k.session || id == 0; id = c.Session().ID() {
		w.Must(c.WaitConnected(w.Ctx))
	}
	for what, prepare := range map[string]func(){
		"look": func() { k.unsure = true }, "watch": func() { k.watch = nil }, "create": func() { k.there = false },
	} {
		k.there, k.unsure = true, false
		prepare()
		if err := k.step(); !sessionOver(err) {
			t.Errorf("%s: %v, want that the session has ended", what, err)
		}
	}
	if got := w.Children("/"); len(got) != 0 {
		t.Errorf("nodes are %q", got)
	}
}

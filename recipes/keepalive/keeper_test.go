package keepalive

import (
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// The servers still have the node of the session before: it is waited for, as by the
// time that it could be deleted it might be somebody else's.
func TestNodeOfTheSessionBefore(t *testing.T) {
	w := trial.New(t)
	before := w.Other()
	_, err := before.Create(w.Ctx, "/a", []byte("1"), client.Ephemeral, nil)
	w.Must(err)
	n, err := New(w.C, "/a", Options{})
	w.Must(err)
	n.want, n.asked, n.started = []byte("2"), 1, true
	k := newKeeper(n)
	id, _ := before.Session()
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
	data, stat, err := w.Look.Get(w.Ctx, "/a")
	ours, _ := w.C.Session()
	if string(data) != "2" || stat.EphemeralOwner != ours {
		t.Errorf("the node is %q of session %v, %v", data, stat.EphemeralOwner, err)
	}
	w.Must(n.Close(w.Ctx))
	if _, _, err := w.Look.Get(w.Ctx, "/a"); !errors.Is(err, client.ErrNoNode) {
		t.Errorf("after Close: %v", err)
	}
}

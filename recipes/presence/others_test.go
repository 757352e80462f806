package presence_test

import (
	"bytes"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/presence"
)

// A node that another Node of the same client keeps is somebody else's, too.
func TestNodeTwoNodesOfOneClient(t *testing.T) {
	w := trial.New(t)
	first := start(w, w.C, "/a", "first", presence.NodeOptions{})
	second := launch(w, w.C, "/a", "second", presence.NodeOptions{})
	mustBe(t, awaitEnd(w, second), client.ErrNodeExists)
	w.Must(second.Close(w.Ctx))
	if data, _ := read(w, "/a"); data != "first" {
		t.Errorf("data is %q", data)
	}

	patient := launch(w, w.C, "/a", "patient", presence.NodeOptions{Patient: true})
	for s, err := range patient.Follow(w.Ctx) {
		w.Must(err)
		if s.Err != nil {
			break // it waits
		}
		if s.There {
			t.Fatal("it has taken the other one's node for its own")
		}
	}
	w.Must(first.Close(w.Ctx))
	w.Must(patient.WaitThere(w.Ctx))
	if data, _ := read(w, "/a"); data != "patient" {
		t.Errorf("data is %q", data)
	}
}

// Data that the servers don't take are dropped also if the node has to be made with
// them: it comes back with those before.
func TestNodeRefusedDataWhileAway(t *testing.T) {
	w := trial.New(t)
	c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
	n := start(w, c, "/a", "good", presence.NodeOptions{})
	_, stat := read(w, "/a")
	w.Proxy.Refuse()
	cut := w.Proxy.CutBefore(zktest.Op(jute.OpSetData))
	w.Must(n.Post([]byte("lost")))
	<-cut.Done() // it can't look what there is
	w.Must(n.Post(bytes.Repeat([]byte("x"), client.DefaultMaxRequest+1)))
	w.Proxy.ExpireSession(stat.EphemeralOwner)
	w.Proxy.Accept()
	awaitAnother(w, "/a", stat.Czxid)
	if data, _ := read(w, "/a"); data != "good" {
		t.Errorf("data is %d bytes", len(data))
	}
	mustBe(t, n.Flush(w.Ctx), client.ErrBadArguments)
	w.Must(n.SetData(w.Ctx, []byte("better")))
	if data, _ := read(w, "/a"); data != "better" {
		t.Errorf("data is %q", data)
	}
}

// Data that were changed by somebody are looked at before they are replaced: a set is
// one of what there was when it was last seen.
func TestNodeTraceOfDataChangedByAnother(t *testing.T) {
	w := trial.New(t)
	rec := w.Record()
	n := start(w, w.C, "/a", "1", presence.NodeOptions{})
	awaitTrace(w, rec, "create2 /a", "getChildren2 /a watch")
	_, err := w.Look.Set(w.Ctx, "/a", []byte("theirs"), client.AnyVersion)
	w.Must(err)
	w.Must(n.SetData(w.Ctx, []byte("2")))
	awaitTrace(w, rec, "setData /a", "sync /a", "getData /a", "setData /a")
}

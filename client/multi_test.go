package client

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// A multi is sent with the paths of the servers, and its results are in the view's.
func TestMultiInNamespace(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a/app", Options{})
		conn := n.connect()
		ops := []Op{
			CreateOp("/s-", nil, CreateOptions{Mode: PersistentSequential}), CreateOp("/c", nil, CreateOptions{Mode: Container}), SetOp("/x", []byte("1"), 3), DeleteOp("/y", AnyVersion), CheckOp("/", 0),
		}
		f := c.Async().Multi(ops)
		r := conn.expect(jute.OpMulti)
		d := jute.NewDecoder(r.body)
		var q jute.MultiRequest
		if q.Decode(&d); d.Err() != nil {
			t.Fatal(d.Err())
		}
		var sent []string
		for _, op := range q.Ops {
			sent = append(sent, op.Type.String()+" "+op.Path)
			if isCreate(op.Type) && !reflect.DeepEqual(op.ACL, OpenACL()) {
				t.Errorf("%s with the ACL %v", op.Path, op.ACL)
			}
		}
		if want := []string{"create2 /app/s-", "createContainer /app/c", "setData /app/x", "delete /app/y", "check /app"}; !reflect.DeepEqual(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
		conn.reply(r, 5, &jute.MultiResponse{Results: []jute.MultiResult{
			{Type: jute.OpCreate2, Path: "/app/s-0000000007", Stat: Stat{Czxid: 5}}, {Type: jute.OpCreate2, Path: "/app/c"},
			{Type: jute.OpSetData, Stat: Stat{Version: 4}}, {Type: jute.OpDelete}, {Type: jute.OpCheck},
		}})
		got, err := f.Wait(bg)
		want := []OpResult{{Path: "/s-0000000007", Stat: Stat{Czxid: 5}}, {Path: "/c"}, {Stat: Stat{Version: 4}}, {}, {}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("results %+v, %v", got, err)
		}
	})
}

// A multi that failed names the operation that is to blame.
func TestMultiThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a/app", Options{})
		conn := n.connect()
		ops := []Op{SetOp("/x", nil, 1), CheckOp("/y", 7), DeleteOp("/z", 0)}
		f := c.Async().Multi(ops)
		clear(ops) // they are the caller's again
		fail := func(code jute.Code) jute.MultiResult { return jute.MultiResult{Type: jute.OpError, Err: code} }
		conn.reply(conn.expect(jute.OpMulti), 5, &jute.MultiResponse{Results: []jute.MultiResult{fail(0), fail(ErrBadVersion), fail(ErrRuntimeInconsistency)}})
		got, err := f.Wait(bg)
		me, ok := errors.AsType[*MultiError](err)
		if !ok || !errors.Is(err, ErrBadVersion) || IsAmbiguous(err) || me.Index != 1 || me.Path != "/y" || me.Op != jute.OpCheck {
			t.Fatalf("error %v", err)
		}
		if len(got) != 3 || got[0].Err != nil || got[1].Err != ErrBadVersion || got[2].Err != ErrRuntimeInconsistency {
			t.Errorf("results %+v", got)
		}
		if !strings.Contains(err.Error(), "operation 1, check /y") {
			t.Errorf("error %q", err)
		}
		for what, ops := range map[string][]Op{"bad path": {SetOp("/x", nil, 1), DeleteOp("/y/", 0)}, "no path": {{}}} {
			if _, err := c.Multi(bg, ops...); !errors.Is(err, ErrBadArguments) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if ops := conn.pending(); len(ops) != 0 { // and the connection is as good as before
			t.Errorf("sent %v", ops)
		}
	})
}

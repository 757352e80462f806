package replica

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/zab"
)

// TestBrokenNamesTheRequest: a request that can't be evaluated is named by its operation, and by its path if it has one.
func TestBrokenNamesTheRequest(t *testing.T) {
	multi := jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpDelete, Path: "/n", Version: -1}}}
	set := (&jute.SetDataRequest{Path: "/n", Version: -1}).Append(nil)
	for _, tt := range []struct {
		req  evaluate.Request
		want string
	}{
		{evaluate.Request{Op: jute.OpSetData, Body: set}, "setData /n"},
		{evaluate.Request{Op: jute.OpSetData, Body: set[:5]}, "setData"},
		{evaluate.Request{Op: jute.OpMulti, Body: multi.Append(nil)}, "multi"},
		{evaluate.Request{Op: jute.OpCloseSession}, "closeSession"},
	} {
		r := New(zab.New(zab.Options{ID: 1}, zab.Recovered{}), 0, Options{ID: 1})
		if r.breakEvaluator(&tt.req, "a reason"); r.Broken() != tt.want {
			t.Errorf("%v: %q, want %q", tt.req.Op, r.Broken(), tt.want)
		}
	}
}

package twopc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/twopc"
)

// history is one order of events: site a has voted to commit. After the reply to Decide's
// request number vote, site b votes. After the reply to request number later, something else
// happens, unless there is a decision by then.
type history struct {
	ephemeral   bool
	b           twopc.Outcome
	vote, later int
	what        string // "nothing", "abort" by somebody, or "expire": site a fails
}

// Whatever happens between two requests of Decide, it returns the recorded decision. That is
// to commit only if all sites have voted to commit, none had failed, and nobody had aborted.
func TestEveryOrder(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	// Before Decide waits for b's vote: the record twice, the list, and the votes of a and b,
	// the latter twice. Then b's vote, and the multi.
	const waits, ends = 5, 7
	n := 0
	for _, ephemeral := range []bool{false, true} {
		first := waits
		if ephemeral {
			first = 4 // Decide then waits for b to join
		}
		for vote := 1; vote <= first; vote++ {
			for _, b := range []twopc.Outcome{twopc.Commit, twopc.Abort} {
				for later := vote; later <= ends+2; later++ {
					for _, what := range []string{"nothing", "abort", "expire"} {
						if testing.Short() && (vote+later)%4 != 0 || what == "nothing" && later > vote {
							continue
						}
						n++
						checkOrder(w, fmt.Sprintf("/order/%d", n), history{ephemeral, b, vote, later, what})
					}
				}
			}
		}
	}
	t.Logf("%d orders", n)
}

func checkOrder(w *trial.World, path string, h history) {
	w.Helper()
	at := func(c *client.Client) *twopc.Transaction {
		tx, err := twopc.New(c, path, twopc.Options{})
		w.Must(err)
		return tx
	}
	other := at(w.Look)
	w.Must(other.Begin(w.Ctx, twopc.Plan{Sites: []string{"a", "b"}, Ephemeral: h.ephemeral}))
	a := w.Other()
	site, err := at(a).Join(w.Ctx, "a")
	w.Must(err)
	w.Must(site.Vote(w.Ctx, twopc.Commit))

	request, aborted := 0, false
	act := func() {
		if request == h.vote {
			b, err := other.Join(w.Ctx, "b")
			w.Must(err)
			w.Must(b.Vote(w.Ctx, h.b))
		}
		node, err := w.Look.Get(w.Ctx, path+"/decision")
		w.Must(err)
		if request != h.later || h.what == "nothing" || strings.Contains(string(node.Data), "outcome") {
			return
		}
		if h.what == "abort" {
			_, err := other.Abort(w.Ctx, "from outside")
			w.Must(err)
		} else {
			w.Must(a.Close(w.Ctx))
		}
		aborted = h.what == "abort" || h.ephemeral
	}
	c := w.Other(func(o *client.Options) {
		o.Trace.Request = func(_ context.Context, r client.TracedRequest) {
			if r.Path != "" {
				request++
				act()
			}
		}
	})
	got, err := at(c).Decide(w.Ctx)
	w.Must(err)
	recorded, err := other.Await(w.Ctx)
	w.Must(err)
	want := h.b
	if aborted {
		want = twopc.Abort
	}
	if got != recorded || got.Outcome != want {
		w.Errorf("%+v: Decide returns %v, recorded is %v, want %s", h, got, recorded, want)
	}
	w.Must(c.Close(w.Ctx))
	w.Must(a.Close(w.Ctx))
}

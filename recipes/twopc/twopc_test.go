package twopc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/twopc"
)

const path = "/tx/42"

func transaction(t testing.TB, c *client.Client) *twopc.Transaction {
	t.Helper()
	tx, err := twopc.New(c, path, twopc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

type result struct {
	twopc.Decision
	err error
}

// background calls Decide or Await in another goroutine.
func background(ctx context.Context, fn func(context.Context) (twopc.Decision, error)) <-chan result {
	done := make(chan result, 1)
	go func() {
		d, err := fn(ctx)
		done <- result{d, err}
	}()
	return done
}

var mustBe = trial.MustBe

func mustDecide(t testing.TB, done <-chan result, want twopc.Outcome) twopc.Decision {
	t.Helper()
	r := <-done
	if r.err != nil || r.Outcome != want {
		t.Errorf("decision is %q (%s), %v, want %q", r.Outcome, r.Reason, r.err, want)
	}
	return r.Decision
}

func join(w *trial.World, c *client.Client, name string) *twopc.Site {
	w.Helper()
	s, err := transaction(w, c).Join(w.Ctx, name)
	w.Must(err)
	return s
}

// kinds runs fn with both kinds of sites.
func kinds(t *testing.T, fn func(w *trial.World, ephemeral bool)) {
	for _, ephemeral := range []bool{false, true} {
		name := map[bool]string{false: "persistent", true: "ephemeral"}[ephemeral]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(trial.New(t), ephemeral)
		})
	}
}

// The coordinator decides, and all sites learn the decision. The transaction's data is in its
// node.
func TestCoordinator(t *testing.T) {
	t.Parallel()
	kinds(t, func(w *trial.World, ephemeral bool) {
		tx := transaction(w, w.C)
		w.Must(tx.Begin(w.Ctx, twopc.Plan{Sites: []string{"a", "b"}, Data: []byte("give"), Ephemeral: ephemeral}))
		decided := background(w.Ctx, tx.Decide)
		var awaited []<-chan result
		for _, name := range []string{"a", "b"} {
			c := w.Other()
			s := join(w, c, name)
			if string(s.Data()) != "give" {
				w.Errorf("site %s has the transaction %q", name, s.Data())
			}
			w.Must(s.Vote(w.Ctx, twopc.Commit))
			w.Must(s.Vote(w.Ctx, twopc.Commit)) // again is no error
			mustBe(w, s.Vote(w.Ctx, twopc.Abort), twopc.ErrVoted)
			awaited = append(awaited, background(w.Ctx, transaction(w, c).Await))
		}
		mustDecide(w, decided, twopc.Commit)
		for _, done := range awaited {
			mustDecide(w, done, twopc.Commit)
		}
		if d, err := transaction(w, w.Look).Abort(w.Ctx, "too late"); d.Outcome != twopc.Commit || err != nil {
			w.Errorf("abort of what is committed = %v, %v", d, err)
		}
		w.Must(tx.End(w.Ctx))
		w.Must(tx.End(w.Ctx))
		if names := w.Children("/tx"); len(names) != 0 {
			w.Errorf("left on the tree: %q", names)
		}
	})
}

// All sites call Decide; they learn the change in another way.
func TestPeers(t *testing.T) {
	t.Parallel()
	kinds(t, func(w *trial.World, ephemeral bool) {
		names := []string{"a", "b", "c"}
		w.Must(transaction(w, w.Look).Begin(w.Ctx, twopc.Plan{Sites: names, Ephemeral: ephemeral}))
		var decided []<-chan result
		for _, name := range names {
			c := w.Other()
			s := join(w, c, name)
			if s.Data() != nil {
				w.Errorf("site %s has the transaction %q", name, s.Data())
			}
			decided = append(decided, background(w.Ctx, transaction(w, c).Decide))
			w.Must(s.Vote(w.Ctx, twopc.Commit))
		}
		for _, done := range decided {
			mustDecide(w, done, twopc.Commit)
		}
	})
}

// One vote to abort is sufficient, though others are missing, and no commit follows.
func TestEarlyAbort(t *testing.T) {
	t.Parallel()
	kinds(t, func(w *trial.World, ephemeral bool) {
		tx := transaction(w, w.Look)
		w.Must(tx.Begin(w.Ctx, twopc.Plan{Sites: []string{"a", "b", "c"}, Ephemeral: ephemeral}))
		awaited := background(w.Ctx, tx.Await)
		decided := background(w.Ctx, transaction(w, w.C).Decide)
		a, b := join(w, w.Other(), "a"), join(w, w.Other(), "b")
		w.Must(a.Vote(w.Ctx, twopc.Commit))
		w.Must(b.Vote(w.Ctx, twopc.Abort))
		w.Must(b.Vote(w.Ctx, twopc.Abort))
		mustBe(w, b.Vote(w.Ctx, twopc.Commit), twopc.ErrVoted)
		if d := mustDecide(w, awaited, twopc.Abort); !strings.Contains(d.Reason, `"b"`) {
			w.Errorf("the reason is %q, want one that names site b", d.Reason)
		}
		mustDecide(w, decided, twopc.Abort)
		c := join(w, w.Other(), "c")
		w.Must(c.Vote(w.Ctx, twopc.Commit)) // too late to have an effect
		w.Must(c.Vote(w.Ctx, twopc.Commit))
		d, err := transaction(w, w.C).Decide(w.Ctx)
		if d.Outcome != twopc.Abort || err != nil {
			w.Errorf("decision has become %v, %v", d, err)
		}
	})
}

// If an ephemeral site fails before the decision, the transaction is aborted, whatever the
// site has voted, and whether or not another program was watching.
func TestFailedSite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		votes, watching bool
	}{{"before its vote", false, true}, {"after its vote", true, true}, {"unseen", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			tx := transaction(t, w.Look)
			w.Must(tx.Begin(w.Ctx, twopc.Plan{Sites: []string{"a", "b"}, Ephemeral: true}))
			var decided <-chan result
			if c.watching {
				decided = background(w.Ctx, tx.Decide)
			}
			b := join(w, w.Other(), "b")
			w.Must(b.Vote(w.Ctx, twopc.Commit))
			a := join(w, w.C, "a")
			if c.votes && !c.watching {
				w.Must(a.Vote(w.Ctx, twopc.Commit))
			}
			id := w.C.Session().ID()
			w.Proxy.ExpireSession(id)
			if !c.watching {
				decided = background(w.Ctx, tx.Decide)
			}
			mustDecide(t, decided, twopc.Abort)
			mustBe(t, a.Vote(w.Ctx, twopc.Commit), recipes.ErrLost)
		})
	}
}

// A decision stays when the votes of ephemeral sites are gone.
func TestDecisionOutlastsSites(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	tx := transaction(t, w.Look)
	w.Must(tx.Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}, Ephemeral: true}))
	w.Must(join(w, w.C, "a").Vote(w.Ctx, twopc.Commit))
	mustDecide(t, background(w.Ctx, tx.Decide), twopc.Commit)
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	mustDecide(t, background(w.Ctx, tx.Decide), twopc.Commit)
	mustDecide(t, background(w.Ctx, tx.Await), twopc.Commit)
}

// The coordinator dies: sites in Await are blocked until another program decides or aborts.
func TestCoordinatorDies(t *testing.T) {
	t.Parallel()
	for name, recover := range map[string]func(*twopc.Transaction, context.Context) (twopc.Decision, error){
		"commit": (*twopc.Transaction).Decide,
		"abort": func(tx *twopc.Transaction, ctx context.Context) (twopc.Decision, error) {
			return tx.Abort(ctx, "nobody is there")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			w.Must(transaction(t, w.C).Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}}))
			dying := background(w.Ctx, transaction(t, w.C).Decide)
			site := w.Other()
			awaited := background(w.Ctx, transaction(t, site).Await)
			s := join(w, site, "a")
			id := w.C.Session().ID()
			w.Proxy.ExpireSession(id)
			mustBe(t, (<-dying).err, client.ErrSessionExpired)
			w.Must(s.Vote(w.Ctx, twopc.Commit))
			d, err := recover(transaction(t, site), w.Ctx)
			if err != nil || string(d.Outcome) != name {
				t.Errorf("recovery = %v, %v", d, err)
			}
			mustDecide(t, awaited, twopc.Outcome(name))
		})
	}
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	kinds(t, func(w *trial.World, ephemeral bool) {
		tx := transaction(w, w.C)
		w.Must(tx.Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}, Ephemeral: ephemeral}))
		rec := w.Record()
		for i, fn := range []func(context.Context) (twopc.Decision, error){tx.Decide, tx.Await} {
			why := errors.New("no more time")
			ctx, cancel := context.WithCancelCause(w.Ctx)
			done := background(ctx, fn)
			w.Must(rec.Await(w.Ctx, "watches", func(zktest.Traced) bool {
				return 2+i == len(slices.DeleteFunc(rec.All(), func(r zktest.Traced) bool { return !r.Watch }))
			}))
			_, err := w.C.Exists(w.Ctx, "/") // its reply comes after those that set the watches
			w.Must(err)
			cancel(why)
			mustBe(w, (<-done).err, why)
		}
		for _, p := range []string{path, path + "/decision", path + "/site-a"} {
			mustBe(w, w.C.Session().CheckWatches(w.Ctx, p, client.AnyWatches), client.ErrNoWatcher)
		}
	})
}

func TestBadUse(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	for _, path := range []string{"tx", "/", "/tx/"} {
		if _, err := twopc.New(w.C, path, twopc.Options{}); err == nil || !strings.Contains(err.Error(), "path") {
			t.Errorf("New(%q) = %v, want an error that names the path", path, err)
		}
	}
	if _, err := twopc.New(nil, path, twopc.Options{}); err == nil {
		t.Error("New without a client has no error")
	}
	tx := transaction(t, w.C)
	for _, sites := range [][]string{nil, {""}, {"a/b"}, {"a", "b", "a"}} {
		if err := tx.Begin(w.Ctx, twopc.Plan{Sites: sites}); err == nil || !strings.Contains(err.Error(), "Sites") {
			t.Errorf("Begin with the sites %q = %v, want an error that names Sites", sites, err)
		}
	}
	_, err := tx.Join(w.Ctx, "a")
	mustBe(t, err, client.ErrNoNode)
	_, err = tx.Await(w.Ctx)
	mustBe(t, err, client.ErrNoNode)
	_, err = tx.Decide(w.Ctx)
	mustBe(t, err, client.ErrNoNode)
	_, err = tx.Abort(w.Ctx, "")
	mustBe(t, err, client.ErrNoNode)

	w.Must(tx.Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}, Ephemeral: true}))
	mustBe(t, tx.Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}}), client.ErrNodeExists)
	mustBe(t, tx.End(w.Ctx), twopc.ErrUndecided)
	_, err = tx.Join(w.Ctx, "z")
	mustBe(t, err, client.ErrBadArguments)
	a := join(w, w.Other(), "a")
	_, err = tx.Join(w.Ctx, "a")
	mustBe(t, err, client.ErrNodeExists)
	mustBe(t, a.Vote(w.Ctx, "perhaps"), client.ErrBadArguments)
	_, err = w.Look.Create(w.Ctx, path+"/lock", nil, client.CreateOptions{})
	w.Must(err)
	_, err = tx.Decide(w.Ctx)
	mustBe(t, err, recipes.ErrLayout)
	w.Must(w.Look.Delete(w.Ctx, path+"/lock", 0))
}

// If another program has damaged the nodes, that is an error and leads to no decision.
func TestDisturbedLayout(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	tx := transaction(t, w.C)
	w.Must(tx.Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}}))
	_, err := w.Look.Set(w.Ctx, path+"/site-a", []byte("perhaps"), 0)
	w.Must(err)
	_, err = tx.Decide(w.Ctx)
	mustBe(t, err, recipes.ErrLayout)
	w.Must(w.Look.Delete(w.Ctx, path+"/site-a", 1))
	_, err = tx.Decide(w.Ctx)
	mustBe(t, err, recipes.ErrLayout)
	_, err = w.Look.Set(w.Ctx, path+"/decision", []byte("?"), 0)
	w.Must(err)
	_, err = tx.Await(w.Ctx)
	mustBe(t, err, recipes.ErrLayout)
}

func TestForbidden(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	own := w.Other(func(o *client.Options) { o.Auth = []client.Auth{{Scheme: "digest", Data: []byte("me:secret")}} })
	tx, err := twopc.New(own, path, twopc.Options{ACL: client.CreatorACL()})
	w.Must(err)
	w.Must(tx.Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}}))
	_, err = transaction(t, w.C).Join(w.Ctx, "a")
	mustBe(t, err, client.ErrNoAuth)
	_, err = transaction(t, w.C).Abort(w.Ctx, "")
	mustBe(t, err, client.ErrNoAuth)
}

// A vote to abort fails if the transaction is committed.
func TestVoteAfterDecision(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	tx := transaction(t, w.Look)
	w.Must(tx.Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}}))
	w.Must(join(w, w.C, "a").Vote(w.Ctx, twopc.Commit))
	mustDecide(t, background(w.Ctx, tx.Decide), twopc.Commit)
	again := join(w, w.Other(), "a")
	w.Must(again.Vote(w.Ctx, twopc.Commit))
	mustBe(t, again.Vote(w.Ctx, twopc.Abort), twopc.ErrVoted)
}

// If the reply to Begin was lost and the ACL forbids reading the nodes, the error is ambiguous:
// it does not mean that another program has begun a transaction.
func TestBeginInDoubt(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	blind := client.OpenACL()
	blind[0].Perms &^= client.PermRead
	tx, err := twopc.New(w.C, path, twopc.Options{ACL: blind})
	w.Must(err)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/tx", client.CreateOptions{}))
	w.Proxy.CutAfter(zktest.Op(jute.OpMulti))
	err = tx.Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}})
	mustBe(t, err, client.ErrNoAuth)
	if !client.IsAmbiguous(err) {
		t.Errorf("error is not ambiguous: %v", err)
	}
}

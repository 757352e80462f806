package settle_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

func create(t *testing.T, c *client.Client, paths ...string) {
	t.Helper()
	for _, path := range paths {
		_, err := c.Create(t.Context(), path, []byte(path), client.CreateOptions{})
		must(t, err)
	}
}

func TestDeleteIdempotentWhateverBreaks(t *testing.T) {
	everyBreak(t, func(b *breakage) { create(b.T, b.Look, "/a") }, func(ctx context.Context, b *breakage) {
		must(b.T, settle.Delete(ctx, b.C, "/a", 0, settle.DeleteOptions{}))
		if names := b.Children(ctx, "/"); len(names) > 0 {
			b.T.Fatalf("%v are left", names)
		}
	})
}

func TestDeleteIdempotentFailsLikeDelete(t *testing.T) {
	tests := []struct {
		name    string
		path    string
		version int32
		want    error
	}{
		{"no such node", "/none", client.AnyVersion, client.ErrNoNode},
		{"other version", "/a", 7, client.ErrBadVersion},
		{"has children", "/parent", client.AnyVersion, client.ErrNotEmpty},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			everyBreak(t, func(b *breakage) { create(b.T, b.Look, "/a", "/parent", "/parent/child") }, func(ctx context.Context, b *breakage) {
				err := settle.Delete(ctx, b.C, test.path, test.version, settle.DeleteOptions{})
				mustBe(b.T, err, test.want)
				if client.IsAmbiguous(err) {
					b.T.Fatalf("%v: it is known that it was not done", err)
				}
			})
		})
	}
}

// While the connection is broken the node is deleted, by us or by another client, and
// created again: the new one is not ours to delete.
func TestDeleteIdempotentSparesTheNodeThatCameLater(t *testing.T) {
	for _, where := range []string{"before", "after"} {
		t.Run(where, func(t *testing.T) {
			ctx := t.Context()
			srv := newWorld(t, 1)
			b := newBreakage(ctx, t, srv, srv.Client(t), "d")
			create(t, b.Look, "/a")
			b.Cut = b.BreakAt(where, zktest.Op(jute.OpDelete))
			b.P.Refuse()
			done := make(chan error)
			go func() { done <- settle.Delete(ctx, b.C, "/a", client.AnyVersion, settle.DeleteOptions{}) }()
			<-b.Cut.Done()
			if where == "before" {
				must(t, b.Look.Delete(ctx, "/a", client.AnyVersion))
			}
			create(t, b.Look, "/a")
			b.P.Accept()
			must(t, <-done)
			if names := b.Children(ctx, "/"); len(names) != 1 {
				t.Fatal("it deleted the node that somebody created later")
			}
		})
	}
}

// A caller that goes away at any point of a guaranteed delete finds it done later.
func TestDeleteGuaranteedGoesOnInTheBackground(t *testing.T) {
	everyBreak(t, func(b *breakage) { create(b.T, b.Look, "/a") }, func(ctx context.Context, b *breakage) {
		caller, leave := context.WithCancel(ctx)
		go func() {
			select {
			case <-b.Cut.Done():
			case <-caller.Done():
			}
			leave()
		}()
		err := settle.Delete(caller, b.C, "/a", client.AnyVersion, settle.DeleteOptions{Insist: true})
		if err != nil && caller.Err() == nil {
			b.T.Fatal(err)
		}
		leave()
		b.AwaitGone(ctx, "/")
	})
}

// A node whose path is its own forever needn't be looked at before it is deleted.
func TestDeleteOfAUniqueNodeTakesOneRequest(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t)
	protected, err := settle.Create(t.Context(), c, "/lock-", nil, settle.CreateOptions{Mode: client.EphemeralSequential, By: settle.ByGUID})
	must(t, err)
	unique, err := settle.Create(t.Context(), c, "/0d6a5c0be0b8-lock-", nil, settle.CreateOptions{Mode: client.EphemeralSequential, By: settle.ByPath})
	must(t, err)
	before := srv.Requests()
	must(t, settle.Delete(t.Context(), c, protected.Path, client.AnyVersion, settle.DeleteOptions{Insist: true}))
	must(t, settle.Delete(t.Context(), c, unique.Path, client.AnyVersion, settle.DeleteOptions{Insist: true, Unique: true}))
	if n := srv.Requests().Since(before).Total(); n != 2 {
		t.Errorf("two deletes took %d requests", n)
	}
	mustBe(t, settle.Delete(t.Context(), c, unique.Path, client.AnyVersion, settle.DeleteOptions{Insist: true, Unique: true}), client.ErrNoNode)
}

// That there is no node is not said by a server that lags behind.
func TestDeleteIdempotentSyncsBeforeItFindsNothing(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	rec := s.Record()
	mustBe(t, settle.Delete(t.Context(), c, "/a", client.AnyVersion, settle.DeleteOptions{}), client.ErrNoNode)
	var got []string
	for _, r := range rec.Take() {
		got = append(got, r.String())
	}
	if want := []string{"exists /a", "sync /a", "exists /a"}; !slices.Equal(got, want) {
		t.Errorf("it asks for %q, want %q", got, want)
	}
}

// The reply to the delete is lost: that the node has gone is not taken for an error.
func TestDeleteUniqueOutlastsALostReply(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t)
	unique, err := settle.Create(t.Context(), c, "/0d6a5c0be0b8-lock-", nil, settle.CreateOptions{Mode: client.EphemeralSequential, By: settle.ByPath})
	must(t, err)
	cut := srv.CutAfter(zktest.Op(jute.OpDelete))
	must(t, settle.Delete(t.Context(), c, unique.Path, client.AnyVersion, settle.DeleteOptions{Insist: true, Unique: true}))
	<-cut.Done()
}

// What can't succeed is not tried forever, and Close does not wait for it.
func TestDeleteGuaranteedEnds(t *testing.T) {
	ctx := t.Context()
	srv := newWorld(t, 1)
	b := newBreakage(ctx, t, srv, srv.Client(t), "d")
	mustBe(t, settle.Delete(ctx, b.C, "/none", client.AnyVersion, settle.DeleteOptions{Insist: true}), client.ErrNoNode)
	create(t, b.Look, "/a", "/a/b")
	mustBe(t, settle.Delete(ctx, b.C, "/a", client.AnyVersion, settle.DeleteOptions{Insist: true}), client.ErrNotEmpty)

	b.Cut = b.P.CutBefore(zktest.Any())
	b.P.Refuse()
	caller, leave := context.WithCancel(ctx)
	go func() {
		<-b.Cut.Done()
		leave()
	}()
	// Whether it sees the end of ctx or of the connection first is open.
	if err := settle.Delete(caller, b.C, "/a/b", client.AnyVersion, settle.DeleteOptions{Insist: true}); !errors.Is(err, context.Canceled) && !errors.Is(err, client.ErrConnectionLoss) {
		t.Errorf("error is %v, want that of the context or of the connection", err)
	}
	b.C.Close(ctx)
	mustBe(t, settle.Delete(ctx, b.C, "/a/b", client.AnyVersion, settle.DeleteOptions{Insist: true}), client.ErrClosed)
}

// The new session finishes what the old one has begun.
func TestDeleteGuaranteedAndTheEndOfTheSession(t *testing.T) {
	everyExpiry(t, true, func(ctx context.Context, b *breakage) {
		create(b.T, b.Look, "/a")
		err := settle.Delete(ctx, b.C, "/a", client.AnyVersion, settle.DeleteOptions{Insist: true})
		if err != nil {
			mustBe(b.T, err, client.ErrSessionExpired)
		}
		b.AwaitGone(ctx, "/")
	})
}

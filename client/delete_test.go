package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
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
	everyBreak(t, func(b *breakage) { create(b.t, b.look, "/a") }, func(ctx context.Context, b *breakage) {
		must(b.t, b.c.DeleteIdempotent(ctx, "/a", 0))
		if names := b.children(ctx, "/"); len(names) > 0 {
			b.t.Fatalf("%v are left", names)
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
			everyBreak(t, func(b *breakage) { create(b.t, b.look, "/a", "/parent", "/parent/child") }, func(ctx context.Context, b *breakage) {
				err := b.c.DeleteIdempotent(ctx, test.path, test.version)
				mustBe(b.t, err, test.want)
				if client.IsAmbiguous(err) {
					b.t.Fatalf("%v: it is known that it was not done", err)
				}
			})
		})
	}
}

// While the connection is broken the node is deleted, by us or by somebody else, and
// created anew: the new one is not ours to delete.
func TestDeleteIdempotentSparesTheNodeThatCameLater(t *testing.T) {
	for _, where := range []string{"before", "after"} {
		t.Run(where, func(t *testing.T) {
			ctx := t.Context()
			srv := newWorld(t, 1)
			b := newBreakage(ctx, t, srv, srv.client(t), "d")
			create(t, b.look, "/a")
			b.cut = b.breakAt(where, zktest.Op(jute.OpDelete))
			b.p.Refuse()
			done := make(chan error)
			go func() { done <- b.c.DeleteIdempotent(ctx, "/a", client.AnyVersion) }()
			<-b.cut.Done()
			if where == "before" {
				must(t, b.look.Delete(ctx, "/a", client.AnyVersion))
			}
			create(t, b.look, "/a")
			b.p.Accept()
			must(t, <-done)
			if names := b.children(ctx, "/"); len(names) != 1 {
				t.Fatal("it deleted the node that somebody created later")
			}
		})
	}
}

// A caller that goes away at any point of a guaranteed delete finds it done later.
func TestDeleteGuaranteedGoesOnInTheBackground(t *testing.T) {
	everyBreak(t, func(b *breakage) { create(b.t, b.look, "/a") }, func(ctx context.Context, b *breakage) {
		caller, leave := context.WithCancel(ctx)
		go func() {
			select {
			case <-b.cut.Done():
			case <-caller.Done():
			}
			leave()
		}()
		err := b.c.DeleteGuaranteed(caller, "/a")
		if err != nil && caller.Err() == nil {
			b.t.Fatal(err)
		}
		leave()
		b.awaitGone(ctx, "/")
	})
}

// A node whose path is its own for ever needn't be looked at before it is deleted.
func TestDeleteOfAUniqueNodeTakesOneRequest(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.client(t)
	protected, err := c.CreateProtected(t.Context(), "/lock-", nil, client.EphemeralSequential, nil)
	must(t, err)
	unique, _, err := c.CreateUnique(t.Context(), "/0d6a5c0be0b8-lock-", nil, client.EphemeralSequential, nil)
	must(t, err)
	before := srv.Requests()
	must(t, c.DeleteGuaranteed(t.Context(), protected))
	must(t, c.DeleteUnique(t.Context(), unique))
	if n := srv.Requests().Since(before).Total(); n != 2 {
		t.Errorf("two deletes took %d requests", n)
	}
	mustBe(t, c.DeleteUnique(t.Context(), unique), client.ErrNoNode)
}

// That there is no node is not said by a server that lags behind.
func TestDeleteIdempotentSyncsBeforeItFindsNothing(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	rec := s.Record()
	mustBe(t, c.DeleteIdempotent(t.Context(), "/a", client.AnyVersion), client.ErrNoNode)
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
	c := srv.client(t)
	unique, _, err := c.CreateUnique(t.Context(), "/0d6a5c0be0b8-lock-", nil, client.EphemeralSequential, nil)
	must(t, err)
	cut := srv.CutAfter(zktest.Op(jute.OpDelete))
	must(t, c.DeleteUnique(t.Context(), unique))
	<-cut.Done()
}

// What can't succeed is not tried for ever, and Close does not wait for it.
func TestDeleteGuaranteedEnds(t *testing.T) {
	ctx := t.Context()
	srv := newWorld(t, 1)
	b := newBreakage(ctx, t, srv, srv.client(t), "d")
	mustBe(t, b.c.DeleteGuaranteed(ctx, "/none"), client.ErrNoNode)
	create(t, b.look, "/a", "/a/b")
	mustBe(t, b.c.DeleteGuaranteed(ctx, "/a"), client.ErrNotEmpty)

	b.cut = b.p.CutBefore(zktest.Any())
	b.p.Refuse()
	caller, leave := context.WithCancel(ctx)
	go func() {
		<-b.cut.Done()
		leave()
	}()
	// Whether it sees the end of ctx or of the connection first is open.
	if err := b.c.DeleteGuaranteed(caller, "/a/b"); !errors.Is(err, context.Canceled) && !errors.Is(err, client.ErrConnectionLoss) {
		t.Errorf("error is %v, want that of the context or of the connection", err)
	}
	b.c.Close(ctx)
	mustBe(t, b.c.DeleteGuaranteed(ctx, "/a/b"), client.ErrClosed)
}

// The new session finishes what the old one has begun.
func TestDeleteGuaranteedAndTheEndOfTheSession(t *testing.T) {
	everyExpiry(t, true, func(ctx context.Context, b *breakage) {
		create(b.t, b.look, "/a")
		err := b.c.DeleteGuaranteed(ctx, "/a")
		if err != nil {
			mustBe(b.t, err, client.ErrSessionExpired)
		}
		b.awaitGone(ctx, "/")
	})
}

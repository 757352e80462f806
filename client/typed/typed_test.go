package typed_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

type settings struct {
	Name  string
	Count int
}

func TestTypedCodecs(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	ctx := t.Context()

	object := typed.New[settings](c, "/json", nil)
	_, err := object.Create(ctx, settings{"a", 1}, client.CreateOptions{})
	must(t, err)
	if node, _ := c.Get(ctx, "/json"); string(node.Data) != `{"Name":"a","Count":1}` {
		t.Errorf("JSON is %q", node.Data)
	}
	stat, err := object.Set(ctx, settings{"b", 2}, 0)
	must(t, err)
	if v, got, err := object.Get(ctx); err != nil || v != (settings{"b", 2}) || got != stat {
		t.Errorf("%v, %+v, %v", v, got, err)
	}
	_, err = object.Set(ctx, settings{}, 0)
	mustBe(t, err, client.ErrBadVersion)

	text := typed.New(c, "/text", typed.String{})
	_, err = text.Create(ctx, "hello", client.CreateOptions{})
	must(t, err)
	if v, _, err := text.Get(ctx); err != nil || v != "hello" {
		t.Errorf("%q, %v", v, err)
	}

	addr := typed.New(c, "/addr", typed.Text[netip.Addr, *netip.Addr]{})
	_, err = addr.Create(ctx, netip.MustParseAddr("::1"), client.CreateOptions{})
	must(t, err)
	if v, _, err := addr.Get(ctx); err != nil || v.String() != "::1" {
		t.Errorf("%v, %v", v, err)
	}
}

func TestTypedBadData(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	node := typed.New[settings](c, "/a", nil)
	_, err := c.Create(t.Context(), "/a", []byte("{"), client.CreateOptions{})
	must(t, err)
	_, stat, err := node.Get(t.Context())
	mustBe(t, err, typed.ErrData)
	if stat.Czxid == 0 || !strings.Contains(err.Error(), "decode /a: ") {
		t.Errorf("stat is %+v, error %q", stat, err)
	}
	_, err = typed.New[chan int](c, "/a", nil).Set(t.Context(), nil, 0)
	mustBe(t, err, typed.ErrData)
	_, _, err = typed.New[settings](c, "/none", nil).Get(t.Context())
	mustBe(t, err, client.ErrNoNode)
}

func increment(n int) (int, error) { return n + 1, nil }

// Counting with lost connections: what Update says is done is done once, and what it
// says is not is not.
func TestUpdateIsExact(t *testing.T) {
	everyBreak(t, func(b *breakage) {
		_, err := typed.New[int](b.Look, "/n", nil).Create(b.T.Context(), 0, client.CreateOptions{})
		must(b.T, err)
	}, func(ctx context.Context, b *breakage) {
		_, _, err := typed.New[int](b.C, "/n", nil).Update(ctx, increment)
		data, _ := b.Data(ctx, "/n")
		switch {
		case err == nil && data == "1", client.IsAmbiguous(err) && (data == "0" || data == "1"):
		default:
			b.T.Fatalf("the count is %s, error is %v", data, err)
		}
	})
}

func TestUpdateIdempotentWhateverBreaks(t *testing.T) {
	everyBreak(t, func(b *breakage) {
		_, err := typed.New[settings](b.Look, "/s", nil).Create(b.T.Context(), settings{"a", 7}, client.CreateOptions{})
		must(b.T, err)
	}, func(ctx context.Context, b *breakage) {
		node := typed.New[settings](b.C, "/s", nil)
		v, _, err := node.UpdateIdempotent(ctx, func(s settings) (settings, error) {
			s.Name = "b"
			return s, nil
		})
		want := settings{"b", 7}
		if err != nil || v != want {
			b.T.Fatalf("%v, %v", v, err)
		}
		if v, _, err := typed.New[settings](b.Look, "/s", nil).Get(ctx); err != nil || v != want {
			b.T.Fatalf("%v, %v", v, err)
		}
	})
}

// Two clients count from the same number, and the connection of one breaks before
// its set arrives. The other's set makes the same data of the same version; to take
// that for one's own would lose a count.
func TestUpdateDoesNotTakeAnothersCountForItsOwn(t *testing.T) {
	ctx := t.Context()
	srv := newWorld(t, 1)
	b := newBreakage(ctx, t, srv, srv.Client(t), "d")
	theirs := typed.New[int](b.Look, "/n", nil)
	_, err := theirs.Create(ctx, 0, client.CreateOptions{})
	must(t, err)
	b.Cut = b.P.CutBefore(zktest.Op(jute.OpSetData))
	b.P.Refuse()
	done := make(chan error)
	go func() {
		_, _, err := typed.New[int](b.C, "/n", nil).Update(ctx, increment)
		done <- err
	}()
	<-b.Cut.Done()
	_, _, err = theirs.Update(ctx, increment)
	must(t, err)
	b.P.Accept()
	if err := <-done; !client.IsAmbiguous(err) || !errors.Is(err, client.ErrBadVersion) {
		t.Errorf("error is %v, and the count is one for two", err)
	}
}

func TestUpdatesOfManyAddUp(t *testing.T) {
	srv := newWorld(t, 1)
	_, err := typed.New[int](srv.Client(t), "/n", nil).Create(t.Context(), 0, client.CreateOptions{})
	must(t, err)
	var work sync.WaitGroup
	for range 4 {
		node := typed.New[int](srv.Client(t), "/n", nil)
		work.Go(func() {
			for range 25 {
				if _, _, err := node.Update(t.Context(), increment); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if n, _, err := typed.New[int](srv.Client(t), "/n", nil).Get(t.Context()); err != nil || n != 100 {
		t.Errorf("the count is %d, %v", n, err)
	}
}

func TestUpdateEndsWithItsFunction(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	node := typed.New[int](c, "/n", nil)
	_, _, err := node.Update(t.Context(), increment)
	mustBe(t, err, client.ErrNoNode)
	_, err = node.Create(t.Context(), 5, client.CreateOptions{})
	must(t, err)
	stop := errors.New("stop")
	_, _, err = node.Update(t.Context(), func(int) (int, error) { return 0, stop })
	mustBe(t, err, stop)
	if n, stat, err := node.Get(t.Context()); err != nil || n != 5 || stat.Version != 0 {
		t.Errorf("%d, %+v, %v", n, stat, err)
	}
}

// The life of a node: it is followed from before its creation through changes, its
// deletion and its return.
func TestFollow(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t)
	steps := []struct {
		do   func() error
		want string
	}{
		{func() error { _, err := c.Create(t.Context(), "/s", []byte("one"), client.CreateOptions{}); return err }, "one"},
		{func() error { _, err := c.Set(t.Context(), "/s", []byte("two"), 0); return err }, "two"},
		{func() error { _, err := c.Set(t.Context(), "/s", []byte("two"), 1); return err }, "two"},
		{func() error { return c.Delete(t.Context(), "/s", client.AnyVersion) }, "-"},
		{func() error {
			_, err := c.Create(t.Context(), "/s", nil, client.CreateOptions{Mode: client.Ephemeral})
			return err
		}, ""},
	}
	step := 0
	for v, err := range typed.New(srv.Client(t), "/s", typed.String{}).Follow(t.Context()) {
		must(t, err)
		got := v.Value
		if !v.Exists {
			got = "-"
		}
		want := "-"
		if step > 0 {
			want = steps[step-1].want
		}
		if got != want {
			t.Errorf("step %d: the value is %q, want %q", step, got, want)
		}
		if step == len(steps) {
			break
		}
		must(t, steps[step].do())
		step++
	}
}

// A change made at any point of a follower's breaking connection is not missed.
func TestFollowWhateverBreaks(t *testing.T) {
	everyBreak(t, nil, func(ctx context.Context, b *breakage) {
		theirs := typed.New[int](b.Look, "/n", nil)
		for v, err := range typed.New[int](b.C, "/n", nil).Follow(ctx) {
			must(b.T, err)
			if !v.Exists {
				_, err := theirs.Create(ctx, 1, client.CreateOptions{})
				must(b.T, err)
				continue
			}
			if v.Value == 3 {
				return
			}
			_, err := theirs.Set(ctx, v.Value+1, v.Stat.Version)
			must(b.T, err)
		}
	})
}

// What happens while there is no connection is seen afterwards.
func TestFollowWhileCutOff(t *testing.T) {
	ctx := t.Context()
	srv := newWorld(t, 1)
	b := newBreakage(ctx, t, srv, srv.Client(t), "d")
	_, err := b.Look.Create(ctx, "/s", []byte("/s"), client.CreateOptions{})
	must(t, err)
	looked := 0
	for v, err := range typed.New(b.C, "/s", typed.String{}).Follow(ctx) {
		must(t, err)
		if looked++; looked == 1 {
			b.P.Refuse()
			b.P.CutConnections()
			must(t, b.Look.Delete(ctx, "/s", client.AnyVersion))
			_, err := b.Look.Create(ctx, "/s", []byte("new"), client.CreateOptions{})
			must(t, err)
			b.P.Accept()
			continue
		}
		if v.Value == "new" {
			break
		}
	}
}

func TestFollowGoesOnAfterBadData(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	_, err := c.Create(t.Context(), "/n", []byte("x"), client.CreateOptions{})
	must(t, err)
	bad := false
	for v, err := range typed.New[int](c, "/n", nil).Follow(t.Context()) {
		if !bad {
			mustBe(t, err, typed.ErrData)
			bad = true
			_, err := c.Set(t.Context(), "/n", []byte("7"), 0)
			must(t, err)
			continue
		}
		if must(t, err); v.Value != 7 {
			t.Errorf("value is %d", v.Value)
		}
		break
	}
}

// The end of the context and of the session end it; a renewed session does not.
func TestFollowEnds(t *testing.T) {
	srv := newWorld(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range typed.New[int](srv.Client(t), "/n", nil).Follow(ctx) {
		last = err
		cancel()
	}
	mustBe(t, last, context.Canceled)

	for _, renew := range []bool{false, true} {
		c := srv.Client(t, func(o *client.Options) { o.RenewSession = renew })
		looked := 0
		for v, err := range typed.New[int](c, "/n", nil).Follow(t.Context()) {
			if looked++; looked == 1 {
				id := c.Session().ID()
				srv.ExpireSession(id)
				if renew {
					_, err := srv.Client(t).Create(t.Context(), "/n", []byte("5"), client.CreateOptions{Mode: client.Ephemeral})
					must(t, err)
				}
				continue
			}
			if last = err; err == nil && v.Value == 5 {
				break
			}
		}
		if renew {
			must(t, last)
		} else {
			mustBe(t, last, client.ErrSessionExpired)
		}
	}
}

// Nothing is left at the server when the loop is left.
func TestFollowLeavesNoWatch(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t)
	for range typed.New[int](c, "/n", nil).Follow(t.Context()) {
		break
	}
	must(t, srv.AwaitRequests(t.Context(), jute.OpRemoveWatches, 1))
	mustBe(t, c.Session().CheckWatches(t.Context(), "/n", client.AnyWatches), client.ErrNoWatcher)
}

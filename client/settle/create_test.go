package settle_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

var createModes = map[string]client.CreateMode{
	"persistent": client.Persistent, "ephemeral": client.Ephemeral,
	"persistent sequential": client.PersistentSequential, "ephemeral sequential": client.EphemeralSequential,
	"container": client.Container,
}

func TestCreateProtectedMakesOneNodeWhateverBreaks(t *testing.T) {
	for name, mode := range createModes {
		t.Run(name, func(t *testing.T) {
			everyBreak(t, nil, func(ctx context.Context, b *breakage) {
				made, err := settle.Create(ctx, b.C, "/lock-", []byte("x"), settle.CreateOptions{Mode: mode, By: settle.ByGUID})
				must(b.T, err)
				names := b.Children(ctx, "/")
				if len(names) != 1 || made.Path != "/"+names[0] {
					b.T.Fatalf("created %s, there are %v", made.Path, names)
				}
				plain, guid, ok := settle.ProtectedName(names[0])
				if !ok || len(guid) != 36 || !strings.HasPrefix(plain, "lock-") {
					b.T.Fatalf("%s is %q, %q, %v", names[0], plain, guid, ok)
				}
				if _, stat := b.Data(ctx, made.Path); (stat.EphemeralOwner != 0) != mode.Ephemeral() {
					b.T.Fatalf("owner is %v", stat.EphemeralOwner)
				}
			})
		})
	}
}

func TestCreateUniqueMakesOneNodeWhateverBreaks(t *testing.T) {
	everyBreak(t, nil, func(ctx context.Context, b *breakage) {
		made, err := settle.Create(ctx, b.C, "/5f1d__lock__", []byte("x"), settle.CreateOptions{Mode: client.EphemeralSequential, By: settle.ByPath})
		must(b.T, err)
		if names := b.Children(ctx, "/"); len(names) != 1 || made.Path != "/"+names[0] || !strings.HasPrefix(made.Path, "/5f1d__lock__") {
			b.T.Fatalf("created %s, there are %v", made.Path, names)
		}
		if _, want := b.Data(ctx, made.Path); made.Stat != want {
			b.T.Fatalf("stat is %+v, want %+v", made.Stat, want)
		}
	})
}

func TestProtectedNameIsCurators(t *testing.T) {
	tests := []struct {
		name, plain, guid string
	}{
		{"_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-0000000007", "lock-0000000007", "53345f98-9423-4e0c-a7b5-9f819e3ec2e1"},
		{"_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-", "", "53345f98-9423-4e0c-a7b5-9f819e3ec2e1"},
		{"_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1", "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1", ""},
		{"_c_short-lock", "_c_short-lock", ""},
		{"lock-0000000007", "lock-0000000007", ""},
		{"", "", ""},
	}
	for _, test := range tests {
		plain, guid, ok := settle.ProtectedName(test.name)
		if plain != test.plain || guid != test.guid || ok != (guid != "") {
			t.Errorf("ProtectedName(%q) = %q, %q, %v", test.name, plain, guid, ok)
		}
	}
}

// A caller that stops waiting while it is unknown whether there is a node must not leave
// the node: no one would delete it.
func TestCreateProtectedThatIsGivenUpLeavesNothing(t *testing.T) {
	srv := newWorld(t, 1)
	look := srv.Client(t)
	for name, mode := range createModes {
		t.Run(name, func(t *testing.T) {
			b := newBreakage(t.Context(), t, srv, look, strings.ReplaceAll(name, " ", "-"))
			b.Cut = b.P.CutAfter(zktest.Any())
			b.P.Refuse()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-b.Cut.Done()
				cancel()
			}()
			_, err := settle.Create(ctx, b.C, "/lock-", nil, settle.CreateOptions{Mode: mode, By: settle.ByGUID})
			if !client.IsAmbiguous(err) {
				t.Fatalf("error is %v, want one that is ambiguous", err)
			}
			if names := b.Children(t.Context(), "/"); len(names) != 1 {
				t.Fatalf("there are %v before the connection is back", names)
			}
			b.P.Accept()
			b.AwaitGone(t.Context(), "/")
		})
	}
}

func TestCloseEndsTheSearchForANode(t *testing.T) {
	srv := newWorld(t, 1)
	b := newBreakage(t.Context(), t, srv, srv.Client(t), "d")
	b.Cut = b.P.CutAfter(zktest.Any())
	b.P.Refuse()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-b.Cut.Done()
		cancel()
	}()
	_, err := settle.Create(ctx, b.C, "/x", nil, settle.CreateOptions{By: settle.ByGUID})
	if !client.IsAmbiguous(err) {
		t.Fatalf("error is %v, want one that is ambiguous", err)
	}
	b.C.Close(t.Context()) // goleak sees what it leaves running
}

// When the session expires under a protected create there is no node, or the caller
// knows of it, whichever request of it was the last.
func TestCreateProtectedAndTheEndOfTheSession(t *testing.T) {
	for name, mode := range createModes {
		for _, renew := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s renew=%v", name, renew), func(t *testing.T) {
				everyExpiry(t, renew, func(ctx context.Context, b *breakage) {
					made, err := settle.Create(ctx, b.C, "/lock-", nil, settle.CreateOptions{Mode: mode, By: settle.ByGUID})
					if !b.Broken() {
						must(t, err)
						return
					}
					switch {
					case err == nil && mode.Ephemeral():
						_, stat := b.Data(ctx, made.Path)
						if id := b.C.Session().ID(); stat.EphemeralOwner != id {
							t.Fatalf("%s belongs to %v, the session is %v", made.Path, stat.EphemeralOwner, id)
						}
					case err == nil && !renew:
						t.Fatalf("created %s without a session", made.Path)
					case err == nil:
						if names := b.Children(ctx, "/"); len(names) != 1 {
							t.Fatalf("created %s, there are %v", made.Path, names)
						}
					case !errors.Is(err, client.ErrSessionExpired):
						t.Fatalf("error is %v", err)
					case renew || mode.Ephemeral():
						b.AwaitGone(ctx, "/")
					case !client.IsAmbiguous(err):
						t.Fatalf("a node may be left, and the error says nothing: %v", err)
					}
				})
			})
		}
	}
}

func TestCreateIdempotentWhateverBreaks(t *testing.T) {
	for _, mode := range []string{"persistent", "ephemeral", "container"} {
		t.Run(mode, func(t *testing.T) {
			everyBreak(t, nil, func(ctx context.Context, b *breakage) {
				_, err := settle.Create(ctx, b.C, "/a", []byte("x"), settle.CreateOptions{Mode: createModes[mode]})
				must(b.T, err)
				if data, stat := b.Data(ctx, "/a"); data != "x" || stat.Version != 0 {
					b.T.Fatalf("data is %q, version %d", data, stat.Version)
				}
			})
		})
	}
}

func TestCreateIdempotentOfAnothersNode(t *testing.T) {
	everyBreak(t, func(b *breakage) {
		_, err := b.Look.Create(b.T.Context(), "/a", []byte("theirs"), client.CreateOptions{})
		must(b.T, err)
	}, func(ctx context.Context, b *breakage) {
		_, err := settle.Create(ctx, b.C, "/a", []byte("ours"), settle.CreateOptions{})
		mustBe(b.T, err, client.ErrNodeExists)
		if client.IsAmbiguous(err) {
			b.T.Fatalf("%v: it is known that it was not done", err)
		}
	})
}

func TestCreateIdempotentTellsOwnersApart(t *testing.T) {
	srv := newWorld(t, 1)
	b := newBreakage(t.Context(), t, srv, srv.Client(t), "d")
	b.Cut = b.P.CutBefore(zktest.Any())
	b.P.Refuse()
	done := make(chan error)
	go func() {
		_, err := settle.Create(t.Context(), b.C, "/a", []byte("x"), settle.CreateOptions{Mode: client.Ephemeral})
		done <- err
	}()
	<-b.Cut.Done()
	_, err := b.Look.Create(t.Context(), "/a", []byte("x"), client.CreateOptions{Mode: client.Ephemeral})
	must(t, err)
	b.P.Accept()
	mustBe(t, <-done, client.ErrNodeExists)
}

func TestSetIdempotentWhateverBreaks(t *testing.T) {
	everyBreak(t, func(b *breakage) {
		_, err := b.Look.Create(b.T.Context(), "/a", []byte("old"), client.CreateOptions{})
		must(b.T, err)
	}, func(ctx context.Context, b *breakage) {
		stat, err := settle.Set(ctx, b.C, "/a", []byte("new"), 0)
		must(b.T, err)
		if data, now := b.Data(ctx, "/a"); data != "new" || now.Version != 1 || stat != now {
			b.T.Fatalf("data is %q, stat %+v, returned %+v", data, now, stat)
		}
	})
}

// What somebody has set while the connection was broken is not overwritten, and not
// taken for ours.
func TestSetIdempotentMeetsAnothersSet(t *testing.T) {
	tests := []struct {
		name   string
		break_ func(*zktest.Proxy, zktest.Match) *zktest.Cut
		others []string
		want   error
		doubt  bool
	}{
		{"not done, one set", (*zktest.Proxy).CutBefore, []string{"theirs"}, client.ErrBadVersion, false},
		{"not done, two sets", (*zktest.Proxy).CutBefore, []string{"theirs", "again"}, client.ErrBadVersion, true},
		{"done, one set", (*zktest.Proxy).CutAfter, []string{"theirs"}, client.ErrBadVersion, true},
		{"done, then deleted", (*zktest.Proxy).CutAfter, nil, client.ErrNoNode, true},
	}
	srv := newWorld(t, 1)
	look := srv.Client(t)
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx := t.Context()
			b := newBreakage(ctx, t, srv, look, fmt.Sprintf("d%d", i))
			_, err := b.Look.Create(ctx, "/a", []byte("old"), client.CreateOptions{})
			must(t, err)
			b.Cut = test.break_(b.P, zktest.Op(jute.OpSetData))
			b.P.Refuse()
			done := make(chan error)
			go func() {
				_, err := settle.Set(ctx, b.C, "/a", []byte("ours"), 0)
				done <- err
			}()
			<-b.Cut.Done()
			for _, data := range test.others {
				_, err := b.Look.Set(ctx, "/a", []byte(data), client.AnyVersion)
				must(t, err)
			}
			if test.others == nil {
				must(t, b.Look.Delete(ctx, "/a", client.AnyVersion))
			}
			b.P.Accept()
			err = <-done
			mustBe(t, err, test.want)
			if client.IsAmbiguous(err) != test.doubt {
				t.Fatalf("ambiguous is %v of %v", !test.doubt, err)
			}
			if n := len(test.others); n > 0 {
				if data, _ := b.Data(ctx, "/a"); data != test.others[n-1] {
					t.Fatalf("data is %q", data)
				}
			}
		})
	}
}

func TestIdempotentRefusals(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	_, err := settle.Set(t.Context(), c, "/a", nil, client.AnyVersion)
	mustBe(t, err, client.ErrBadArguments)
	_, err = settle.Create(t.Context(), c, "/a", nil, settle.CreateOptions{Mode: client.PersistentSequential})
	mustBe(t, err, client.ErrBadArguments)
	_, err = settle.Create(t.Context(), c, "a", nil, settle.CreateOptions{By: settle.ByGUID})
	mustBe(t, err, client.ErrBadArguments)
	_, err = settle.Create(t.Context(), c, "/none/a", nil, settle.CreateOptions{By: settle.ByGUID})
	mustBe(t, err, client.ErrNoNode)
}

// Many protected creates, by clients that change from server to server of an
// ensemble because their connections break at random requests: each makes one node,
// and nobody makes one that nobody knows of.
func TestCreateProtectedAcrossServers(t *testing.T) {
	srv := newWorld(t, 3)
	seed := seeds.First(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const clients, creates = 4, 8
	type breaks struct{ first, second int } // in the order of requests; the second counts from the first
	plan := make([]breaks, clients*creates)
	for i := range plan {
		plan[i] = breaks{1 + rnd.IntN(2), 1 + rnd.IntN(5)}
	}
	var mu sync.Mutex
	made := map[string]bool{}
	var work sync.WaitGroup
	for i := range clients {
		p := zktest.NewProxy(t, srv.At(0).Addr(), srv.At(1).Addr(), srv.At(2).Addr())
		c := p.Client(t).WithRetry(quick()).Namespace(srv.Root)
		work.Go(func() {
			for j := range creates {
				at := plan[i*creates+j]
				first, second := p.CutAfter, p.CutBefore
				if j%2 == 0 {
					first, second = second, first
				}
				one, two := first(zktest.Nth(at.first, zktest.Any())), second(zktest.Nth(at.second, zktest.Any()))
				made2, err := settle.Create(t.Context(), c, "/n-", nil, settle.CreateOptions{Mode: client.PersistentSequential, By: settle.ByGUID})
				one.Cancel()
				two.Cancel()
				if err != nil {
					t.Errorf("client %d, create %d: %v", i, j, err)
				}
				mu.Lock()
				made[made2.Path] = true
				mu.Unlock()
			}
		})
	}
	work.Wait()
	look := srv.Client(t)
	must(t, look.Sync(t.Context(), "/"))
	list, err := look.Children(t.Context(), "/")
	must(t, err)
	if len(list.Names) != clients*creates || len(made) != len(list.Names) {
		t.Errorf("%d creates returned %d paths, and there are %d nodes", clients*creates, len(made), len(list.Names))
	}
	for _, name := range list.Names {
		if !made["/"+name] {
			t.Errorf("nobody knows of %s", name)
		}
	}
}

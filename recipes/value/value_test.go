package value_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/value"
)

// The requests of each call.
func TestTrace(t *testing.T) {
	create := []string{"getData /app/n", "create /app/n", "exists /app", "exists ", "createContainer /app", "create /app/n", "getData /app/n"}
	for _, test := range []struct {
		exact bool
		first []string // of an update
		next  []string
		close []string
	}{
		{false, append(slices.Clone(create), "setData /app/n"), []string{"getData /app/n", "setData /app/n"}, nil},
		{true, append(slices.Clone(create), "multi /app/n/_c_GUID-mark", "multi /app/n"),
			[]string{"getData /app/n", "multi /app/n/_c_GUID-mark", "multi /app/n"}, []string{"delete /app/n/_c_GUID-mark"}},
	} {
		t.Run(fmt.Sprintf("exact=%t", test.exact), func(t *testing.T) {
			w := trial.New(t)
			v, err := value.New(w.C, "/app/n", value.Options[int]{Exact: test.exact})
			w.Must(err)
			rec := w.Record()
			expect := func(what string, want []string) {
				if got := w.Trace(rec); !slices.Equal(got, want) {
					t.Errorf("%s asks for %q, want %q", what, got, want)
				}
			}
			_, err = v.Get(w.Ctx)
			w.Must(err)
			expect("get", []string{"getData /app/n"})
			for _, want := range [][]string{test.first, test.next} {
				_, err = v.Update(w.Ctx, func(n int) (int, error) { return n + 1, nil })
				w.Must(err)
				expect("update", want)
			}
			w.Must(v.Close(w.Ctx))
			w.Must(v.Close(w.Ctx))
			expect("close", test.close)
		})
	}
}

// Each change wakes a follower once, which sends no requests in between.
func TestTraceFollow(t *testing.T) {
	w := trial.New(t)
	admin, err := value.New(w.Other(), "/n", value.Options[int]{Seed: 7})
	w.Must(err)
	_, err = admin.Set(w.Ctx, 0)
	w.Must(err)
	v, err := value.New(w.C, "/n", value.Options[int]{Seed: 7})
	w.Must(err)
	rec := w.Record()
	want := 0
	for now, err := range v.Follow(w.Ctx) {
		w.Must(err)
		if now.Value != want {
			t.Fatalf("value is %d, want %d", now.Value, want)
		}
		if want++; want == 3 {
			break
		}
		_, err = admin.Set(w.Ctx, want)
		w.Must(err)
	}
	got := strings.Join(w.Trace(rec)[:5], ", ")
	if want := "getData /n watch, event NodeDataChanged /n, getData /n watch, event NodeDataChanged /n, getData /n watch"; got != want {
		t.Errorf("follow asks for %s, want %s", got, want)
	}
}

// While there is no node the value is the seed, also for followers.
func TestSeed(t *testing.T) {
	w := trial.New(t)
	v, err := value.New(w.C, "/a/b/n", value.Options[int]{Seed: 7})
	w.Must(err)
	now, err := v.Get(w.Ctx)
	if err != nil || now.Value != 7 || now.Exists {
		t.Errorf("get = %+v, %v, want the seed 7", now, err)
	}
	var got []int
	for now, err := range v.Follow(w.Ctx) {
		w.Must(err)
		if got = append(got, now.Value); len(got) == 3 {
			break
		}
		if now.Exists {
			w.Must(w.Look.Delete(w.Ctx, "/a/b/n", client.AnyVersion))
			continue
		}
		_, err := settle.CreateAll(w.Ctx, w.Look, "/a/b/n", []byte("8"), client.CreateOptions{})
		w.Must(err)
	}
	if !slices.Equal(got, []int{7, 8, 7}) {
		t.Errorf("followed %d, want 7, 8, and after the node is deleted 7", got)
	}
	now, err = v.Update(w.Ctx, func(n int) (int, error) { return n + 1, nil })
	if err != nil || now.Value != 8 || now.Stat.Version != 1 {
		t.Errorf("update = %+v, %v, want 8 in version 1", now, err)
	}
}

// TrySet replaces only the version that its caller has seen.
func TestTrySet(t *testing.T) {
	for _, exact := range []bool{true, false} {
		t.Run(fmt.Sprintf("exact=%t", exact), func(t *testing.T) {
			w := trial.New(t)
			v, err := value.New(w.C, "/n", value.Options[int]{Exact: exact})
			w.Must(err)
			unborn, err := v.Get(w.Ctx)
			w.Must(err)
			first, err := v.TrySet(w.Ctx, unborn, 1)
			w.Must(err)
			second, err := v.TrySet(w.Ctx, first, 2)
			w.Must(err)
			for _, old := range []typed.Value[int]{unborn, first} {
				if now, err := v.TrySet(w.Ctx, old, 3); !value.Conflict(err) {
					t.Errorf("set of %+v = %+v, %v, want a conflict", old, now, err)
				}
			}
			now, err := v.Get(w.Ctx)
			if err != nil || now.Value != second.Value || now.Stat.Mzxid != second.Stat.Mzxid {
				t.Errorf("get = %+v, %v, want %+v", now, err, second)
			}
			w.Must(v.Close(w.Ctx))
			w.Must(w.Look.Delete(w.Ctx, "/n", client.AnyVersion))
			if !exact {
				if _, err := v.TrySet(w.Ctx, second, 3); !value.Conflict(err) {
					t.Errorf("set of a deleted node = %v, want a conflict", err)
				}
			}
		})
	}
}

// A mark that somebody deletes is replaced, and one that does not exist any more
// because all was deleted does no harm.
func TestDeletedMark(t *testing.T) {
	w := trial.New(t)
	v, err := value.New(w.C, "/n", value.Options[int]{Exact: true})
	w.Must(err)
	more := func(n int) (int, error) { return n + 1, nil }
	for i, want := range []int{1, 2, 1} {
		now, err := v.Update(w.Ctx, more)
		if err != nil || now.Value != want {
			t.Fatalf("update %d = %+v, %v, want %d", i, now, err, want)
		}
		_, err = tree.Delete(w.Ctx, w.Look, "/n", tree.DeleteOptions{KeepRoot: i == 0})
		w.Must(err)
	}
	w.Must(v.Close(w.Ctx))
}

func TestBadUse(t *testing.T) {
	w := trial.New(t)
	for _, path := range []string{"", "n", "/", "/n/", "/a//n"} {
		if _, err := value.New(w.C, path, value.Options[int]{}); !errors.Is(err, client.ErrBadArguments) {
			t.Errorf("new at %q = %v, want bad arguments", path, err)
		}
	}
	v, err := value.New(w.C, "/n", value.Options[int]{Exact: true})
	w.Must(err)
	_, err = w.Look.Create(w.Ctx, "/n", []byte("seven"), client.CreateOptions{})
	w.Must(err)
	more := func(n int) (int, error) { return n + 1, nil }
	if _, err := v.Update(w.Ctx, more); !errors.Is(err, typed.ErrData) || !strings.Contains(err.Error(), "/n") {
		t.Errorf("update of what is no number = %v, want ErrData with the path", err)
	}
	if now, err := v.Set(w.Ctx, 7); err != nil || now.Value != 7 {
		t.Errorf("set over what is no number = %+v, %v", now, err)
	}
	refused := errors.New("no")
	if _, err := v.Update(w.Ctx, func(int) (int, error) { return 0, refused }); !errors.Is(err, refused) {
		t.Errorf("update = %v, want what the function has returned", err)
	}
	ctx, cancel := context.WithCancelCause(w.Ctx)
	cancel(refused)
	if _, err := v.Update(ctx, more); !errors.Is(err, refused) || client.IsAmbiguous(err) {
		t.Errorf("update with an ended context = %v, want its cause", err)
	}
	w.Must(v.Close(w.Ctx))
	if _, err := v.Update(w.Ctx, more); !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("update after close = %v", err)
	}
	if got := w.Children("/n"); len(got) > 0 {
		t.Errorf("%q is left below the node", got)
	}
}

// If the ACL forbids a change, the error has the path, and nothing is left.
func TestForbidden(t *testing.T) {
	w := trial.New(t)
	_, err := w.Look.Create(w.Ctx, "/n", []byte("1"), client.CreateOptions{ACL: client.ReadACL()})
	w.Must(err)
	for _, exact := range []bool{true, false} {
		v, err := value.New(w.C, "/n", value.Options[int]{Exact: exact})
		w.Must(err)
		now, err := v.Get(w.Ctx)
		if err != nil || now.Value != 1 {
			t.Errorf("get = %+v, %v", now, err)
		}
		_, err = v.Set(w.Ctx, 2)
		if !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/n") {
			t.Errorf("exact=%t: set = %v, want no auth with the path", exact, err)
		}
		w.Must(v.Close(w.Ctx))
	}
	if got := w.Children("/n"); len(got) > 0 {
		t.Errorf("%q is left below the node", got)
	}
}

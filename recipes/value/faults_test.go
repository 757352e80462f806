package value_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/value"
)

// words is the value of these tests. Each change appends a unique word, so the value tells
// which changes were made, and in which order.
type words []string

func appending(word string) func(words) (words, error) {
	return func(w words) (words, error) { return append(slices.Clone(w), word), nil }
}

// ledger records the results of the calls.
type ledger struct {
	mu     sync.Mutex
	states []words // that Update returned
	done   words
	maybe  words
	never  words
}

// append makes a change and records its result.
func (l *ledger) append(ctx context.Context, v *value.Value[words], word string) error {
	now, err := v.Update(ctx, appending(word))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.done, l.states = append(l.done, word), append(l.states, now.Value)
	case client.IsAmbiguous(err):
		l.maybe = append(l.maybe, word)
	default:
		l.never = append(l.never, word)
	}
	return err
}

// check compares the results with the final value. All changes must form one history. Each
// successful call must have returned the beginning of it that ends with its own change.
func (l *ledger) check(t *testing.T, end words) {
	t.Helper()
	for _, word := range l.done {
		if n := count(end, word); n != 1 {
			t.Errorf("%s was done, but is there %d times: %q", word, n, end)
		}
	}
	for _, word := range l.maybe {
		if n := count(end, word); n > 1 {
			t.Errorf("%s may have been done, but is there %d times: %q", word, n, end)
		}
	}
	for _, word := range l.never {
		if n := count(end, word); n != 0 {
			t.Errorf("%s was surely not done, but is there %d times: %q", word, n, end)
		}
	}
	for i, state := range l.states {
		if len(state) > len(end) || !slices.Equal(state, end[:len(state)]) || state[len(state)-1] != l.done[i] {
			t.Errorf("after %s the value was said to be %q, but in the end it is %q", l.done[i], state, end)
		}
	}
}

func count(all words, word string) (n int) {
	for _, w := range all {
		if w == word {
			n++
		}
	}
	return n
}

func open(t *testing.T, c *client.Client, exact bool) *value.Value[words] {
	t.Helper()
	v, err := value.New(c, "/app/words", value.Options[words]{Exact: exact})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// ending returns the value when there are no more changes.
func ending(t *testing.T, ctx context.Context, look *client.Client) words {
	t.Helper()
	if err := look.Sync(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	now, err := open(t, look, false).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return now.Value
}

// With each fault, changes are made once. While the session lives and no other client
// changes the value, no error is ambiguous.
func TestEveryFaultExact(t *testing.T) { everyFault(t, false, true) }

// The same with RenewSession.
func TestEveryFaultExactRenewed(t *testing.T) { everyFault(t, true, true) }

// The same without marks: the calls have only the value itself.
func TestEveryFaultPlain(t *testing.T) { everyFault(t, false, false) }

func everyFault(t *testing.T, renew, exact bool) {
	trial.Every(t, renew, func(w *trial.World) {
		v, l := open(w.T, w.C, exact), new(ledger)
		for i := range 3 {
			err := l.append(w.Ctx, v, fmt.Sprint(i))
			if err != nil && !w.Expires && exact {
				w.Errorf("update %d = %v, but the session lives", i, err)
			}
			if err != nil && !trial.Passing(err) && !client.IsAmbiguous(err) {
				w.Errorf("update %d = %v", i, err)
			}
		}
		if err := v.Close(w.Ctx); err != nil {
			w.Errorf("close = %v", err)
		}
		l.check(w.T, ending(w.T, w.Ctx, w.Look))
		if len(l.maybe) > 1 {
			w.Errorf("one fault left %q in doubt", l.maybe)
		}
		if w.AwaitChildren("/app", min(1, len(w.Children("/app")))); len(w.Children("/app")) > 0 {
			w.AwaitChildren("/app/words", 0)
		}
	})
}

// After a lost reply the value alone can't tell a change from the same change by another client:
// without marks the error is ambiguous, with a mark the outcome is known.
func TestSameChangeByAnother(t *testing.T) {
	for _, exact := range []bool{true, false} {
		t.Run(fmt.Sprintf("exact=%t", exact), func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			v, err := value.New(w.C, "/n", value.Options[int]{Exact: exact})
			w.Must(err)
			_, err = v.Set(w.Ctx, 1)
			w.Must(err)
			cut := w.Proxy.CutAfter(func(op client.OpCode, path string) bool {
				return strings.HasSuffix(path, "/n") && (op.String() == "multi" || op.String() == "setData")
			})
			now, err := v.Update(w.Ctx, func(n int) (int, error) { return n + 1, nil })
			<-cut.Done()
			if exact && (err != nil || now.Value != 2 || now.Stat.Version != 2) {
				t.Errorf("update = %+v, %v, want 2, as its mark tells", now, err)
			}
			if !exact && !client.IsAmbiguous(err) {
				t.Errorf("update = %+v, %v, want an ambiguous error", now, err)
			}
			w.Must(v.Close(w.Ctx))
		})
	}
}

// The Stat of a change whose reply was lost is the one that the node has.
func TestStatAfterLostReply(t *testing.T) {
	w := trial.New(t)
	v := open(t, w.C, true)
	_, err := v.Update(w.Ctx, appending("a"))
	w.Must(err)
	cut := w.Proxy.CutAfter(func(op client.OpCode, path string) bool { return op.String() == "multi" })
	now, err := v.Update(w.Ctx, appending("b"))
	w.Must(err)
	<-cut.Done()
	seen, err := v.Get(w.Ctx)
	w.Must(err)
	if now.Stat != seen.Stat {
		t.Errorf("update returned %+v, but the node has %+v", now.Stat, seen.Stat)
	}
	w.Must(v.Close(w.Ctx))
}

func TestStormExact(t *testing.T) { storm(t, true) }

func TestStormPlain(t *testing.T) { storm(t, false) }

func storm(t *testing.T, exact bool) {
	trial.Storms(t, trial.Weather{Seeds: 2}, func(s *trial.Storm) {
		l := new(ledger)
		s.Each(func(i int, rng *rand.Rand) {
			v := open(s.T, s.Client(i), exact)
			defer v.Close(s.Ctx)
			for err := error(nil); err == nil && !s.Over(); {
				err = l.append(s.Ctx, v, fmt.Sprintf("%d-%d", i, rng.Uint64()))
				if !client.IsAmbiguous(err) {
					s.Explain("update", err)
				}
			}
		})
		l.check(s.T, ending(s.T, s.Ctx, s.Look))
		s.Logf("done %d, in doubt %d, not done %d", len(l.done), len(l.maybe), len(l.never))
		if len(l.done) == 0 {
			s.Error("nothing was done")
		}
	})
}

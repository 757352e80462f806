package trial_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each request is hit once by each kind of fault, and what has happened by then is as
// the fault's name says.
func TestEveryHitsEachRequest(t *testing.T) {
	var mu sync.Mutex
	var hit []string
	group(t, func(t *testing.T) {
		trial.Every(t, false, func(w *trial.World) {
			c := w.C.WithRetry(nil)
			_, err1 := c.Create(w.Ctx, "/a", nil, client.CreateOptions{Mode: client.Ephemeral})
			_, err2 := c.Create(w.Ctx, "/b", nil, client.CreateOptions{})
			if err1 == nil && err2 == nil != !w.Hit() {
				w.Errorf("%s: create = %v, %v", w.Fault, err1, err2)
			}
			want := []string{"a", "b"}
			switch w.Fault {
			case "cut-before-1":
				want = []string{"b"}
			case "cut-before-2":
				want = []string{"a"}
			case "expired-before-1", "expired-after-1", "expired-before-2":
				want = nil
			case "expired-after-2":
				want = []string{"b"}
			}
			if got := w.AwaitChildren("/", len(want)); !slices.Equal(got, want) {
				w.Errorf("%s: there are %q, want %q", w.Fault, got, want)
			}
			mu.Lock()
			defer mu.Unlock()
			hit = append(hit, w.Fault)
		})
	})
	slices.Sort(hit)
	want := "cut-after-1 cut-after-2 cut-before-1 cut-before-2 expired-after-1 expired-after-2 expired-before-1 expired-before-2 unharmed"
	if testing.Short() { // one kind for each request
		for i, fault := range hit {
			hit[i] = fault[strings.LastIndex(fault, "-")+1:]
		}
		slices.Sort(hit)
		want = "1 2 unharmed"
	}
	if got := strings.Join(hit, " "); got != want {
		t.Errorf("runs were %s, want %s", got, want)
	}
}

// group returns when fn's subtests have ended, parallel or not.
func group(t *testing.T, fn func(t *testing.T)) {
	t.Run("group", func(t *testing.T) { t.Run("of", fn) })
}

func TestTraceIsReadable(t *testing.T) {
	w := trial.New(t)
	rec := w.Record()
	made, err := settle.Create(w.Ctx, w.C, "/lock-", nil, settle.CreateOptions{Mode: client.EphemeralSequential, By: settle.ByGUID})
	w.Must(err)
	_, err = w.C.GetW(w.Ctx, made.Path)
	w.Must(err)
	got := w.Trace(rec)
	want := []string{"create2 /_c_GUID-lock-", "getData /_c_GUID-lock-# watch"}
	if !slices.Equal(got, want) {
		t.Errorf("trace is %q, want %q", got, want)
	}
}

// A storm ends sessions and breaks connections, and the clients continue.
func TestStorms(t *testing.T) {
	var sessions, losses atomic.Int64
	group(t, func(t *testing.T) {
		trial.Storms(t, trial.Weather{Seeds: 2, Faults: 20}, func(s *trial.Storm) {
			s.Each(func(i int, _ *rand.Rand) {
				_, err := s.Client(i).WithRetry(nil).Get(s.Ctx, "/")
				switch {
				case errors.Is(err, client.ErrSessionExpired):
					sessions.Add(1)
				case errors.Is(err, client.ErrConnectionLoss):
					losses.Add(1)
				case err != nil:
					s.Errorf("get = %v", err)
				}
			})
		})
	})
	if sessions.Load() == 0 || losses.Load() == 0 {
		t.Errorf("in the storms %d sessions ended and %d requests were lost", sessions.Load(), losses.Load())
	}
}

// A storm that fails can be repeated: the command names this program's package and its
// test, and nothing else.
func TestStormsCanBeRepeated(t *testing.T) {
	got := trial.Command("TestStorm/sessions_that_end (all)/plain")
	want := `go test github.com/zkd-project/zkd/recipes/internal/trial -run '^TestStorm$/^sessions_that_end \(all\)$/^plain$'`
	if got != want {
		t.Errorf("command is %s, want %s", got, want)
	}
}

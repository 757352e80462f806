//go:build zabmutants

package zab

import (
	"fmt"
	"testing"
)

// failure ends a run of a mutant: it was noticed.
type failure string

// catcher turns what a test would report into a panic with a failure.
type catcher struct{ testing.TB }

func (c catcher) Helper()                   {}
func (c catcher) Errorf(f string, a ...any) { panic(failure(fmt.Sprintf(f, a...))) }
func (c catcher) Fatalf(f string, a ...any) { panic(failure(fmt.Sprintf(f, a...))) }

// TestMutants reports which mutants the random test notices. Most need the
// simulator; here it is of interest that the switch works.
func TestMutants(t *testing.T) {
	for _, m := range Mutants() {
		t.Run(m.String(), func(t *testing.T) {
			SetMutant(m)
			defer SetMutant(0)
			for seed := range *seeds {
				if why := noticed(t, seed); why != "" {
					t.Logf("noticed with seed %d: %s", seed, why)
					return
				}
			}
			t.Logf("not noticed in %d runs", *seeds)
		})
	}
}

func noticed(t *testing.T, seed uint64) (why string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			why = string(r)
		default:
			why = fmt.Sprint(r)
		}
	}()
	chaos(catcher{t}, seed, 2500)
	return ""
}

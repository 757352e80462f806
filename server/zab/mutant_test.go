//go:build zabmutants

package zab

import (
	"fmt"
	"os"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/internal/testing/scenario"
)

// failure is the report of a random run.
type failure string

// catcher turns the first report of a test into a panic with a failure, which ends the run.
type catcher struct{ testing.TB }

func (c catcher) Helper()                   {}
func (c catcher) Errorf(f string, a ...any) { panic(failure(fmt.Sprintf(f, a...))) }
func (c catcher) Fatalf(f string, a ...any) { panic(failure(fmt.Sprintf(f, a...))) }

// randomFinds are the mutants that TestRandom would find: at least one in thirty of its
// runs does. The simulator, server/sim, finds all mutants.
var randomFinds = []mutant.Mutant{
	appendWithoutPrev, staleSyncObeyed, damagedCounted, observerCounted, readWithoutRound, hintAheadOfCommit,
}

// TestMutants checks that the random test finds these mutants, which shows that its checks
// work.
func TestMutants(t *testing.T) {
	for _, m := range randomFinds {
		t.Run(m.String(), func(t *testing.T) {
			defer m.Plant()()
			for seed := range uint64(300) {
				if why := noticed(t, seed); why != "" {
					t.Logf("seed %d: %s", seed, why)
					return
				}
			}
			t.Error("300 random runs do not notice this fault")
		})
	}
}

// TestMutantsByPages checks that pages notice what the simulator can't, which has no addresses of servers, or seldom does.
func TestMutantsByPages(t *testing.T) {
	for m, page := range map[mutant.Mutant]string{firstListUntold: "news", roomOfStrangers: "room"} {
		text, err := os.ReadFile("testdata/" + page + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		deviates := func() bool { return scenario.Deviates(string(text), (&stage{t: t}).showing) }
		if deviates() {
			t.Fatalf("%s.txt is not so without a fault", page)
		}
		remove := m.Plant()
		if !deviates() {
			t.Errorf("no page finds %v", m)
		}
		remove()
	}
}

// noticed returns the report of a random run, or "".
func noticed(t *testing.T, seed uint64) (why string) {
	defer func() {
		if r := recover(); r != nil {
			why = fmt.Sprint(r) // a failure, or a panic of the core
		}
	}()
	chaos(catcher{t}, seed, 2500)
	return ""
}

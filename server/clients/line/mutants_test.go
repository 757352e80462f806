//go:build zabmutants

package line

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/internal/testing/scenario"
)

// byPages are the faults of lines that a page finds. Runs of the simulator find the others.
var byPages = []mutant.Mutant{
	otherKept, closerKilled, closedOpen, boundKept, silentEnded, earlierAdmitted, endedAgain, unownedKept, changeAgain, aheadServed, closingServed, requestedTimeout,
	confirmedReplayed, touchedNow, arrivingMissed, localReported, notUpgraded, visitorUpgraded, staysLocal, undecidedResumed, claimedUpgraded, localKept, slowKept, slowReadsKept,
	outcomesCut, takenServed, upgradeMissed, waitsLonger, waitsOn, refusedHeard,
}

// TestMutants plants each of them. A page must show something else.
func TestMutants(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, m := range byPages {
		found := ""
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if scenario.Deviates(string(text), newPage().command) {
				t.Fatalf("%s is not so without a fault", file)
			}
			remove := m.Plant()
			if scenario.Deviates(string(text), newPage().command) {
				found += " " + filepath.Base(file)
			}
			remove()
		}
		t.Logf("%v: %s", m, found)
		if found == "" {
			t.Errorf("no page finds %v", m)
		}
	}
}

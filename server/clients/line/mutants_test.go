//go:build zabmutants

package line

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
)

// byPages are the faults of lines that a page finds. Runs of the simulator find the others.
var byPages = []mutant.Mutant{
	otherKept, closerKilled, closedOpen, boundKept, silentEnded, earlierAdmitted, endedAgain, unownedKept, changeAgain, aheadServed, closingServed, requestedTimeout,
	confirmedReplayed, touchedNow, arrivingMissed, localReported, notUpgraded, staysLocal, resumerKept, localKept, slowKept, slowReadsKept,
	outcomesCut, takenServed, upgradeMissed,
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
			if deviates(string(text)) {
				t.Fatalf("%s is not so without a fault", file)
			}
			remove := m.Plant()
			if deviates(string(text)) {
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

// deviates reports whether a page shows something else than its file says.
func deviates(text string) (found bool) {
	defer func() {
		if recover() != nil {
			found = true
		}
	}()
	command, got := newPage().command, ""
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		switch line := lines[i]; {
		case line == "----":
			want := ""
			for i+1 < len(lines) && lines[i+1] != "" {
				i++
				want += lines[i] + "\n"
			}
			if got != want {
				return true
			}
			got = ""
		case line == "" || strings.HasPrefix(line, "#"):
		default:
			out, err := command(strings.Fields(line))
			if err != nil {
				return true
			}
			got += out
		}
	}
	return false
}

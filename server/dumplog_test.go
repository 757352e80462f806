package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/server/data"
)

// TestDumpLog dumps the log of a member with every kind of record: each record and entry
// is described, whichever of the three names of the log is given.
func TestDumpLog(t *testing.T) {
	w := newWorld(t, 3, true)
	synctest.Test(t, func(t *testing.T) {
		e := w.copied(t, 3)
		check(t, os.RemoveAll(e.dataDir(1)))
		for id := 1; id <= 3; id++ {
			check(t, e.boot(id, 30))
		}
		c := e.servers[e.leader()].connect(t)
		time.Sleep(3 * time.Second) // the empty server is admitted
		c.create("/a", "1")
		c.ephemeral("/b")
		e.settled()
		e.stopAll()
		for id := 1; id <= 3; id++ {
			journal := filepath.Join(e.dataDir(id), "journal")
			segments := mustGlob(t, filepath.Join(journal, "*.wal"))
			var whole, inside strings.Builder
			check(t, data.DumpLog(&whole, e.dataDir(id)))
			check(t, data.DumpLog(&inside, journal))
			if whole.String() != inside.String() {
				t.Errorf("dataDir:\n%s\njournal:\n%s", whole.String(), inside.String())
			}
			var one strings.Builder
			check(t, data.DumpLog(&one, segments[len(segments)-1]))
			if one.Len() == 0 || !strings.Contains(whole.String(), one.String()) {
				t.Errorf("one segment:\n%s", one.String())
			}
			text := whole.String()
			for _, bad := range []string{"malformed", "later version", "DAMAGED", "op 9"} {
				if strings.Contains(text, bad) {
					t.Errorf("server %d: %q in\n%s", id, bad, text)
				}
			}
			for _, want := range []string{
				`create "/a", 1 bytes`, "begin of the epoch, ", "committed", fmt.Sprintf("of server %d (", id), " to server ", " starts, the last one at record ", " was seen at record ",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("server %d: no %q in\n%s", id, want, text)
				}
			}
			if strings.Contains(text, ": \n") {
				t.Errorf("server %d: a record is not described:\n%s", id, text)
			}
			if !strings.Contains(text, "admits server 1 with incarnation ") {
				t.Errorf("server %d: no admission in\n%s", id, text)
			}
		}
	})
	if err := data.DumpLog(&strings.Builder{}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "no segments") {
		t.Errorf("an empty directory: %v", err)
	}
}

package command

import (
	"encoding/json"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
)

// TestWhy asks servers that are well, one of which is then stopped, and at last all.
func TestWhy(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Patient(), zktest.Config("4lw.commands.whitelist=*"))
	if err := e.WaitAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	// awaits asks until a finding is there, or until nothing is wrong if it is "".
	awaits := func(finding string, exit int) {
		t.Helper()
		for {
			out, errOut, code := run(t, t.Context(), nil, "-server", e.At(0).ConnectString(), "-o", "json", "why", "-i", "1", "--ignore", "open-root,slow-disk")
			var doc struct {
				Servers, Answered int
				Findings          []struct{ ID, Severity, What, Do string }
			}
			if err := json.Unmarshal([]byte(out), &doc); err != nil {
				t.Fatalf("exit %d, %v: %s%s", code, err, out, errOut)
			}
			found := finding == "" && len(doc.Findings) == 0
			for _, f := range doc.Findings {
				found = found || f.ID == finding
				if f.What == "" || f.Do == "" || f.Severity == "" {
					t.Errorf("got %+v", f)
				}
			}
			if found && code == exit {
				return
			}
			if err := t.Context().Err(); err != nil {
				t.Fatalf("waiting for %q: exit %d: %s", finding, code, out)
			}
		}
	}
	awaits("", 0)
	e.Stop(3)
	awaits("voter-missing", exitError)
	e.Restart(3)
	awaits("", 0)
	e.Stop(3)
	e.Stop(2)
	awaits("no-quorum", exitError)
	e.Stop(1)
	awaits("no-quorum", exitNotAsked)
}

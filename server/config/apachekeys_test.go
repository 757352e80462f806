package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
)

// TestApacheKeys checks what zkd does with each key of Apache's server, of its administrator's guide and of
// its source, by the file testdata/apache/keys-3.9.5. To write that:
//
//	go test ./server/config -run TestApacheKeys -rewrite
//
// Each key has a row that says why it has no effect, if it has none; those that Apache's server takes and
// zkd does not are no reason to stop, unless they ask for a protection.
func TestApacheKeys(t *testing.T) {
	const file = "testdata/apache/keys-3.9.5"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := unbound()
	var unspecific []string // rows for keys that zkd does not know by name
	for _, k := range laterKeys() {
		if k.Protects && strings.HasSuffix(k.Name, "*") {
			unspecific = append(unspecific, k.Name)
		}
	}
	var want strings.Builder
	for line := range strings.Lines(string(text)) {
		name := strings.Fields(line)[0]
		if kind, _, member := memberKey(name); member {
			name = kind + ".1"
		}
		k, known := dir.find(name)
		if !known || slices.Contains(unspecific, k.Name) {
			t.Errorf("there is no row for %s", name)
		}
		does := "serves"
		switch {
		case k.Status == Honoured:
		case k.Protects:
			does = "stops: " + k.Doc
		default:
			does = "warns: " + k.Doc
			l := newLoader((&driver{}).read)
			_, warnings, err := l.load([]byte("dataDir=/d\nclientPort=2181\n"+name+"=1\n"), "zoo.cfg", nil)
			if err != nil || len(warnings) != 1 {
				t.Errorf("%s: %v, warnings %v", name, err, warnings)
			}
		}
		fmt.Fprintf(&want, "%s %s\n", name, does)
	}
	if scenario.Rewrites() {
		if err := os.WriteFile(file, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want.String() != string(text) {
		t.Errorf("%s is not what the table of keys says; write it with -rewrite, and read the difference:\n%s", file, want.String())
	}
}

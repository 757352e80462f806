package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Several shells that write at the same time, and shorten the file meanwhile, lose
// no line that should be there.
func TestHistoryIsShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	const shells, each, size = 8, 50, 100
	var wg sync.WaitGroup
	for i := range shells {
		wg.Go(func() {
			h := OpenHistory(path, size)
			for j := range each {
				h.Add(fmt.Sprintf("shell %d line %d", i, j), false)
			}
			if err := h.Err(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	h := OpenHistory(path, 10*size)
	lines := h.Lines()
	if len(lines) < size || len(lines) >= 2*size {
		t.Errorf("the file has %d lines; want from %d to %d", len(lines), size, 2*size)
	}
	// The last line of each shell is among the newest: order in a shell is kept.
	last := make(map[string]int)
	for _, line := range lines {
		var shell, n int
		if _, err := fmt.Sscanf(line, "shell %d line %d", &shell, &n); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		key := fmt.Sprint(shell)
		if before, ok := last[key]; ok && n != before+1 {
			t.Errorf("shell %d: line %d follows %d", shell, n, before)
		}
		last[key] = n
	}
}

func TestHistoryKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	h := OpenHistory(path, 3)
	for _, line := range []string{"a", "b", "b", "c", "d"} {
		h.Add(line, false)
	}
	h.Add("addauth digest bob:secret", true)
	if got, want := h.Lines(), []string{"c", "d", "addauth digest bob:secret"}; !slices.Equal(got, want) {
		t.Errorf("in memory: %q, want %q", got, want)
	}
	if got, want := OpenHistory(path, 3).Lines(), []string{"b", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("of the file: %q, want %q", got, want)
	}
}

// A file that can't be written is reported once, and lines are kept in memory.
func TestHistoryCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := OpenHistory(filepath.Join(dir, "file", "history"), 3)
	h.Add("a", false)
	h.Add("b", false)
	if err := h.Err(); err == nil || h.Err() != nil {
		t.Errorf("Err: %v, then another", err)
	}
	if got := strings.Join(h.Lines(), " "); got != "a b" {
		t.Errorf("lines %q", got)
	}
}

package layout

import (
	"slices"
	"strings"
	"testing"
)

func TestIsTask(t *testing.T) {
	for _, c := range []struct {
		task, id string
		want     bool
	}{
		{"task-0000000001", "", true},
		{"task-a-0000000001", "", false},
		{"task-a-0000000001", "a", true},
		{"task-a-b-0000000001", "a", false},
		{"task-a-b-0000000001", "a-b", true},
		{"task-a-000000000x", "a", false},
		{"other", "a", false},
	} {
		if got := IsTask(c.task, c.id); got != c.want {
			t.Errorf("IsTask(%q, %q) = %v, want %v", c.task, c.id, got, c.want)
		}
	}
}

func TestOldest(t *testing.T) {
	tasks := []string{"task-a-0000000003", "task-0000000002", "x", "task-z-0000000001"}
	Oldest(tasks)
	if got := strings.Join(tasks, " "); got != "task-z-0000000001 task-0000000002 task-a-0000000003 x" {
		t.Errorf("got %s", got)
	}
}

func TestResult(t *testing.T) {
	for _, r := range []Result{{Text: []byte("A")}, {Failed: true, Text: []byte("no")}} {
		got, err := ParseResult(r.Encode())
		if err != nil || got.Failed != r.Failed || !slices.Equal(got.Text, r.Text) {
			t.Errorf("%s is read as %+v, %v", r.Encode(), got, err)
		}
	}
	if _, err := ParseResult([]byte("what?")); err == nil {
		t.Error("data that are no result are read as one")
	}
}

package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/zkd-project/zkd/internal/format"
)

func TestKindOf(t *testing.T) {
	newer := format.Snapshot.Check(99)
	for _, test := range []struct {
		name string
		err  error
		want Kind
	}{
		{"nothing", nil, 0},
		{"another error", fs.ErrClosed, 0},
		{"a later version", fmt.Errorf("load: %w", newer), Newer},
		{"damage", fmt.Errorf("load: %w", New(Damaged, "f", errors.New("crc"))), Damaged},
		{"a later version within damage", New(Damaged, "f", newer), Newer},
		{"an I/O error within damage", New(Damaged, "f", IO("f", fs.ErrPermission)), Unreadable},
		{"no file", IO("f", &fs.PathError{Op: "open", Path: "f", Err: fs.ErrNotExist}), Missing},
		{"no permission", IO("f", fs.ErrPermission), Unreadable},
	} {
		if got := KindOf(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestErrorNamesTheFileOnce(t *testing.T) {
	err := New(Damaged, "a.db", IO("a.db", fs.ErrPermission))
	if got, want := err.Error(), "a.db is unreadable: permission denied"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(err, fs.ErrPermission) {
		t.Error("the cause is not found")
	}
}

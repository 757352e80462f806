package format

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestCheck checks each format at the ends of its range and beyond them.
func TestCheck(t *testing.T) {
	for i := range formats {
		f := Format(i)
		r := f.Range()
		if f.String() == "" || r.Least == 0 || r.Least > r.Most || r.Writes < r.Least || r.Writes > r.Most {
			t.Errorf("%q: %+v", f, r)
		}
		if err := errors.Join(f.Check(r.Least), f.Check(r.Most), f.Check(f.Writes())); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for _, found := range []uint32{r.Least - 1, r.Most + 1} {
			var v *VersionError
			if err := f.Check(found); !errors.As(err, &v) || v.Found != found || !strings.Contains(err.Error(), f.String()) {
				t.Errorf("%s, version %d: %v", f, found, err)
			}
		}
	}
}

// TestFormatsAreDocumented compares the table in docs/dev/internals.md with the formats.
func TestFormatsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/dev/internals.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range All() {
		r := f.Range()
		if row := fmt.Sprintf("\n| %s | %d | %d to %d | ", f, r.Writes, r.Least, r.Most); strings.Count(string(text), row) != 1 {
			t.Errorf("docs/dev/internals.md has no row %q", row)
		}
	}
}

func TestVersionErrorNamesBothVersions(t *testing.T) {
	const want = "log segment format 7 was written by a later version of zkd; this version reads 1 to 2"
	if got := Segment.Check(7).Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

package line

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"plain-A_9.~": "plain-A_9.~",
		".":           "%2E",
		"..":          "%2E%2E",
		"...":         "...",
		"a/b":         "a%2Fb",
		"100%":        "100%25",
		"a b:c":       "a%20b%3Ac",
		"Größe":       "Gr%C3%B6%C3%9Fe",
		"\x00\xff":    "%00%FF",
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for _, name := range []string{"", "%", "%2", "%zz", "%41", "%2f", ".", "a b", "ö"} {
		if got, err := Unescape(name); err == nil {
			t.Errorf("%q is %q, but Escape makes no such name", name, got)
		}
	}
}

// Whatever the text, there is a valid node for it, and the way back.
func FuzzEscape(f *testing.F) {
	for _, text := range []string{"a", "/", ".", "..", "%2E", "\xed\xa0\x80", "😀", "zookeeper"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return
		}
		name := Escape(text)
		if err := jute.ValidatePath("/" + name); err != nil {
			t.Errorf("%q is %q: %v", text, name, err)
		}
		if back, err := Unescape(name); err != nil || back != text {
			t.Errorf("%q is %q, and that %q, %v", text, name, back, err)
		}
	})
}

package jute

import (
	"errors"
	"strings"
	"testing"
)

func TestValidatePath(t *testing.T) {
	valid := []string{
		"/", "/a", "/a/b", "/...", "/.b", "/b.", "/a/..b", "/ ", "/a b",
		"/\u00a0", "/\ud7ff", "/\uf900", "/\uffef", "/zookeeper/config", "/" + strings.Repeat("x", 5000),
	}
	for _, path := range valid {
		if err := ValidatePath(path); err != nil {
			t.Errorf("ValidatePath(%q) = %v, want nil", path, err)
		}
	}
	invalid := []struct{ path, reason string }{
		{"", "empty"},
		{"a", "begin with"},
		{"a/b", "begin with"},
		{"/a/", "ends in"},
		{"//", "ends in"},
		{"//a", "empty component"},
		{"/a//b", "empty component"},
		{"/.", "relative"},
		{"/..", "relative"},
		{"/./a", "relative"},
		{"/a/../b", "relative"},
		{"/a/.", "relative"},
		{"/\x00", "U+0000 at byte 1"},
		{"/a\x01b", "U+0001"},
		{"/\x1f", "U+001F"},
		{"/\x7f", "U+007F"},
		{"/\u0080", "U+0080"},
		{"/\u009f", "U+009F"},
		{"/ok/\ue000", "U+E000 at byte 4"},
		{"/\uf8ff", "U+F8FF"},
		{"/\ufff0", "U+FFF0"},
		{"/\uffff", "U+FFFF"},
		{"/\U0001f600", "U+1F600"},
		{"/\xff", "U+FFFD"},
		{"/\xed\xa0\x80", "U+FFFD"}, // a surrogate in CESU-8
	}
	for _, c := range invalid {
		err := ValidatePath(c.path)
		if !errors.Is(err, ErrBadArguments) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("ValidatePath(%q) = %v, want ErrBadArguments with %q", c.path, err, c.reason)
		}
	}
}

func TestSplitPath(t *testing.T) {
	for _, c := range []struct{ path, parent, name string }{
		{"/a/b/c", "/a/b", "c"},
		{"/a", "/", "a"},
		{"/", "", ""},
		{"", "", ""},
		{"a", "", "a"},
		{"/a/", "/a", ""}, // a sequence number makes the name
		{"/a//b", "/a/", "b"},
		{"//b", "/", "b"},
	} {
		parent, name := SplitPath(c.path)
		if parent != c.parent || name != c.name {
			t.Errorf("SplitPath(%q) = %q, %q, want %q, %q", c.path, parent, name, c.parent, c.name)
		}
		if Parent(c.path) != c.parent || Base(c.path) != c.name {
			t.Errorf("Parent or Base of %q differs from SplitPath", c.path)
		}
	}
}

func TestValidatePathAllocs(t *testing.T) {
	n := testing.AllocsPerRun(100, func() {
		if ValidatePath("/services/orders/leader-0000000042") != nil || ValidatePath("/größe/日本") != nil {
			t.Fatal("valid path refused")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// validSlowly is a simple twin of ValidatePath: the rules one after the other.
func validSlowly(path string) bool {
	if path == "/" {
		return true
	}
	if !strings.HasPrefix(path, "/") {
		return false
	}
	for c := range strings.SplitSeq(path[1:], "/") {
		if c == "" || c == "." || c == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, func(r rune) bool {
		return r <= 0x1f || 0x7f <= r && r <= 0x9f || 0xd800 <= r && r <= 0xf8ff || r >= 0xfff0
	})
}

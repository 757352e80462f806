package jute

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// ValidatePath checks a path by the full rules: it begins with '/', does not end with '/'
// unless it is "/" itself, and has no empty, "." or ".." component and no character that
// ZooKeeper bans (controls, surrogates, private use, U+FFF0 to U+FFFF and all beyond).
// The error wraps ErrBadArguments and describes the violation. A valid path costs no
// allocation.
//
// Text that is not UTF-8 is banned too, because it decodes to U+FFFD.
func ValidatePath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("path is empty: %w", ErrBadArguments)
	case path[0] != '/':
		return fmt.Errorf("path %q does not begin with /: %w", path, ErrBadArguments)
	case path == "/":
		return nil
	case path[len(path)-1] == '/':
		return fmt.Errorf("path %q ends in /: %w", path, ErrBadArguments)
	}
	start := 1 // of the current component
	for i := 1; i < len(path); {
		c := path[i]
		if c == '/' {
			if err := validateComponent(path, path[start:i]); err != nil {
				return err
			}
			start = i + 1
		}
		if c >= ' ' && c < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(path[i:])
		if banned(r) {
			return fmt.Errorf("path %q has banned character %U at byte %d: %w", path, r, i, ErrBadArguments)
		}
		i += size
	}
	return validateComponent(path, path[start:])
}

func validateComponent(path, c string) error {
	switch c {
	case "":
		return fmt.Errorf("path %q has an empty component: %w", path, ErrBadArguments)
	case ".", "..":
		return fmt.Errorf("path %q is relative: %w", path, ErrBadArguments)
	}
	return nil
}

// banned reports whether a path can't contain r (Apache's PathUtils, which counts UTF-16
// units, so it excludes characters that need a surrogate).
func banned(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0xd800 && r < 0xf900 || r >= 0xfff0
}

// SplitPath splits a path at its last '/' into the parent's path and the name: "/a/b"
// into "/a" and "b", "/a" into "/" and "a", "/" into "" and "". The path need not be
// valid; without '/' the parent is "".
func SplitPath(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	switch {
	case i > 0:
		return path[:i], path[i+1:]
	case i == 0 && len(path) > 1:
		return "/", path[1:]
	case i == 0:
		return "", ""
	}
	return "", path
}

// Parent returns the path of the parent: see [SplitPath].
func Parent(path string) string {
	parent, _ := SplitPath(path)
	return parent
}

// Join returns the path of a child.
func Join(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// Base returns the name of the node, without its parent: see [SplitPath].
func Base(path string) string {
	_, name := SplitPath(path)
	return name
}

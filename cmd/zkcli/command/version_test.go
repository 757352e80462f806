package command

import (
	"bytes"
	"strings"
	"testing"
)

// The flag, with one dash or two, and the command print the same, without a
// server.
func TestVersion(t *testing.T) {
	var first string
	for _, arg := range []string{"version", "--version", "-version"} {
		var out, errs bytes.Buffer
		code := Main(t.Context(), []string{arg}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" }})
		if first == "" {
			first = out.String()
		}
		if code != 0 || out.String() != first || !strings.HasPrefix(first, "ZooKeeper CLI version: zkd ") {
			t.Errorf("%s: exit code %d, %q, %q; want %q", arg, code, &out, &errs, first)
		}
	}
}

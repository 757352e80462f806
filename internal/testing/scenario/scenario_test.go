package scenario

import (
	"strings"
	"testing"
)

// TestRun runs blocks with and without output, and a block whose expectation is
// out of date: the text that comes back holds the actual output.
func TestRun(t *testing.T) {
	const text = `# Comments and empty lines stay.
say a b
say c
----
a b
c

quiet
----
`
	echo := func(words []string) (string, error) {
		switch words[0] {
		case "say":
			return strings.Join(words[1:], " "), nil
		case "quiet":
			return "", nil
		}
		return "", Unknown(words)
	}
	if got := run(t, "inline", text, echo); got != text {
		t.Errorf("got:\n%s\nwant:\n%s", got, text)
	}

	*rewrite = true
	defer func() { *rewrite = false }()
	stale := strings.Replace(text, "\nc\n\n", "\nx\ny\n\n", 1)
	if got := run(t, "inline", stale, echo); got != text {
		t.Errorf("rewrite of:\n%s\ngot:\n%s\nwant:\n%s", stale, got, text)
	}
}

package line

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Escape returns any text as the name of a node: percent-encoded as in URLs, all but
// letters and digits of ASCII and "-", "_", ".", "~". Different texts have different
// names. The text must not be empty; "." and ".." are encoded, too.
func Escape(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~", c) >= 0
}

// Unescape returns the text for which Escape returns name, and an error if there is none.
func Unescape(name string) (string, error) {
	text, err := url.PathUnescape(name)
	if err == nil && (text == "" || Escape(text) != name) {
		err = errors.New("it is not as it would be encoded")
	}
	if err != nil {
		return "", fmt.Errorf("name %q: %w", name, err)
	}
	return text, nil
}

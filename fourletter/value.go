package fourletter

import (
	"net/url"
	"strings"
)

// Value writes a name as a value in a line of cons, which can't look like the end of the line or another value: what could is written as %2C.
func Value(name string) string {
	return strings.NewReplacer("=", "%3D", "(", "%28", ")", "%29").Replace(url.PathEscape(name))
}

package apachefiles

import (
	"bytes"
	"strings"
)

// Voters returns the number of servers with a vote in the configuration node, 0 if it names
// none.
func (t *Tree) Voters() (n int) {
	config := t.find(configPath)
	if config == nil {
		return 0
	}
	for line := range bytes.Lines(config.Data) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		address, _, _ := strings.Cut(value, ";")
		if strings.HasPrefix(key, "server.") && !strings.HasSuffix(address, ":observer") {
			n++
		}
	}
	return n
}

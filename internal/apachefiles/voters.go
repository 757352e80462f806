package apachefiles

import (
	"bytes"
	"strings"
)

// Voters returns the number of servers with a vote in the configuration node, 0 if it names
// none.
func (t *Tree) Voters() int {
	if config := t.find(configPath); config != nil {
		return Voters(config.Data)
	}
	return 0
}

// Voters returns the number of servers with a vote in the text of a configuration node.
func Voters(config []byte) (n int) {
	for line := range bytes.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		address, _, _ := strings.Cut(value, ";")
		if strings.HasPrefix(key, "server.") && !strings.HasSuffix(address, ":observer") {
			n++
		}
	}
	return n
}

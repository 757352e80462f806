package config

import (
	"strings"
	"testing"
)

// TestTakeOverRefuses takes over values that fit the others of their file, and not those of the
// running server.
func TestTakeOverRefuses(t *testing.T) {
	load := func(lines ...string) *Config {
		t.Helper()
		c, _, err := Parse(strings.NewReader("dataDir=/d\nclientPort=2181\n"+strings.Join(lines, "\n")), "zoo.cfg")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, tt := range []struct {
		runs, file *Config
		key, want  string
	}{
		{load("maxSessionTimeout=9000"), load("minSessionTimeout=10000", "maxSessionTimeout=20000"), "minSessionTimeout", "the smallest session timeout would be 10s, and the largest 9s"},
		{load("maxSessionTimeout=9000"), load("minSessionTimeout=10000", "maxSessionTimeout=20000"), "", ""},
		{load(), load("enforce.auth.enabled=true", "enforce.auth.schemes=digest"), "enforce.auth.enabled", "needs at least one scheme in enforce.auth.schemes"},
		{load("DigestAuthenticationProvider.enabled=false"), load("enforce.auth.enabled=true", "enforce.auth.schemes=digest"), "", "no scheme digest before it is restarted"},
		{load(), load("enforce.auth.enabled=true", "enforce.auth.schemes=digest"), "", ""},
	} {
		_, err := tt.runs.TakeOver(tt.file, tt.key)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.key, err, tt.want)
		}
	}
}

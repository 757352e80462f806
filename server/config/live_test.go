package config

import (
	"strings"
	"testing"
	"time"
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

// TestTicksOfTheRunningServer takes over a file with another tickTime, which needs a restart: what
// follows from it does not change before.
func TestTicksOfTheRunningServer(t *testing.T) {
	parse := func(text string) *Config {
		t.Helper()
		c, _, err := Parse(strings.NewReader("dataDir=/d\nclientPort=2181\n"+text), "zoo.cfg")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, tt := range []struct {
		file     string
		min, max time.Duration
	}{
		{"tickTime=700", time.Second, 10 * time.Second},
		{"tickTime=700\nminSessionTimeout=-1\nmaxSessionTimeout=9000", time.Second, 9 * time.Second},
		{"tickTime=700\nminSessionTimeout=1400", 1400 * time.Millisecond, 10 * time.Second},
	} {
		got, err := parse("tickTime=500").TakeOver(parse(tt.file), "")
		if err != nil || got.MinSessionTimeout != tt.min || got.MaxSessionTimeout != tt.max {
			t.Errorf("%q: from %v to %v, %v; want from %v to %v", tt.file, got.MinSessionTimeout, got.MaxSessionTimeout, err, tt.min, tt.max)
		}
	}
}

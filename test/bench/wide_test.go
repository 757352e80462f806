package main

import (
	"strings"
	"testing"
	"time"
)

func TestParseTrips(t *testing.T) {
	if got, err := parseTrips("1,20"); err != nil || len(got) != 2 || got[1] != 20*time.Millisecond {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := parseTrips(""); err != nil || got != nil {
		t.Errorf("nothing: got %v, %v", got, err)
	}
	for _, bad := range []string{"0", "1,,3", "x", "2000"} {
		if got, err := parseTrips(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: got %v, %v, want an error that shows it", bad, got, err)
		}
	}
}

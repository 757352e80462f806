package line

import (
	"testing"
	"time"
)

// TestInterludeLength: connections that wait for a service wait no longer than one interlude, however many services
// begin and end meanwhile before their fences have passed.
func TestInterludeLength(t *testing.T) {
	const length = 10 * time.Second
	at := func(s int) time.Duration { return time.Duration(s) * time.Second }
	var i Interlude
	over := func(s int, fenced, want bool) {
		t.Helper()
		if got := i.Over(at(s), fenced); got != want {
			t.Errorf("at %d s, fenced %v: over is %v", s, fenced, got)
		}
	}
	over(100, false, false) // no service has ended

	i.Begin(at(100), length, true)
	over(109, false, false)
	i.Begin(at(109), length, false) // that service had no time
	over(109, false, false)
	over(110, false, true)
	over(111, false, false) // it is reported once

	i.Begin(at(200), length, true)
	over(205, true, false)
	over(210, false, false) // the fence has passed: nobody waits
	i.Begin(at(300), length, true)
	i.Begin(at(305), length, true) // its fence passed before anybody looked
	over(314, false, false)
	over(315, false, true)

	i.Begin(at(400), length, true)
	i.Stop()
	over(500, false, false)

	i.Begin(at(600), 0, true)
	over(600, false, true)
}

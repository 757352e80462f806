package clients

import (
	"testing"
	"time"
)

// However many feeds there are, a processor sends something to them no more than 2,500 times a second, as long as that keeps
// changes back for at most longRest. A few get each change at once.
func TestRestAfter(t *testing.T) {
	for _, tt := range []struct {
		fed, processors int
		want            time.Duration
	}{
		{0, 2, 0}, {3, 1, 0}, {4, 1, 1600 * time.Microsecond}, {20, 2, 4 * time.Millisecond}, {20, 64, 125 * time.Microsecond}, {100_000, 2, longRest},
	} {
		if got := restAfter(tt.fed, tt.processors); got != tt.want {
			t.Errorf("after %d connections, %d processors rest for %v, want %v", tt.fed, tt.processors, got, tt.want)
		}
	}
}

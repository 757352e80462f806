package similar

import "testing"

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"tickTime", "tickTime", 0}, {"tikTime", "tickTime", 1}, {"ticckTime", "tickTime", 1},
		{"tackTime", "tickTime", 1}, {"tickTmie", "tickTime", 1}, {"kitten", "sitting", 3}, {"ba", "abc", 2},
	} {
		if got, back := Distance(tt.a, tt.b), Distance(tt.b, tt.a); got != tt.want || back != tt.want {
			t.Errorf("%q and %q: %d and %d, want %d", tt.a, tt.b, got, back, tt.want)
		}
	}
}

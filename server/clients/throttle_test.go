package clients

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/limits"
)

// Subjects have parts of the limit by their weights, and the connections of one have equal shares of its part. A subject
// that is alone has all.
func TestThrottlerWeights(t *testing.T) {
	const limit = 1000
	for _, tt := range []struct {
		name                string
		weights             [2]int64
		holders             [2]int // connections that have waiting requests
		shareOne, shareMany int    // of one connection of each
	}{
		{"alone", [2]int64{100, 100}, [2]int{1, 0}, 1000, 0},
		{"alone with a small weight", [2]int64{1, 100}, [2]int{1, 0}, 1000, 0},
		{"many connections count as one", [2]int64{100, 100}, [2]int{1, 50}, 500, 10},
		{"three times the weight", [2]int64{300, 100}, [2]int{1, 50}, 750, 5},
		{"a tenth of the weight", [2]int64{10, 90}, [2]int{2, 2}, 50, 450},
	} {
		t.Run(tt.name, func(t *testing.T) {
			th := newThrottler(1 << 30)
			th.setLimits(limit, 0)
			var of [2]*crowd
			for i, weight := range tt.weights {
				key := crowdKey{limits.Subject{ID: jute.ID{Scheme: "sasl", ID: string(rune('a' + i))}}, weight}
				for range max(tt.holders[i], 1) {
					of[i] = th.join(key)
				}
				for range tt.holders[i] {
					th.enter(of[i], 1, true)
				}
			}
			th.waiting.Store(limit + 1)
			for i, share := range [2]int{tt.shareOne, tt.shareMany} {
				if share == 0 {
					continue
				}
				if th.over(of[i], share-1) || !th.over(of[i], share) {
					t.Errorf("subject %d: a connection is not read from some other number than %d requests on", i, share)
				}
			}
			for i := range of {
				for range tt.holders[i] {
					th.leave(of[i], 1, true)
				}
				for range max(tt.holders[i], 1) {
					th.quit(of[i])
				}
			}
			if len(th.crowds) != 0 || th.weights.Load() != 0 {
				t.Errorf("%d crowds with the weights %d are left", len(th.crowds), th.weights.Load())
			}
		})
	}
}

// From twice the limit on, and beyond the bytes that may wait, a connection with one waiting request is not read, and one
// without is.
func TestThrottlerAtTwice(t *testing.T) {
	const limit, maxBytes = 1000, 1 << 20
	th := newThrottler(maxBytes)
	th.setLimits(limit, 0)
	of := th.join(crowdKey{limits.Subject{ID: jute.ID{Scheme: "sasl", ID: "a"}}, 100})
	for _, tt := range []struct {
		waiting, bytes int64
		over           bool // where the connection has one waiting request
	}{{limit, maxBytes, false}, {2 * limit, 0, false}, {2*limit + 1, 0, true}, {1, maxBytes + 1, true}} {
		th.waiting.Store(tt.waiting)
		th.bytes.Store(tt.bytes)
		if th.over(of, 0) || th.over(of, 1) != tt.over {
			t.Errorf("with %d requests of %d bytes: a connection with none or one of them has to wait: %v, %v", tt.waiting, tt.bytes, th.over(of, 0), th.over(of, 1))
		}
	}
}

package value_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
)

// count is an operation on the counter: an Add of delta, or with read a read.
type counterCount struct {
	delta int64
	read  bool
}

// unknown is the output of a count whose outcome is unknown: it may take effect at any time
// after its call, or never.
type unknown struct{}

// failed is the output of a count that was surely not done.
type failed struct{}

// counting is the model: a number.
func counting(seed int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return seed },
		Step: func(state, in, out any) (bool, any) {
			n, c := state.(int64), in.(counterCount)
			switch out := out.(type) {
			case failed:
				return true, n
			case unknown:
				return true, n + c.delta // "never" is an effect at the end, after all reads
			default:
				return out.(int64) == n+c.delta, n + c.delta
			}
		},
	}
}

// history records calls and their results.
type history struct {
	clock atomic.Int64
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// note runs do and records the call. do returns the number, failed, or unknown.
func (h *history) note(who int, c counterCount, do func() any) {
	call := h.clock.Add(1)
	out := do()
	end := h.clock.Add(1)
	if _, ok := out.(unknown); ok {
		end = math.MaxInt64 // it may still take effect
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: who, Input: c, Call: call, Output: out, Return: end})
}

// check lets Porcupine search for an order of all calls that explains their results.
func (h *history) check(t *testing.T, seed int64) {
	t.Helper()
	if !porcupine.CheckOperations(counting(seed), h.ops) {
		t.Errorf("there is no order that explains the %d operations", len(h.ops))
	}
}

// sums returns the total of the counts that were surely done, and of those in doubt.
func (h *history) sums() (surely, maybe int64) {
	for _, op := range h.ops {
		switch op.Output.(type) {
		case unknown:
			maybe += op.Input.(counterCount).delta
		case int64:
			surely += op.Input.(counterCount).delta
		}
	}
	return surely, maybe
}

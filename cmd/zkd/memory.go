package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The garbage collector lets the heap grow by a percentage of the live heap before it
// collects again: by default 100, which would double the memory of a large tree and keep
// the collector busy with a small one. The memory that a server needs between two
// collections does not depend on its tree, so tuneMemory keeps it roughly constant. It is
// cheap because the tree has hardly any pointers to follow.
const (
	gcHeadroom = 64 << 20 // bytes allocated between two collections
	gcLeast    = 15       // percent of the live heap, regardless of the headroom
	gcMost     = 800
	gcLook     = 500 * time.Millisecond
)

// tuneMemory adjusts the collector's percentage to the live heap until ctx is done. It is called
// when the state has been loaded: before, hardly anything becomes garbage, and a collection for each
// gcLeast percent that the tree grows would be in vain. GOGC
// or GOMEMLIMIT in the environment mean that the operator has chosen a value; it then
// does nothing.
func tuneMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := 0
	tick := time.NewTicker(gcLook)
	defer tick.Stop()
	for {
		metrics.Read(live)
		if p := gcPercent(live[0].Value.Uint64()); p < percent*9/10 || p > percent*11/10 {
			percent = p
			debug.SetGCPercent(percent)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// gcPercent returns the percentage that leaves gcHeadroom over this live heap.
func gcPercent(live uint64) int {
	return max(gcLeast, min(gcMost, int(gcHeadroom*100/max(live, 1))))
}

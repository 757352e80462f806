package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/pause"
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

	calmBytes    = 512 << 10 // allocated between two looks at most, while there is little to do
	calmLooks    = 4
	releaseLeast = 16 << 20 // bytes given back at a time, or a sixteenth of the live heap
)

// limitMemory sets the collector's limit below that of the process, if there is one: near it the
// collector works more, before the kernel ends the process. GOMEMLIMIT in the environment stays as it is.
func limitMemory(configured int64) memoryLimit {
	env := os.Getenv("GOMEMLIMIT")
	limit := chosenLimit(configured, env, debug.SetMemoryLimit(-1), readText)
	if env == "" && limit.bytes > 0 {
		debug.SetMemoryLimit(limit.soft())
	}
	return limit
}

// warnOfMemory warns if the state that was loaded needs most of the memory that there is.
func warnOfMemory(log *zap.Logger, limit memoryLimit) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	if used := int64(heap[0].Value.Uint64()); memoryIsNear(used, limit.bytes) {
		log.Warn("the data takes most of the memory that this process may have: raise the limit, on all servers, or delete data; at the limit the system ends the process, "+
			"and other members have the same data", append(limit.fields(), zap.Int64("memory_used", used))...)
	}
}

// memoryIsNear reports whether at least three quarters of a limit are used. 0 is no limit.
func memoryIsNear(used, limit int64) bool { return limit > 0 && used >= limit/4*3 }

// tuneMemory adjusts the collector's percentage to the live heap until ctx is done, and gives memory
// that is not needed back to the system when there is little to do. It is called when the state has
// been loaded: before, hardly anything becomes garbage, and a collection for each gcLeast percent that
// the tree grows would be in vain. GOGC or GOMEMLIMIT in the environment mean that the operator has
// chosen a value; it then does nothing.
func tuneMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	heap := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	percent := 0
	var calm calmness
	for {
		metrics.Read(heap)
		live, allocated := heap[0].Value.Uint64(), heap[1].Value.Uint64()
		if p := gcPercent(live); p < percent*9/10 || p > percent*11/10 {
			percent = p
			debug.SetGCPercent(percent)
		}
		if used := heap[2].Value.Uint64() + heap[3].Value.Uint64(); calm.look(allocated) && used >= live+max(releaseLeast, live/16) {
			debug.FreeOSMemory()
		}
		if pause.For(ctx, gcLook) != nil {
			return
		}
	}
}

// calmness is for how long little has been allocated.
type calmness struct {
	allocated uint64 // bytes in all, when it was looked at last
	calm      int    // consecutive looks with little allocation
}

// look reports whether there is little to do: little has been allocated for some time.
func (c *calmness) look(allocated uint64) bool {
	if allocated-c.allocated > calmBytes {
		c.calm = 0
	} else {
		c.calm++
	}
	c.allocated = allocated
	return c.calm >= calmLooks
}

// gcPercent returns the percentage that leaves gcHeadroom over this live heap.
func gcPercent(live uint64) int {
	return max(gcLeast, min(gcMost, int(gcHeadroom*100/max(live, 1))))
}

// Package seeds gives tests the seeds of their random choices. They are the same in each run:
// a test that has passed passes again, unless the code has changed. If the variable ZKD_SEED
// is "fresh", each run has other seeds. If it is a number, such as one that a failed test has
// logged, that is the first seed.
package seeds

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// First returns a test's seed and logs it. A test that needs several uses the following
// numbers, too.
func First(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	switch v := os.Getenv("ZKD_SEED"); v {
	case "":
		return seed
	case "fresh":
		seed = rand.Uint64N(1 << 53)
	default:
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("ZKD_SEED: %q is not a number, nor fresh", v)
		}
	}
	t.Logf("ZKD_SEED=%d", seed)
	return seed
}

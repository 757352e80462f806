// Package seeds gives tests the seeds of their random choices. They are the same in
// each run: a test that has passed passes again, unless the code has changed. With
// the variable ZKD_SEED set to "fresh" each run has others, and with a number, such as
// a failed test has logged, that one is the first.
package seeds

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// First returns a test's seed and logs it. A test with several uses those that follow
// it as well.
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

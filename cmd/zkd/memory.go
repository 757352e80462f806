package main

import (
	"os"
	"runtime/debug"
)

// tuneMemory makes the garbage collector keep the heap small unless the
// operator has decided (GOGC). The tree's memory has hardly any pointers, so
// collecting it often is cheap, while the default would let the heap double.
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

const gcPercent = 40

// Package standin replaces a *testing.T where there is none: in an example, and in a test of
// a function that fails tests.
package standin

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// T is a test without a name that ends with End. Several goroutines may use it.
type T struct {
	testing.TB           // nil: other methods are not used
	out        io.Writer // for failures; nil for none

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// New returns a test inside a test: Failures returns how it failed.
func New() *T { return &T{} }

// Example returns a test inside an example. It prints its failures, so that the example's
// output is wrong.
func Example() *T { return &T{out: os.Stdout} }

// Helper does nothing.
func (t *T) Helper() {}

// Log does nothing.
func (t *T) Log(...any) {}

// Logf does nothing.
func (t *T) Logf(string, ...any) {}

// Context returns a context without an end.
func (t *T) Context() context.Context { return context.Background() }

// Errorf records a failure.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	failure := fmt.Sprintf(format, args...)
	t.failures = append(t.failures, failure)
	if t.out != nil {
		_, _ = fmt.Fprintln(t.out, failure) // an error can't be reported anywhere
	}
}

// Fatalf panics.
func (t *T) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Failed reports whether there was a failure.
func (t *T) Failed() bool { return t.Failures() != "" }

// Failures returns the failures, each of which is a line.
func (t *T) Failures() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.failures, "\n")
}

// Cleanup has fn called by End.
func (t *T) Cleanup(fn func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, fn)
}

// End ends the test and runs its cleanups.
func (t *T) End() {
	t.mu.Lock()
	cleanups := t.cleanups
	t.cleanups = nil
	t.mu.Unlock()
	for _, fn := range slices.Backward(cleanups) {
		fn()
	}
}

// Package standin stands in for a *testing.T: in an example, which has none, and in
// a test of what fails a test.
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

// T is a test that has no name and ends with End. It may be used from several
// goroutines.
type T struct {
	testing.TB           // nil: what is not below is not used
	out        io.Writer // where failures are printed; nil for nowhere

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// New returns a test inside a test: Failures says how it failed.
func New() *T { return &T{} }

// Example returns a test inside an example. It prints how it fails, so that the
// example has not the output that it should.
func Example() *T { return &T{out: os.Stdout} }

// Helper does nothing.
func (t *T) Helper() {}

// Log does nothing.
func (t *T) Log(...any) {}

// Logf does nothing.
func (t *T) Logf(string, ...any) {}

// Context returns a context without an end.
func (t *T) Context() context.Context { return context.Background() }

// Errorf notes a failure.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	failure := fmt.Sprintf(format, args...)
	t.failures = append(t.failures, failure)
	if t.out != nil {
		_, _ = fmt.Fprintln(t.out, failure) // nobody to tell
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

// End does what the end of a test does.
func (t *T) End() {
	t.mu.Lock()
	cleanups := t.cleanups
	t.cleanups = nil
	t.mu.Unlock()
	for _, fn := range slices.Backward(cleanups) {
		fn()
	}
}

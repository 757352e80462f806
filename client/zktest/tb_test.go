package zktest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeTest is a test inside a test, or inside an example: what fails in it can be
// looked at.
type fakeTest struct {
	testing.TB // nil: what is not below is not used
	ctx        context.Context

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func newFakeTest() *fakeTest { return &fakeTest{ctx: context.Background()} }

func (f *fakeTest) Helper()                  {}
func (f *fakeTest) Log(...any)               {}
func (f *fakeTest) Context() context.Context { return f.ctx }
func (f *fakeTest) Failed() bool             { return len(f.failed()) > 0 }
func (f *fakeTest) Cleanup(fn func())        { f.cleanups = append(f.cleanups, fn) }

func (f *fakeTest) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func (f *fakeTest) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (f *fakeTest) failed() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.failures, "\n")
}

// end does what the end of a test does.
func (f *fakeTest) end() {
	for _, fn := range slices.Backward(f.cleanups) {
		fn()
	}
}

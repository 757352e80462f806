package cache_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// connect gives an example a server of its own and a client.
func connect() (c *client.Client, done func()) {
	t := &exampleTest{}
	c, err := client.Connect(context.Background(), zktest.Start(t).ConnectString(), client.Options{Logger: client.NoLog})
	if err != nil {
		panic(err)
	}
	return c, func() {
		c.Close(context.Background())
		for _, fn := range slices.Backward(t.cleanups) {
			fn()
		}
	}
}

// exampleTest stands in for the *testing.T that examples don't get.
type exampleTest struct {
	testing.TB // nil: what is not below is not used
	cleanups   []func()
}

func (t *exampleTest) Helper()                           {}
func (t *exampleTest) Log(...any)                        {}
func (t *exampleTest) Failed() bool                      { return false }
func (t *exampleTest) Context() context.Context          { return context.Background() }
func (t *exampleTest) Cleanup(fn func())                 { t.cleanups = append(t.cleanups, fn) }
func (t *exampleTest) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleTest) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (t *exampleTest) TempDir() string {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

package command

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
)

// What waits for stdin has to end when it is told to, though the input continues.
func TestWaitForStdinEndsBySignal(t *testing.T) {
	s := zktest.Start(t)
	create(t, s.Client(t), "/a", "")
	for name, args := range map[string][]string{
		"script": nil, "set": {"set", "/a", "-"}, "import": {"import", "-", "/b"},
	} {
		t.Run(name, func(t *testing.T) {
			in, stuck := io.Pipe()
			defer stuck.Close()
			asked := make(chan struct{}, 100)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, errs strings.Builder
			a := New(Streams{In: reading{in, asked}, Out: &out, Err: &errs, Getenv: func(string) string { return "" }})
			defer a.Close()
			code := make(chan int, 1)
			go func() { code <- a.Run(ctx, append([]string{"-server", s.ConnectString()}, args...)) }()
			<-asked
			cancel()
			if got := <-code; got != exitInterrupt {
				t.Errorf("exit %d: %s", got, errs.String())
			}
		})
	}
}

// reading tells when it is read from.
type reading struct {
	io.Reader
	asked chan<- struct{}
}

// Read reads.
func (r reading) Read(p []byte) (int, error) {
	r.asked <- struct{}{}
	return r.Reader.Read(p)
}

func TestDeadlineNamesItsFlag(t *testing.T) {
	s := zktest.Start(t)
	r := start(t, s.ConnectString(), "--deadline", "20ms", "watch", "/")
	r.err.await(t, "the --deadline of 20ms has passed")
	if code := <-r.code; code != exitTimeout {
		t.Errorf("exit %d", code)
	}
}

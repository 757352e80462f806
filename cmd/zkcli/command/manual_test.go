package command

import (
	"io"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/manual"
)

func TestManual(t *testing.T) {
	a := New(Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
	manual.Write(t, a.root(&a.opts), "1")
}

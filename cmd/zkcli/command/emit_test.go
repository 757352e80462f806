package command

import (
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
)

// The brackets of an empty list would be a line for a script that counts lines.
func TestRawListOfNothingIsEmpty(t *testing.T) {
	s := zktest.Start(t)
	create(t, s.Client(t), "/a", "")
	for _, args := range [][]string{{"ls", "/a"}, {"getEphemerals"}} {
		var out, errs strings.Builder
		a := New(Streams{Out: &out, Err: &errs, Getenv: func(string) string { return "" }})
		code := a.Run(t.Context(), append([]string{"-server", s.ConnectString(), "-o", "raw"}, args...))
		a.Close()
		if code != 0 || out.String() != "" {
			t.Errorf("%v: exit %d, %q", args, code, out.String())
		}
	}
}

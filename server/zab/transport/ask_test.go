package transport

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/format"
)

// TestAsk asks a server what it speaks, as an operator does before an upgrade: with the id of a
// server that runs, with and without a secret. No link comes up or ends by that.
func TestAsk(t *testing.T) {
	most := format.History.Range().Most
	for _, tc := range []struct {
		name, secret string
		reads, needs uint32 // of the server that is asked
		ours         uint32 // what our history needs
		mismatch     string
	}{
		{"the same version", "", most, 1, most, ""},
		{"a secret", "sesame", most, 1, 1, ""},
		{"an earlier version", "", 2, 2, 2, ""},
		{"a history that an earlier version can't read", "", 2, 2, 5, "server 2 reads up to format 2: the version of server 2 is too old"},
		{"a later history", "", most + 1, most + 1, 2, "the version of server 1 is too old"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newMemNet()
				change := func(o *Options) {
					o.Secret, o.Reads, o.Needs = []byte(tc.secret), tc.reads, func() uint32 { return tc.needs }
				}
				a, b := newNode(t, net, 1, 2, change), newNode(t, net, 2, 2, change)
				within(t, time.Second, "a link", func() bool { return linked(a, b) })
				q := Question{Self: 1, To: 2, Addr: addrOf(2), Needs: tc.ours, DialFunc: net.dialer("s1")}
				v, mismatch, err := q.Ask(context.Background())
				if err != nil || v != (Versions{minVersion, maxVersion, tc.reads, tc.needs}) || (mismatch == "") != (tc.mismatch == "") || !strings.Contains(mismatch, tc.mismatch) {
					t.Errorf("%+v, %q, %v; want %q", v, mismatch, err, tc.mismatch)
				}
				time.Sleep(time.Second)
				if !linked(a, b) {
					t.Error("the link ended")
				}
			})
		})
	}
}

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/auth/sasl"
)

func TestSASLUser(t *testing.T) {
	for _, c := range []struct {
		args  []string
		stdin string
		want  string // the beginning of the line; "" is an error
	}{
		{[]string{"bob"}, "secret\n", "bob SCRAM-SHA-256$4096:"},
		{[]string{"bob"}, "secret", "bob SCRAM-SHA-256$4096:"},
		{[]string{"b o b", "--mechanism", "SCRAM-SHA-512"}, "secret\r\n", `"b o b" SCRAM-SHA-512$4096:`},
		{[]string{"bob"}, "\n", ""},
		{[]string{""}, "secret\n", ""},
		{[]string{"bob", "--mechanism", "PLAIN"}, "secret\n", ""},
		{nil, "secret\n", ""},
	} {
		var out bytes.Buffer
		cmd := newRoot(&out)
		cmd.SetArgs(append([]string{"sasl-user"}, c.args...))
		cmd.SetIn(strings.NewReader(c.stdin))
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		err := cmd.Execute()
		if c.want == "" {
			if err == nil {
				t.Errorf("%q: no error, and %s", c.args, out.String())
			}
			continue
		}
		if err != nil || !strings.HasPrefix(out.String(), c.want) {
			t.Errorf("%q: %s, %v", c.args, out.String(), err)
		}
		if _, err := sasl.ParseUsers(out.Bytes()); err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

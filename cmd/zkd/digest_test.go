package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestDigest has the identities that ZooKeeper's DigestAuthenticationProvider prints.
func TestDigest(t *testing.T) {
	for _, c := range []struct {
		args  []string
		stdin string
		want  string // "" is an error
	}{
		{[]string{"super"}, "secret\n", "super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n"},
		{[]string{"super"}, "secret", "super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n"},
		{[]string{"super"}, "secret\r\nmore", "super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n"},
		{[]string{"super", "--alg", "MD5"}, "secret", "super:a0jjl2hSRgOYyP70Eq+wUw==\n"},
		{[]string{"super", "--alg", "CRC"}, "secret", ""},
		{[]string{"super"}, "\n", ""},
		{[]string{"super"}, "", ""},
		{[]string{"a:b"}, "secret", ""},
		{[]string{""}, "secret", ""},
		{nil, "secret", ""},
		{[]string{"super", "secret"}, "secret", ""},
	} {
		var out, errs bytes.Buffer
		cmd := newRoot(&out)
		cmd.SetArgs(append([]string{"digest"}, c.args...))
		cmd.SetIn(strings.NewReader(c.stdin))
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		if err := cmd.Execute(); (err == nil) != (c.want != "") || err == nil && out.String() != c.want {
			t.Errorf("%q: %q, %v", c.args, out.String(), err)
		}
	}
}

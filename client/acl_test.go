package client

import (
	"slices"
	"strings"
	"testing"
)

func TestDigestID(t *testing.T) {
	// The values are those of Apache's DigestAuthenticationProvider.
	for _, c := range []struct{ user, password, want string }{
		{"super", "secret", "super:lK75jTNcA+U9vtVEw5vB51mj/w4="},
		{"super", "test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="},
		{"pat", "pass:word", "pat:TrQZOKrRKR5u7JHFtH+ccEFscKs="},
	} {
		got := DigestID(c.user, c.password)
		if want := (ID{Scheme: "digest", ID: c.want}); got != want {
			t.Errorf("DigestID(%q, %q) = %v, want %v", c.user, c.password, got, want)
		}
	}
}

func TestParseACL(t *testing.T) {
	grant := func(perms Perms, scheme, id string) ACL { return ACL{Perms: perms, ID: ID{Scheme: scheme, ID: id}} }
	for _, c := range []struct {
		in   string
		want []ACL
	}{
		{"world:anyone:cdrwa", OpenACL()},
		{"world:anyone:awrdc", OpenACL()},
		{"world:anyone:r", ReadACL()},
		{"auth::cdrwa", CreatorACL()},
		{"world:anyone:", []ACL{grant(0, "world", "anyone")}},
		{"ip:10.0.0.0/8:rw", []ACL{grant(PermRead|PermWrite, "ip", "10.0.0.0/8")}},
		{"ip:fe80::1:c", []ACL{grant(PermCreate, "ip", "fe80::1")}},
		{"digest:bob:aGk=:a", []ACL{grant(PermAdmin, "digest", "bob:aGk=")}},
		{"world:anyone:r,digest:bob:aGk=:rw", []ACL{grant(PermRead, "world", "anyone"), grant(PermRead|PermWrite, "digest", "bob:aGk=")}},
		{"x509:CN=app,OU=x,O=Ex:rw,sasl:bob:d", []ACL{grant(PermRead|PermWrite, "x509", "CN=app,OU=x,O=Ex"), grant(PermDelete, "sasl", "bob")}},
		{`x509:O=Ex\, Inc:r`, []ACL{grant(PermRead, "x509", `O=Ex\, Inc`)}},
	} {
		got, err := ParseACL(c.in)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("ParseACL(%q) = %v, %v; want %v", c.in, got, err, c.want)
		}
		again, err := ParseACL(FormatACL(c.want))
		if err != nil || !slices.Equal(again, c.want) {
			t.Errorf("ParseACL(%q) = %v, %v; want %v", FormatACL(c.want), again, err, c.want)
		}
	}
}

func TestParseACLErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", `ACL entry "" is not scheme:id:permissions`},
		{"world", "is not scheme:id:permissions"},
		{"world:anyone", "is not scheme:id:permissions"},
		{":anyone:r", "is not scheme:id:permissions"},
		{"world:anyone:r,", `ACL entry ""`},
		{"world:anyone:cdrwx", `permissions "cdrwx", of which "x" is none of c, d, r, w, a`},
		{"world:anyone:R", `"R" is none of`},
		{"world:anyone,digest:bob:aGk=:r", `ACL entry "world:anyone"`},
		{"world:anyone:q,digest:bob:aGk=:r", `ACL entry "world:anyone:q"`},
	} {
		acl, err := ParseACL(c.in)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ParseACL(%q) = %v, %v; want an error with %q", c.in, acl, err, c.want)
		}
	}
}

func FuzzParseACL(f *testing.F) {
	f.Add("world:anyone:cdrwa,digest:bob:aGk=:rw")
	f.Add(`x509:CN=app,O=Ex\, Inc:r,ip:::1/128:`)
	f.Fuzz(func(t *testing.T, s string) {
		acl, err := ParseACL(s)
		if err != nil {
			return
		}
		again, err := ParseACL(FormatACL(acl))
		if err != nil || !slices.Equal(again, acl) {
			t.Errorf("%q is %v, written %q and read again %v, %v", s, acl, FormatACL(acl), again, err)
		}
	})
}

package auth_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
)

const (
	superSecret = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=" // of super:secret, by Apache's server
	bobPW       = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="   // of bob:pw, likewise
)

func newSchemes(t testing.TB, change ...func(*auth.Config)) *auth.Schemes {
	t.Helper()
	cfg := auth.Config{DigestEnabled: true, SuperDigest: superSecret}
	for _, f := range change {
		f(&cfg)
	}
	s, err := auth.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// id parses "scheme:name".
func id(s string) jute.ID {
	scheme, name, _ := strings.Cut(s, ":")
	return jute.ID{Scheme: scheme, ID: name}
}

func ids(list ...string) []jute.ID {
	var out []jute.ID
	for _, s := range list {
		out = append(out, id(s))
	}
	return out
}

// acl parses a list of "perms scheme:name".
func acl(list ...string) []jute.ACL {
	out := []jute.ACL{}
	for _, s := range list {
		var a jute.ACL
		perms, name, _ := strings.Cut(s, " ")
		if _, err := fmt.Sscan(perms, &a.Perms); err != nil {
			panic(err)
		}
		a.ID = id(name)
		out = append(out, a)
	}
	return out
}

func TestNewRefusesUnknownHash(t *testing.T) {
	if _, err := auth.New(auth.Config{DigestEnabled: true, DigestAlg: "CRC32"}); err == nil {
		t.Error("New accepted the hash CRC32")
	}
}

func TestAuthenticate(t *testing.T) {
	bob := "digest:" + bobPW
	for _, tc := range []struct {
		name, scheme, data string
		have, want         []jute.ID
		err                error
	}{
		{name: "user and password", scheme: "digest", data: "bob:pw", want: ids("ip:1.1.1.1", bob)},
		{name: "twice is once", scheme: "digest", data: "bob:pw", have: ids(bob), want: ids(bob)},
		{name: "super brings both", scheme: "digest", data: "super:secret",
			want: ids("ip:1.1.1.1", "super:", "digest:"+superSecret)},
		{name: "wrong super password", scheme: "digest", data: "super:guess",
			want: ids("ip:1.1.1.1", "digest:super:ITOrghrykDjaxPdBpYo9rX5CvCw=")},
		{name: "no colon", scheme: "digest", data: "bob",
			want: ids("ip:1.1.1.1", "digest:bob:SBgazSKz7a68ikR4aKfffOYpkgo=")},
		{name: "password with colons", scheme: "digest", data: "a:b:c",
			want: ids("ip:1.1.1.1", "digest:a:cLzgnoJ6mP5qz3w+mwvPE2vDgu0=")},
		{name: "ip adds nothing", scheme: "ip", want: ids("ip:1.1.1.1")},
		{name: "world can't be proved", scheme: "world", data: "anyone", err: jute.ErrAuthFailed},
		{name: "nor auth", scheme: "auth", err: jute.ErrAuthFailed},
		{name: "nor super", scheme: "super", err: jute.ErrAuthFailed},
		{name: "not configured", scheme: "sasl", err: jute.ErrAuthFailed},
		{name: "no name", scheme: "", err: jute.ErrAuthFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			have := tc.have
			if have == nil {
				have = ids("ip:1.1.1.1")
			}
			got, err := newSchemes(t).Authenticate(tc.scheme, []byte(tc.data), auth.NewCredentials(have...))
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if err == nil && !slices.Equal(got.IDs(), tc.want) {
				t.Errorf("got  %v\nwant %v", got, tc.want)
			}
		})
	}
}

// TestAuthenticateWithNull checks that null data proves no user, but that the ip scheme
// ignores the data.
func TestAuthenticateWithNull(t *testing.T) {
	have := auth.NewCredentials(ids("ip:1.1.1.1")...)
	if got, err := newSchemes(t).Authenticate("digest", nil, have); !errors.Is(err, jute.ErrAuthFailed) {
		t.Errorf("digest: got %v, %v, want ErrAuthFailed", got, err)
	}
	if got, err := newSchemes(t).Authenticate("ip", nil, have); err != nil || !slices.Equal(got.IDs(), have.IDs()) {
		t.Errorf("ip: got %v, %v, want %v", got, err, have)
	}
}

// The digests are those that openssl dgst computes for bob:pw.
func TestAuthenticateHashes(t *testing.T) {
	for alg, want := range map[string]string{
		"":         bobPW,
		"SHA1":     bobPW,
		"sha-1":    bobPW,
		"MD5":      "bob:mFIN705h49CRioANaL/new==",
		"SHA-256":  "bob:lXdkgIa9O1CDDWAryQ0pe9wUYi2LkG6M7Uocn/Vyn2g=",
		"SHA-512":  "bob:jQFpfQMlS0Fkelz3cdxBlcfmOOApGvKAjybCSpc/oHQD7ouOUKaAFXPlHr/2XpjmwJ0yssqB0Mh7gRRVqmyALQ==",
		"SHA3-256": "bob:W/mjsw4pvF0wVTGZI9EiUQDRnUt7BAezTWEy2LgNGUU=",
	} {
		s := newSchemes(t, func(c *auth.Config) { c.DigestAlg = alg })
		got, err := s.Authenticate("digest", []byte("bob:pw"), nil)
		if err != nil || len(got.IDs()) != 1 || got.IDs()[0].ID != want {
			t.Errorf("hash %q: got %v, %v, want %s", alg, got, err, want)
		}
	}
}

// A request keeps the identities that its connection had when it arrived.
func TestAuthenticateLeavesPublishedSliceAlone(t *testing.T) {
	s := newSchemes(t)
	list := make([]jute.ID, 1, 8)
	list[0] = id("ip:1.1.1.1")
	have := auth.NewCredentials(list...)
	first, _ := s.Authenticate("digest", []byte("a:1"), have)
	second, _ := s.Authenticate("digest", []byte("b:2"), have)
	if first.IDs()[1].ID[0] != 'a' || second.IDs()[1].ID[0] != 'b' || list[:2][1] != (jute.ID{}) {
		t.Errorf("slices share memory: %v, %v, %v", list[:2], first, second)
	}
}

func TestAuthenticateBoundsIdentities(t *testing.T) {
	s := newSchemes(t)
	var have *auth.Credentials
	var err error
	for i := 0; err == nil; i++ {
		if i > 10_000 {
			t.Fatalf("a connection got %d identities", len(have.IDs()))
		}
		have, err = s.Authenticate("digest", fmt.Appendf(nil, "user%d:pw", i), have)
	}
	if !errors.Is(err, jute.ErrAuthFailed) || len(have.IDs()) != 65 {
		t.Errorf("after %d identities: %v", len(have.IDs()), err)
	}
	if _, err := s.Authenticate("digest", []byte("user0:pw"), have); err != nil {
		t.Errorf("an identity that the full connection has: %v", err)
	}
	name := strings.Repeat("u", 5000)
	have, err = nil, nil
	for i := 0; err == nil && i < 10; i++ {
		have, err = s.Authenticate("digest", fmt.Appendf(nil, "%s%d:pw", name, i), have)
	}
	if !errors.Is(err, jute.ErrAuthFailed) || len(have.IDs()) != 3 {
		t.Errorf("after %d long identities: %v", len(have.IDs()), err)
	}
}

// A list is bounded after its entries of scheme auth are replaced, whatever the request looks like.
func TestFixACLBoundsEntries(t *testing.T) {
	s := newSchemes(t)
	var list []jute.ID
	for i := range 64 {
		list = append(list, jute.ID{Scheme: "digest", ID: fmt.Sprintf("user%d:hash", i)})
	}
	fix := func(auths, others int) ([]jute.ACL, error) {
		var in []jute.ACL
		for i := range auths {
			in = append(in, jute.ACL{Perms: jute.Perms(i), ID: jute.ID{Scheme: "auth"}})
		}
		for i := range others {
			in = append(in, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("other%d:hash", i)}})
		}
		return s.FixACL(in, list)
	}
	for _, tc := range []struct{ auths, others, want int }{
		{16, 0, 1024}, {16, 1, 0}, {17, 0, 0}, {68, 0, 0}, {0, 1024, 1024}, {0, 1025, 0}, {1, 960, 1024}, {1, 961, 0}, {0, 80_000, 0},
	} {
		if got, err := fix(tc.auths, tc.others); len(got) != tc.want || (err != nil) != (tc.want == 0) || err != nil && !errors.Is(err, jute.ErrInvalidACL) {
			t.Errorf("%d entries for %d identities, and %d others: %d entries, %v; want %d", tc.auths, len(list), tc.others, len(got), err, tc.want)
		}
	}
	all := make([]jute.ACL, 0, 1024+64)
	for i := range 1024 - 64 {
		all = append(all, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("other%d:hash", i)}})
	}
	for _, id := range list {
		all = append(all, jute.ACL{Perms: jute.PermAll, ID: id})
	}
	all[0] = jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}} // for those that follow
	if got, err := s.FixACL(all, list); err != nil || len(got) > 1024 {
		t.Errorf("entries that are there twice after the replacement count twice: %d, %v", len(got), err)
	}
}

// An answer about a long list is remembered for a request, and says what it cost.
func TestLongListsAreComparedOnce(t *testing.T) {
	s := newSchemes(t)
	var long []jute.ACL
	for i := range 1000 {
		long = append(long, jute.ACL{Perms: jute.PermRead, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("user%d:hash", i)}})
	}
	one := ids("digest:user999:hash")
	var m auth.Memory
	for _, tc := range []struct {
		acl    []jute.ACL
		perms  jute.Perms
		want   bool
		looked int
	}{
		{long, jute.PermRead, true, 1000}, {long, jute.PermRead, true, 0}, {long, jute.PermWrite, false, 1000}, {long, jute.PermWrite, false, 0},
		{long[:999], jute.PermRead, false, 999}, {long[999:], jute.PermRead, true, 0},
	} {
		if got, looked := s.AllowedOnce(&m, tc.acl, tc.perms, one); got != tc.want || looked != tc.looked {
			t.Errorf("%d entries, %v: %v after %d entries, want %v after %d", len(tc.acl), tc.perms, got, looked, tc.want, tc.looked)
		}
	}
	m.Forget()
	if got, looked := s.AllowedOnce(&m, long, jute.PermRead, ids("digest:user:hash")); got || looked != 1000 {
		t.Errorf("for another identity: %v after %d entries", got, looked)
	}
}

func TestCredentialsEnd(t *testing.T) {
	have := auth.NewCredentials(id("ip:1.1.1.1"))
	with := func(until int64, list ...string) {
		t.Helper()
		var err error
		if have, err = have.With(auth.Proof{IDs: ids(list...), Until: until}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(now, until int64, want ...string) {
		t.Helper()
		left := have.At(now)
		if !slices.Equal(left.IDs(), ids(want...)) || left.Until() != until {
			t.Errorf("at %d: %v until %d, want %v until %d", now, left.IDs(), left.Until(), want, until)
		}
	}
	check(1000, 0, "ip:1.1.1.1")
	with(10, "jwt:ann")
	with(5, "jwt:bob")
	with(0, "digest:x:y")
	check(4, 5, "ip:1.1.1.1", "jwt:ann", "jwt:bob", "digest:x:y")
	check(5, 10, "ip:1.1.1.1", "jwt:ann", "digest:x:y")
	check(10, 0, "ip:1.1.1.1", "digest:x:y")
	with(20, "jwt:ann") // renewed
	check(10, 20, "ip:1.1.1.1", "jwt:ann", "digest:x:y")
	with(8, "jwt:ann") // the later proof counts
	check(9, 0, "ip:1.1.1.1", "digest:x:y")
}

func TestAllowed(t *testing.T) {
	bob := ids("ip:10.1.2.3", "digest:"+bobPW)
	for _, tc := range []struct {
		name  string
		acl   []jute.ACL
		perms jute.Perms
		ids   []jute.ID
		want  bool
	}{
		{"empty ACL", nil, jute.PermAll, nil, true},
		{"world", acl("31 world:anyone"), jute.PermWrite, nil, true},
		{"world without the permission", acl("1 world:anyone"), jute.PermWrite, bob, false},
		{"any of the permissions is enough", acl("16 world:anyone"), jute.PermRead | jute.PermAdmin, nil, true},
		{"no permission at all", acl("0 world:anyone"), jute.PermAll, bob, false},
		{"world by another name", acl("31 world:somebody"), jute.PermRead, bob, false},
		{"own digest", acl("2 digest:" + bobPW), jute.PermWrite, bob, true},
		{"digest of another", acl("31 digest:ann:x"), jute.PermWrite, bob, false},
		{"later entry", acl("1 world:anyone", "2 digest:"+bobPW), jute.PermWrite, bob, true},
		{"right name, wrong scheme", acl("31 ip:" + bobPW), jute.PermRead, bob, false},
		{"super", acl("0 digest:ann:x"), jute.PermAdmin, ids("super:"), true},
		{"super in the ACL means nobody", acl("31 super:"), jute.PermRead, bob, false},
		{"unknown scheme, same words", acl("31 kerberos:bob"), jute.PermRead, ids("kerberos:bob"), false},
		{"address", acl("1 ip:10.1.2.3"), jute.PermRead, bob, true},
		{"other address", acl("1 ip:10.1.2.4"), jute.PermRead, bob, false},
		{"block", acl("1 ip:10.0.0.0/8"), jute.PermRead, bob, true},
		{"block with bits that don't count", acl("1 ip:10.9.9.9/8"), jute.PermRead, bob, true},
		{"block beside", acl("1 ip:10.1.3.0/24"), jute.PermRead, bob, false},
		{"everything is in a block of 0 bits", acl("1 ip:1.2.3.4/0"), jute.PermRead, bob, true},
		{"IPv4 is in no IPv6 block", acl("1 ip:::/0"), jute.PermRead, bob, false},
		{"IPv6 block", acl("1 ip:2001:db8::/32"), jute.PermRead, ids("ip:2001:db8:1::7"), true},
		{"IPv6 written otherwise", acl("1 ip:2001:db8::1"), jute.PermRead, ids("ip:2001:db8:0:0:0:0:0:1"), true},
		{"IPv6 with zone", acl("1 ip:fe80::/10"), jute.PermRead, ids("ip:fe80::1%eth0"), true},
		{"IPv4 over an IPv6 socket", acl("1 ip:10.0.0.0/8"), jute.PermRead, ids("ip:::ffff:10.1.2.3"), true},
		{"broken address", acl("1 ip:10.0.0.0/99"), jute.PermRead, bob, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := newSchemes(t).Allowed(tc.acl, tc.perms, tc.ids); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestSkipACL(t *testing.T) {
	s := newSchemes(t, func(c *auth.Config) { c.SkipACL = true })
	if !s.Allowed(acl("0 digest:ann:x"), jute.PermAdmin, nil) {
		t.Error("not allowed with SkipACL")
	}
	if _, err := s.FixACL(nil, nil); !errors.Is(err, jute.ErrInvalidACL) {
		t.Errorf("an empty ACL gives %v; SkipACL does not change what may be stored", err)
	}
}

func TestDigestDisabled(t *testing.T) {
	s := newSchemes(t, func(c *auth.Config) { c.DigestEnabled = false })
	if _, err := s.Authenticate("digest", []byte("bob:pw"), nil); !errors.Is(err, jute.ErrAuthFailed) {
		t.Errorf("auth packet: %v", err)
	}
	if _, err := s.FixACL(acl("31 digest:"+bobPW), nil); !errors.Is(err, jute.ErrInvalidACL) {
		t.Errorf("ACL: %v", err)
	}
	if s.Allowed(acl("31 digest:"+bobPW), jute.PermRead, ids("digest:"+bobPW)) {
		t.Error("a stored entry still matches")
	}
}

func TestFixACL(t *testing.T) {
	creds := ids("ip:10.1.2.3", "super:", "digest:"+superSecret, "digest:"+bobPW)
	const invalid = "invalid"
	for _, tc := range []struct {
		name string
		in   []jute.ACL
		ids  []jute.ID
		want any // invalid, []jute.ACL, or nil for in
	}{
		{"null", nil, creds, invalid},
		{"empty", acl(), creds, invalid},
		{"open", acl("31 world:anyone"), nil, nil},
		{"odd permissions", acl("0 world:anyone", "64 world:anyone"), nil, nil},
		{"world by another name", acl("31 world:somebody"), nil, invalid},
		{"one bad entry", acl("31 world:anyone", "31 world:"), nil, invalid},
		{"no scheme", acl("31 :x"), nil, invalid},
		{"unknown scheme", acl("31 nis:bob"), nil, invalid},
		{"not configured", acl("31 sasl:bob"), nil, invalid},
		{"x509 neither", acl("31 x509:CN=bob"), nil, invalid},
		{"super", acl("31 super:"), creds, invalid},
		{"repetitions", acl("1 world:anyone", "3 world:anyone", "1 world:anyone"), nil, acl("1 world:anyone", "3 world:anyone")},
		{"auth", acl("31 auth:"), ids("ip:1.1.1.1", "digest:"+bobPW), acl("31 digest:" + bobPW)},
		{"auth with an id", acl("5 auth:whatever"), creds, acl("5 digest:"+superSecret, "5 digest:"+bobPW)},
		{"auth in its place", acl("1 world:anyone", "31 auth:", "2 ip:1.1.1.1"), ids("digest:" + bobPW),
			acl("1 world:anyone", "31 digest:"+bobPW, "2 ip:1.1.1.1")},
		{"expanded is not made distinct", acl("31 digest:"+bobPW, "31 auth:"), ids("digest:" + bobPW),
			acl("31 digest:"+bobPW, "31 digest:"+bobPW)},
		{"auth for nobody", acl("31 auth:"), ids("ip:1.1.1.1"), invalid},
		{"auth for super alone", acl("31 auth:"), ids("super:"), invalid},
		{"digest", acl("31 digest:" + bobPW), nil, nil},
		{"digest without user", acl("31 digest::b"), nil, nil},
		{"digest with colons behind", acl("31 digest:a:b::"), nil, nil},
		{"digest without hash", acl("31 digest:a:"), nil, invalid},
		{"digest without colon", acl("31 digest:x"), nil, invalid},
		{"digest of three parts", acl("31 digest:a:b:c"), nil, invalid},
		{"digest of nothing", acl("31 digest:"), nil, invalid},
		{"address", acl("1 ip:1.2.3.4"), nil, nil},
		{"block", acl("1 ip:1.2.3.4/8"), nil, nil},
		{"blocks from 0 to 32", acl("1 ip:1.2.3.4/0", "1 ip:1.2.3.4/32"), nil, nil},
		{"33 bits", acl("1 ip:1.2.3.4/33"), nil, invalid},
		{"negative bits", acl("1 ip:1.2.3.4/-1"), nil, invalid},
		{"no bits", acl("1 ip:1.2.3.4/"), nil, invalid},
		{"three numbers", acl("1 ip:1.2.3"), nil, invalid},
		{"no number", acl("1 ip:1.2.3.x"), nil, invalid},
		{"no address", acl("1 ip:"), nil, invalid},
		{"leading zeros", acl("1 ip:010.2.3.4"), nil, invalid},
		{"signed bits", acl("1 ip:1.2.3.4/+8"), nil, invalid},
		{"IPv6", acl("1 ip:2001:db8::1", "1 ip:2001:db8::/32", "1 ip:::1/128"), nil, nil},
		{"129 bits", acl("1 ip:::1/129"), nil, invalid},
		{"IPv6 with zone", acl("1 ip:fe80::1%eth0"), nil, invalid},
		{"IPv6 with IPv4 in it", acl("1 ip:::ffff:127.0.0.1"), nil, invalid},
		{"IPv6 block with IPv4 in it", acl("1 ip:::ffff:10.0.0.0/104"), nil, invalid},
		{"IPv6 that ends with IPv4", acl("1 ip:2001:db8::1.2.3.4"), nil, invalid},
		{"IPv6 with IPv4 in it, written in hexadecimal", acl("1 ip:::ffff:7f00:1"), nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := slices.Clone(tc.in)
			got, err := newSchemes(t).FixACL(tc.in, tc.ids)
			if !slices.Equal(tc.in, before) {
				t.Errorf("changed its argument to %v", tc.in)
			}
			want := before
			switch w := tc.want.(type) {
			case string:
				if !errors.Is(err, jute.ErrInvalidACL) {
					t.Fatalf("got %v, %v, want ErrInvalidACL", got, err)
				}
				return
			case []jute.ACL:
				want = w
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("got  %v, %v\nwant %v", got, err, want)
			}
		})
	}
}

// The stored list outlives the buffer from which the request was decoded.
func TestFixACLCopies(t *testing.T) {
	buf := jute.AppendACLs(nil, acl("31 digest:"+bobPW, "31 world:anyone", "1 ip:1.2.3.4"))
	d := jute.NewAliasDecoder(buf)
	got, err := newSchemes(t).FixACL(d.ACLs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	clear(buf)
	if want := acl("31 digest:"+bobPW, "31 world:anyone", "1 ip:1.2.3.4"); !slices.Equal(got, want) {
		t.Errorf("after the buffer was cleared: %v", got)
	}
}

func TestRedact(t *testing.T) {
	in := acl("31 digest:"+bobPW, "1 world:anyone", "2 ip:::1", "4 digest:odd", "8 digest:a:b:c")
	want := acl("31 digest:bob:x", "1 world:anyone", "2 ip:::1", "4 digest:odd", "8 digest:a:x")
	before := slices.Clone(in)
	if got := auth.Redact(in); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if !slices.Equal(in, before) {
		t.Errorf("changed its argument to %v", in)
	}
	if got := auth.Redact(nil); got != nil {
		t.Errorf("Redact(nil) = %v", got)
	}
}

func TestUser(t *testing.T) {
	for in, want := range map[string]string{
		"digest:" + bobPW: "bob",
		"digest:odd":      "odd",
		"super:":          "",
		"ip:::1":          "::1",
		"sasl:bob:x":      "bob:x",
	} {
		if got := auth.User(id(in)); got != want {
			t.Errorf("User(%s) = %q, want %q", in, got, want)
		}
	}
}

func TestPrincipal(t *testing.T) {
	for _, tt := range []struct {
		ids  []string
		want string
	}{
		{[]string{"ip:1.1.1.1"}, ":"},
		{[]string{"ip:1.1.1.1", "digest:a:1", "digest:b:2"}, "digest:a:1"},
		{[]string{"ip:1.1.1.1", "digest:a:1", "jwt:ann"}, "jwt:ann"},
		{[]string{"ip:1.1.1.1", "x509:CN=app", "jwt:ann"}, "x509:CN=app"},
		{[]string{"ip:1.1.1.1", "super:", "digest:super:1"}, "digest:super:1"},
	} {
		if got, ok := auth.Principal(ids(tt.ids...)); got.Scheme+":"+got.ID != tt.want || ok != (tt.want != ":") {
			t.Errorf("%v: got %v, want %s", tt.ids, got, tt.want)
		}
	}
}

// TestAllowedTwin compares Allowed with the rules as they are specified, one after the
// other.
func TestAllowedTwin(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	names := []string{"world:anyone", "world:x", "digest:a:1", "digest:b:2", "ip:10.0.0.1", "ip:10.0.0.0/8", "super:", "nis:a"}
	pick := func() jute.ID { return id(names[r.IntN(len(names))]) }
	s := newSchemes(t)
	for range 20_000 {
		var list []jute.ACL
		for range r.IntN(4) {
			list = append(list, jute.ACL{Perms: jute.Perms(r.IntN(32)), ID: pick()})
		}
		var who []jute.ID
		for range r.IntN(4) {
			who = append(who, pick())
		}
		perms := jute.Perms(r.IntN(32))
		if got, want := s.Allowed(list, perms, who), allowedByTheBook(list, perms, who); got != want {
			t.Fatalf("seed %d: Allowed(%v, %d, %v) = %v", seed, list, perms, who, got)
		}
	}
}

func allowedByTheBook(list []jute.ACL, perms jute.Perms, who []jute.ID) bool {
	if len(list) == 0 || slices.Contains(who, id("super:")) {
		return true
	}
	for _, a := range list {
		if a.Perms&perms == 0 {
			continue
		}
		if a.ID == jute.WorldAnyone {
			return true
		}
		for _, w := range who {
			switch {
			case w.Scheme != a.ID.Scheme:
			case w.Scheme == "digest" && w.ID == a.ID.ID:
				return true
			case w.Scheme == "ip" && w.ID == a.ID.ID:
				return true
			case w == id("ip:10.0.0.1") && a.ID == id("ip:10.0.0.0/8"):
				return true
			}
		}
	}
	return false
}

func TestAllowedAllocs(t *testing.T) {
	s := newSchemes(t)
	who := ids("ip:10.1.2.3", "digest:"+bobPW)
	list := acl("1 digest:ann:x", "31 ip:192.168.0.0/16", "31 ip:10.0.0.0/8")
	if n := testing.AllocsPerRun(100, func() { s.Allowed(list, jute.PermRead, who) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAllowed(b *testing.B) {
	who := ids("ip:10.1.2.3", "digest:"+bobPW)
	for name, list := range map[string][]jute.ACL{
		"acl=open":   acl("31 world:anyone"),
		"acl=digest": acl("31 digest:" + bobPW),
		"acl=ip":     acl("31 ip:10.0.0.0/8"),
	} {
		b.Run(name, func(b *testing.B) {
			s := newSchemes(b)
			b.ReportAllocs()
			for b.Loop() {
				if !s.Allowed(list, jute.PermRead, who) {
					b.Fatal("not allowed")
				}
			}
		})
	}
}

// places is a State: the owner of each znode.
type places map[string]jute.SessionID

func (p places) Owner(path string) (jute.Owner, bool) {
	id, ok := p[path]
	if id == 0 {
		return jute.OwnerNone, ok
	}
	return jute.OwnerSession(id), ok
}

func (p places) Children(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for child := range p {
			if name := strings.TrimPrefix(child, strings.TrimSuffix(path, "/")+"/"); name != child && !strings.Contains(name, "/") && !yield(name) {
				return
			}
		}
	}
}

func TestAllowedHolder(t *testing.T) {
	state := places{
		"/": 0, "/mine": 1, "/plain": 0, "/9-0000000003": 1,
		"/lock": 0, "/lock/a-0000000007": 2, "/lock/b-0000000008": 1, "/lock/c": 3, "/lock/d-0000000001": 0,
		"/rw": 0, "/rw/x-read-0000000001": 1, "/rw/x-write-0000000002": 2,
		"/wrapped": 0, "/wrapped/n-2147483647": 1, "/wrapped/n--2147483648": 2, "/wrapped/n--1999999999": 3,
		"/same": 0, "/same/b0000000001": 1, "/same/a0000000001": 2,
		"/star*": 0, "/star*/n-0000000001": 1,
	}
	schemes := newSchemes(t)
	for place, holder := range map[string]jute.SessionID{
		"/mine": 1, "/plain": 0, "/none": 0, "/": 1, "/lock": 2, "/lock/c": 3, "/lock/*": 2, "/lock/b*": 1, "/lock/*-*": 2, "/lock/c*": 0,
		"/rw": 1, "/rw/*-write-*": 2, "/rw/x*write-*": 2, "/rw/*y-*": 0, "/wrapped": 1, "/wrapped/n-*": 1, "/same": 2, "/star*/*": 1,
	} {
		id := jute.ID{Scheme: "holder", ID: place}
		acl, err := schemes.FixACL([]jute.ACL{{Perms: jute.PermRead, ID: jute.WorldAnyone}, {Perms: jute.PermWrite, ID: id}}, nil)
		if err != nil {
			t.Errorf("%s: %v", place, err)
		}
		for session := range jute.SessionID(5) {
			var looked int
			if got, want := schemes.AllowedHolder(acl, jute.PermWrite, session, state, &looked), session == holder && holder != 0; got != want {
				t.Errorf("%s: session %d holds it: %v", place, session, got)
			}
			if schemes.AllowedHolder(acl, jute.PermDelete, session, state, &looked) {
				t.Errorf("%s: session %d has a permission that the entry does not give", place, session)
			}
		}
	}
	for _, place := range []string{"", "lock", "/lock/", "/lock/*-x", "/a//b", "/a/../b"} {
		if _, err := schemes.FixACL([]jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "holder", ID: place}}}, nil); !errors.Is(err, jute.ErrInvalidACL) {
			t.Errorf("%q is a place: %v", place, err)
		}
	}
	if _, err := schemes.Authenticate("holder", []byte("/mine"), auth.NewCredentials()); !errors.Is(err, jute.ErrAuthFailed) {
		t.Errorf("an auth packet proves a holder: %v", err)
	}
}

// TestHoldersWorkIsBounded: a request may look at so many children, and then nobody holds.
func TestHoldersWorkIsBounded(t *testing.T) {
	state := places{"/lock": 0}
	for i := range auth.MaxContenders + 1 {
		state[fmt.Sprintf("/lock/%010d", i)] = 1
	}
	acl := []jute.ACL{{Perms: jute.PermWrite, ID: jute.ID{Scheme: "holder", ID: "/lock"}}}
	looked := 0
	if newSchemes(t).AllowedHolder(acl, jute.PermWrite, 1, state, &looked) {
		t.Errorf("%d children were looked at", looked)
	}
	delete(state, "/lock/0000000005")
	looked = 0
	if !newSchemes(t).AllowedHolder(acl, jute.PermWrite, 1, state, &looked) {
		t.Error("the holder among as many as may be looked at is refused")
	}
}

package digestmd5

import (
	"slices"
	"strings"
	"testing"
)

// TestVector is the example of RFC 2831 section 4.
func TestVector(t *testing.T) {
	terms := Terms{User: "chris", Realm: "elwood.innosoft.com", Nonce: "OA6MG9tEQGm2hh", Cnonce: "OA6MHXh6VqTrRk", URI: "imap/elwood.innosoft.com"}
	secret := terms.Secret("secret")
	if got, want := terms.ClientProof(secret), "d388dad90d4bbd760a152321f2143af7"; got != want {
		t.Errorf("client's proof %s, want %s", got, want)
	}
	if got, want := terms.ServerProof(secret), "ea40f60335c427b5527b84dbabcdfffd"; got != want {
		t.Errorf("server's proof %s, want %s", got, want)
	}
}

func TestSingleDirectives(t *testing.T) {
	if _, err := ParseDirectives(`a=1,b=2,A="3"`, "a"); err == nil || err.Error() != "a twice" {
		t.Errorf("error %v", err)
	}
	if list, err := ParseDirectives(`a=1,b=2,A="3"`, "b"); err != nil || len(list) != 3 {
		t.Errorf("%v, %v", list, err)
	}
}

func FuzzDirectives(f *testing.F) {
	f.Add(`realm="zk-sasl-md5",nonce="k+HXzGYkuPaaLSo0lD8kc7g5WT9nGsvGx5jiZBsz",charset=utf-8,algorithm=md5-sess`)
	f.Add(`nonce="a\"b",algorithm=md5-sess , ,x=y,`)
	f.Add("rspauth=ea40f60335c427b5527b84dbabcdfffd")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParseDirectives(s)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, d := range list {
			b.WriteString(d.Name + "=" + Quote(d.Value) + ",")
		}
		again, err := ParseDirectives(b.String())
		if err != nil || !slices.Equal(again, list) {
			t.Errorf("%q is %q, written %q and read again %q, %v", s, list, b.String(), again, err)
		}
	})
}

func FuzzLatin1(f *testing.F) {
	f.Add("ren\xe9e")
	f.Fuzz(func(t *testing.T, s string) {
		if back, ok := Latin1(FromLatin1(s)); !ok || back != s {
			t.Errorf("%q comes back as %q, %v", s, back, ok)
		}
	})
}

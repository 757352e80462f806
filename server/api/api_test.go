package api

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

func TestAccepted(t *testing.T) {
	for header, want := range map[string]string{
		"": bytesType, "*/*": bytesType, "application/json": jsonType, "text/*": textType, "application/*": bytesType,
		"text/html,application/xhtml+xml,*/*;q=0.8": bytesType, "application/json;q=0.5, text/plain;q=0.9": textType, "*/*;q=0.1,application/json": jsonType,
		"application/octet-stream;q=0,*/*": textType, "image/png": "", "nonsense": "", "*/*;q=0": "", "*/*;q=x": "", "TEXT/PLAIN": textType, ",;,": "",
	} {
		if got := accepted(header, bytesType, textType, jsonType); got != want {
			t.Errorf("Accept %q: %q, want %q", header, got, want)
		}
	}
}

func TestRange(t *testing.T) {
	for header, want := range map[string]string{
		"bytes=0-2": "abc", "bytes=1-": "bcde", "bytes=-2": "de", "bytes=-9": "abcde", "bytes=2-99": "cde", "bytes=5-": "", "bytes=99-100": "", "bytes=-0": "",
		"": "all", "bytes=": "all", "bytes=-": "all", "bytes=2-1": "all", "bytes=0-1,3-4": "all", "lines=0-1": "all", "bytes=x-1": "all", "bytes=99999999999999-": "all",
	} {
		got := "all"
		if from, to, ok := rangeOf(header, 5); ok {
			got = "abcde"[from:to]
		}
		if got != want {
			t.Errorf("Range %q of abcde: %q, want %q", header, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	one := token{id: -2, timeoutMs: 6000, password: [jute.PasswordLen]byte{0xff, 1, 2}}
	back, err := parseToken(one.String())
	if err != nil || *back != one {
		t.Errorf("%v, %v", back, err)
	}
	for _, text := range []string{"x", one.String() + "AA", one.String()[:20], strings.Repeat("A", 38), "%%%"} {
		if _, err := parseToken(text); err == nil {
			t.Errorf("%q is a token", text)
		}
	}
}

func TestACLEntries(t *testing.T) {
	for text, want := range map[string]ACL{
		"world:anyone:cdrwa": {"world", "anyone", "cdrwa"}, "digest:u:hash=:r": {"digest", "u:hash=", "r"}, "ip:::1:rw": {"ip", "::1", "rw"}, "auth::cdrwa": {"auth", "", "cdrwa"},
	} {
		got, err := parseACL(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		list, err := acls([]ACL{got})
		if err != nil || shownACL(list)[0] != want {
			t.Errorf("%q: %v, %v", text, list, err)
		}
	}
	if _, err := acls([]ACL{{Perms: "rx"}}); err == nil {
		t.Error("x is a permission")
	}
}

// TestEndpointsDoNotOverlap looks for paths that two endpoints have, and for parameters without words about them.
func TestEndpointsDoNotOverlap(t *testing.T) {
	list := (&api{}).table()
	for _, path := range []string{"/v1/nodes/", "/v1/nodes/a/b%2Fc", "/v1/sessions", "/v1/sessions/0x1", "/v1/sessions/0x1/touch", "/v1/sessions/", "/v1/sessions/a/b", "/v1/nodesx", "/v1"} {
		of := make(map[string]string)
		for _, e := range list {
			if _, ok := e.matches(path); ok {
				if other := of[e.method]; other != "" {
					t.Errorf("%s %s is %s and %s", e.method, path, other, e.path)
				}
				of[e.method] = e.path
			}
		}
		if found, want := len(of) > 0, !strings.HasSuffix(path, "sessions/") && path != "/v1/sessions/a/b" && path != "/v1/nodesx" && path != "/v1"; found != want {
			t.Errorf("%s: %v", path, of)
		}
	}
	for _, e := range list {
		for _, p := range e.params {
			if p.doc == "" || p.in == "" {
				t.Errorf("%s %s: %+v", e.method, e.path, p)
			}
		}
	}
}

// TestCallerOf takes proofs from headers.
func TestCallerOf(t *testing.T) {
	r := httptest.NewRequest("GET", "https://zk1/v1/whoami", nil)
	r.RemoteAddr = "[::ffff:10.0.0.7]:4711"
	for header, want := range map[string]string{"": " ", "Bearer x.y": "jwt x.y", "bearer x": "jwt x", "digest a:b c": "digest a:b c", "Basic YTpiIGM=": "digest a:b c"} {
		r.Header.Set("Authorization", header)
		c, err := CallerOf(r)
		if err != nil || c.Scheme+" "+c.Data != want || c.From.String() != "10.0.0.7:4711" || !c.Secure {
			t.Errorf("%q: %+v, %v", header, c, err)
		}
	}
	r.Header.Set("Authorization", "Basic %")
	if _, err := CallerOf(r); err == nil {
		t.Error("a password that can't be read is one")
	}
}

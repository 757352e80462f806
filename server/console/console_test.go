package console

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func request(t *testing.T, h http.Handler, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func testHandler() http.Handler {
	return Handler(Options{Check: func(*http.Request) error { return nil }, Commands: "/zk<admin>", Version: `3.9.5 "x"`})
}

// files returns the files that the shell refers to, and those that its modules import.
func files(t *testing.T, h http.Handler) map[string]string {
	t.Helper()
	shell := text(t, request(t, h, "GET", "/console/").Body)
	found := make(map[string]string)
	var visit func(from, name string)
	imports := regexp.MustCompile(`(?m)^(?:import|export) .* from '(.*)';$|\bimport\('(.*)'\)`)
	visit = func(from, name string) {
		at := name
		if from != "" {
			at = path.Join(path.Dir(from), name)
		}
		if _, known := found[at]; known {
			return
		}
		r := request(t, h, "GET", at)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s, of %s: %s", name, from, r.Status)
		}
		found[at] = text(t, r.Body)
		for _, m := range imports.FindAllStringSubmatch(found[at], -1) {
			visit(at, m[1]+m[2])
		}
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="(/console/[^"]*)"`).FindAllStringSubmatch(shell, -1) {
		visit("", m[1])
	}
	return found
}

// TestAllFilesAreReached follows the shell and the imports to each file that there is.
func TestAllFilesAreReached(t *testing.T) {
	entries, err := assets.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	found := files(t, testHandler())
	if len(found) != len(entries)-1 { // the shell
		t.Errorf("%d files are reached, of %d", len(found), len(entries)-1)
	}
}

// TestFirst has the shell name each module: those of the first page, so few that a browser asks for them and the style at once by the six
// connections that it opens to a server, and those that the first page asks for after it is there.
func TestFirst(t *testing.T) {
	shell := text(t, request(t, testHandler(), "GET", "/console/").Body)
	var first, rest []string
	for _, m := range regexp.MustCompile(`<link rel="modulepreload" href="/console/[0-9a-f]*/([a-z]*\.js)">`).FindAllStringSubmatch(shell, -1) {
		first = append(first, m[1])
	}
	for name := range strings.FieldsSeq(regexp.MustCompile(`data-rest="(.*?)"`).FindStringSubmatch(shell)[1]) {
		rest = append(rest, path.Base(name))
	}
	slices.Sort(first)
	if want := "api.js app.js dom.js identity.js overview.js"; strings.Join(first, " ") != want {
		t.Errorf("the first page needs %s, want %s", first, want)
	}
	entries, err := assets.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if path.Ext(e.Name()) == ".js" && slices.Contains(first, e.Name()) == slices.Contains(rest, e.Name()) {
			t.Errorf("the shell does not name %s once", e.Name())
		}
	}
}

// TestHeaders looks at what a browser is told with each file.
func TestHeaders(t *testing.T) {
	h := testHandler()
	for name := range files(t, h) {
		r := request(t, h, "GET", name)
		if r.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("%s may be kept %q", name, r.Header.Get("Cache-Control"))
		}
		if want := types[path.Ext(name)]; want == "" || r.Header.Get("Content-Type") != want {
			t.Errorf("%s is %q, want %q", name, r.Header.Get("Content-Type"), want)
		}
	}
	r := request(t, h, "GET", "/console/")
	for name, want := range map[string]string{
		"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Content-Type": "text/html; charset=utf-8",
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if shell := text(t, r.Body); !strings.Contains(shell, `data-commands="/zk&lt;admin&gt;" data-version="3.9.5 &#34;x&#34;"`) {
		t.Errorf("the shell has values that are not escaped:\n%s", shell)
	}
}

// TestNothingFromElsewhere looks for what the policy forbids, and for what would turn text into markup.
func TestNothingFromElsewhere(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|createContextualFragment|` +
		`@import|url\(|<script>|\bstyle=|\bon[a-z]+=`)
	elsewhere := regexp.MustCompile(`https?://[^'" ]*`)
	all := files(t, testHandler())
	all["shell"] = text(t, request(t, testHandler(), "GET", "/console/").Body)
	for name, content := range all {
		if m := forbidden.FindString(content); m != "" {
			t.Errorf("%s has %q", name, m)
		}
		for _, u := range elsewhere.FindAllString(content, -1) {
			if u != "http://www.w3.org/2000/svg" { // a name
				t.Errorf("%s has the address %s", name, u)
			}
		}
	}
}

// TestSize keeps the pages small, and looks at what gzip makes of them.
func TestSize(t *testing.T) {
	h := testHandler()
	plain, small := 0, 0
	for name, content := range files(t, h) {
		plain += len(content)
		r := request(t, h, "GET", name, "Accept-Encoding", "gzip, br")
		b := text(t, r.Body)
		small += len(b)
		z, err := gzip.NewReader(strings.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if r.Header.Get("Content-Encoding") != "gzip" || text(t, z) != content {
			t.Errorf("%s is another one by gzip", name)
		}
	}
	if plain > 240_000 || small > 80_000 {
		t.Errorf("the pages have %d bytes, %d by gzip", plain, small)
	}
}

// TestRefusals asks for what there is not.
func TestRefusals(t *testing.T) {
	h := testHandler()
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/console/x", 404}, {"GET", "/console/000000000000/app.js", 404}, {"GET", "/console/assets/app.js", 404},
		{"POST", "/console/", 405}, {"HEAD", "/console/", 200},
	} {
		if r := request(t, h, c.method, c.path); r.StatusCode != c.want {
			t.Errorf("%s %s: %s, want %d", c.method, c.path, r.Status, c.want)
		}
	}
	h = Handler(Options{Check: func(*http.Request) error { return errors.New("another host") }})
	if r := request(t, h, "GET", "/console/"); r.StatusCode != http.StatusForbidden {
		t.Errorf("a request that is not allowed: %s", r.Status)
	}
}

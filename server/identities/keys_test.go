package identities

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFetchKeys tries answers of a web server.
func TestFetchKeys(t *testing.T) {
	var web, plain *httptest.Server
	handler := http.NewServeMux()
	handler.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) })
	handler.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 2<<20)) })
	handler.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) })
	handler.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	handler.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL+"/keys", http.StatusFound) })
	web, plain = httptest.NewUnstartedServer(handler), httptest.NewServer(handler)
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	defer web.Close()
	defer plain.Close()
	for path, want := range map[string]string{
		"/keys":  "",
		"/moved": "",
		"/large": "larger than 1048576 bytes",
		"/none":  "404 Not Found",
		"/loop":  "only three redirections",
		"/plain": "to https, are followed",
	} {
		client := newKeyClient()
		client.Transport.(*http.Transport).TLSClientConfig = web.Client().Transport.(*http.Transport).TLSClientConfig
		text, err := fetchKeys(t.Context(), client, web.URL+path)
		if want == "" && (err != nil || string(text) != "{}") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %d bytes, %v; want error %q", path, len(text), err, want)
		}
	}
	if _, err := fetchKeys(t.Context(), newKeyClient(), web.URL+"/keys"); err == nil {
		t.Error("a server with an unknown authority was believed")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fetchKeys(over, newKeyClient(), web.URL+"/keys"); err == nil {
		t.Error("a fetch that was canceled succeeded")
	}
}

// TestDiscoverKeys asks issuers where their keys are.
func TestDiscoverKeys(t *testing.T) {
	handler := http.NewServeMux()
	web := httptest.NewTLSServer(handler)
	defer web.Close()
	handler.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) })
	about := func(path, text string) {
		handler.HandleFunc(path+"/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(strings.ReplaceAll(text, "WEB", web.URL)))
		})
	}
	about("", `{"issuer": "WEB", "jwks_uri": "WEB/keys"}`)
	about("/tenant", `{"issuer": "WEB/tenant/", "jwks_uri": "WEB/keys"}`)
	about("/other", `{"issuer": "WEB", "jwks_uri": "WEB/keys"}`)
	about("/plain", `{"issuer": "WEB/plain", "jwks_uri": "http://127.0.0.1/keys"}`)
	about("/nowhere", `{"issuer": "WEB/nowhere"}`)
	about("/lost", `{"issuer": "WEB/lost", "jwks_uri": "WEB/nothing"}`)
	about("/page", `<html>`)
	for path, want := range map[string]string{
		"":         "",
		"/tenant/": "",
		"/tenant":  "is about the issuer",
		"/other":   "is about the issuer",
		"/plain":   "does not begin with https",
		"/nowhere": "does not begin with https",
		"/lost":    "404 Not Found",
		"/page":    "invalid character",
		"/none":    "404 Not Found",
	} {
		client := newKeyClient()
		client.Transport.(*http.Transport).TLSClientConfig = web.Client().Transport.(*http.Transport).TLSClientConfig
		text, err := discoverKeys(t.Context(), client, web.URL+path)
		if want == "" && (err != nil || string(text) != "{}") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v; want error %q", path, text, err, want)
		}
	}
}

package login

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// elsewhere is a provider that knows one code.
func elsewhere(_ context.Context, redirect string) (string, func(context.Context, url.Values) (string, error), error) {
	return "https://id.example/?to=" + redirect, func(_ context.Context, with url.Values) (string, error) {
		if with.Get("code") != "good" {
			return "", errors.New("no <b>code</b>")
		}
		return "ann", nil
	}, nil
}

func openWithProvider(t *testing.T) *browser {
	h := server()
	h.(*handler).Provider, h.(*handler).ProviderName = elsewhere, "id.example"
	return open(t, h)
}

// comesBack is the provider that sends the browser back: a page of another site leads here, so it does not send the cookie of the session.
func (b *browser) comesBack(query string) (status int, to, body string) {
	page := *b
	page.cookies = make(map[string]*http.Cookie)
	for name, c := range b.cookies {
		if c.SameSite == http.SameSiteLaxMode {
			page.cookies[name] = c
		}
	}
	w := page.send("GET", "/console/callback?"+query, "", header, "", "Content-Type", "", "Sec-Fetch-Site", "cross-site")
	for _, c := range w.Result().Cookies() {
		if b.cookies[c.Name] = c; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return w.Code, w.Header().Get("Location"), w.Body.String()
}

// TestProvider signs in at a provider.
func TestProvider(t *testing.T) {
	b := openWithProvider(t)
	if st := b.session("GET", ""); st.Provider != "id.example" {
		t.Errorf("%+v", st)
	}
	b.want(200, `{"address":"https://id.example/?to=http://localhost:8080/console/callback"}`, "POST", "/console/provider", "")
	if c := b.cookies["zkd-8080-provider"]; c == nil || !c.HttpOnly || c.Path != "/console/" || c.MaxAge != 600 {
		t.Errorf("the cookie of a sign-in: %v", c)
	}
	if status, to, body := b.comesBack("code=good"); status != 303 || to != "/console/" {
		t.Errorf("%d to %q\n%s", status, to, body)
	}
	if st := b.session("GET", ""); st.Name != "jwt:ann" || len(b.cookies) != 1 {
		t.Errorf("%+v, %v", st, b.cookies)
	}
	b.want(200, "jwt ann via console", "GET", "/console/v1/whoami", "")
	open(t, server()).want(404, "zkd.oidc.clientId", "POST", "/console/provider", "")
}

// TestComesBackOnce has the answer of the provider come twice, and after a wrong one.
func TestComesBackOnce(t *testing.T) {
	b := openWithProvider(t)
	b.want(200, "", "POST", "/console/provider", "")
	before := *b.cookies["zkd-8080-provider"]
	if status, _, _ := b.comesBack("code=good"); status != 303 {
		t.Fatal(status)
	}
	b.cookies[before.Name] = &before
	if status, _, body := b.comesBack("code=good"); status != 403 || !strings.Contains(body, "came twice") {
		t.Errorf("a second time: %d\n%s", status, body)
	}
	b.want(200, "", "POST", "/console/provider", "")
	before = *b.cookies["zkd-8080-provider"]
	if status, _, body := b.comesBack("code=bad"); status != 403 || !strings.Contains(body, "no &lt;b&gt;code&lt;/b&gt;") {
		t.Errorf("a wrong code: %d\n%s", status, body)
	}
	b.cookies[before.Name] = &before
	if status, _, _ := b.comesBack("code=good"); status != 403 {
		t.Errorf("the right code after a wrong one: %d", status)
	}
}

// TestComesBackElsewhere has a browser come back that has not begun: somebody may have led it here to sign it in as somebody else.
func TestComesBackElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attacker := openWithProvider(t)
		attacker.certificate = "hers"
		attacker.want(200, "", "POST", "/console/provider", "")
		victim := open(t, attacker.h)
		if status, _, body := victim.comesBack("code=good"); status != 403 || !strings.Contains(body, "has not begun") || len(victim.cookies) != 0 {
			t.Errorf("%d, %v\n%s", status, victim.cookies, body)
		}
		victim.cookies["zkd-8080-provider"] = &http.Cookie{Name: "zkd-8080-provider", Value: "guess", SameSite: http.SameSiteLaxMode}
		if status, _, _ := victim.comesBack("code=good"); status != 403 {
			t.Errorf("with a cookie that nobody has set: %d", status)
		}
		for _, headers := range [][]string{{header, ""}, {"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
			victim.want(403, "", "POST", "/console/provider", "", headers...)
		}
		attacker.certificate = "another"
		if status, _, _ := attacker.comesBack("code=good"); status != 403 {
			t.Errorf("with another certificate: %d", status)
		}
		attacker.certificate = "hers"
		time.Sleep(away)
		if status, _, _ := attacker.comesBack("code=good"); status != 403 {
			t.Errorf("after %v: %d", away, status)
		}
	})
}

// TestComesBackNowhereElse comes back with parameters that name other places: the browser is led to the console alone.
func TestComesBackNowhereElse(t *testing.T) {
	for _, query := range []string{"", "&redirect=https://evil.example", "&return=//evil.example", "&url=javascript:1"} {
		b := openWithProvider(t)
		b.want(200, "", "POST", "/console/provider", "")
		if status, to, _ := b.comesBack("code=good" + query); status != 303 || to != "/console/" {
			t.Errorf("%q: %d to %q", query, status, to)
		}
	}
}

// TestBeginsOften begins to sign in more often than anybody has to.
func TestBeginsOften(t *testing.T) {
	b := openWithProvider(t)
	for range 10 * perSecond {
		b.want(200, "", "POST", "/console/provider", "")
	}
	b.want(429, "", "POST", "/console/provider", "")
}

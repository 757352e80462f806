package login

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"time"

	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/console"
	"github.com/zkd-project/zkd/server/limits"
)

// away is how long somebody may take to sign in elsewhere.
const away = 10 * time.Minute

// finish returns a token for the parameters with which a browser comes back.
type finish func(context.Context, url.Values) (token string, err error)

// goElsewhere begins a sign-in at the provider, and answers where the page has to go. A cookie says which browser has begun it: one that
// is sent when a page of the provider leads back here, as that of the session is not.
func (h *handler) goElsewhere(w http.ResponseWriter, r *http.Request) error {
	if _, err := h.token(r); err != nil {
		return err
	}
	switch {
	case h.Provider == nil:
		return refuse(http.StatusNotFound, "there is no provider at which to sign in: see zkd.oidc.clientId")
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		return refuse(http.StatusMethodNotAllowed, "the method here is POST")
	}
	if err := h.attempt(r); err != nil {
		return err
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	address, finish, err := h.Provider(r.Context(), scheme+"://"+r.Host+console.Prefix+"callback")
	if err != nil {
		return refuse(http.StatusBadGateway, "the provider does not say where to sign in: %v", err)
	}
	id, _ := h.flows.begin(session{bond: bondOf(r), network: limits.Network(from(r).String()), finish: finish}, time.Now().Add(away))
	setCookie(w, r, &http.Cookie{Name: flowCookie(r), Value: id, MaxAge: int(away.Seconds()), SameSite: http.SameSiteLaxMode})
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(struct {
		Address string `json:"address"`
	}{address})
}

// comeBack signs in whom the provider sends back. It leads to the console's first page alone; which page it was before, the browser knows.
func (h *handler) comeBack(w http.ResponseWriter, r *http.Request) {
	err := api.CheckHost(r, h.Host)
	if err == nil && r.Method != http.MethodGet {
		err = refuse(http.StatusMethodNotAllowed, "the method here is GET")
	}
	if err == nil {
		err = h.finish(w, r)
	}
	if err == nil {
		w.Header().Set("Location", console.Prefix)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusForbidden)
	fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\">\n<title>Not signed in</title>\n<h1>Not signed in</h1>\n<p>%s.\n<p><a href=\"%s\">Back to the console</a>\n",
		html.EscapeString(err.Error()), console.Prefix)
}

// finish ends a sign-in at the provider. It is good for one answer, right or wrong, and for the browser that has begun it.
func (h *handler) finish(w http.ResponseWriter, r *http.Request) error {
	s := h.flows.take(cookie(r, flowCookie(r)), bondOf(r))
	if s == nil {
		return refuse(http.StatusForbidden, "this browser has not begun to sign in here, or too long ago, or the answer came twice")
	}
	setCookie(w, r, &http.Cookie{Name: flowCookie(r), MaxAge: -1, SameSite: http.SameSiteLaxMode})
	token, err := s.finish(r.Context(), r.URL.Query())
	if err != nil {
		return err
	}
	_, err = h.signIn(w, r, api.Proof{Scheme: "jwt", Data: token, Via: via})
	return err
}

// flowCookie returns the name of the cookie of a sign-in that is under way.
func flowCookie(r *http.Request) string { return cookieName(r) + "-provider" }

package identities

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/server/config"
)

// issuer is a provider of OpenID Connect.
type issuer struct {
	t      *testing.T
	web    *httptest.Server
	about  map[string]any // its discovery document
	claims map[string]any // of the ID token
	asked  url.Values     // by the browser that is led to it
	posted url.Values     // by the server, with the code
	basic  string         // user and password
	status int            // of the answer
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t, status: 200}
	mux := http.NewServeMux()
	i.web = httptest.NewTLSServer(mux)
	t.Cleanup(i.web.Close)
	i.about = map[string]any{"issuer": i.web.URL, "authorization_endpoint": i.web.URL + "/authorize?tenant=1", "token_endpoint": i.web.URL + "/token", "jwks_uri": i.web.URL + "/keys"}
	i.claims = map[string]any{"iss": i.web.URL, "aud": "console", "sub": "ann"}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(i.about) })
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		i.posted = r.PostForm
		user, password, _ := r.BasicAuth()
		i.basic = user + " " + password
		w.Header().Set("Location", i.web.URL+"/moved")
		w.WriteHeader(i.status)
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		if r.PostForm.Get("code") != "code" || i.asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			_ = json.NewEncoder(w).Encode(map[string]any{"error": "invalid_grant"})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "access", "id_token": i.idToken()})
	})
	mux.HandleFunc("/moved", func(http.ResponseWriter, *http.Request) { t.Error("the secret and the code went elsewhere") })
	return i
}

func (i *issuer) idToken() string {
	text, err := json.Marshal(i.claims)
	if err != nil {
		i.t.Error(err)
	}
	return "e30." + base64.RawURLEncoding.EncodeToString(text) + ".sig"
}

// begin begins a sign-in, and returns what the browser would come back with.
func (i *issuer) begin(as config.OIDC) (*signIn, url.Values) {
	i.t.Helper()
	s := i.signIn(as)
	address, err := s.begin(i.t.Context())
	if err != nil {
		i.t.Fatal(err)
	}
	at, err := url.Parse(address)
	if err != nil {
		i.t.Fatal(err)
	}
	i.asked = at.Query()
	i.claims["nonce"] = i.asked.Get("nonce")
	return s, url.Values{"code": {"code"}, "state": {i.asked.Get("state")}}
}

func (i *issuer) signIn(as config.OIDC) *signIn {
	as.ClientID, as.Scopes = "console", []string{"openid", "email"}
	client := func() *http.Client {
		c := newKeyClient()
		c.Transport.(*http.Transport).TLSClientConfig = i.web.Client().Transport.(*http.Transport).TLSClientConfig
		return c
	}
	return newSignIn(client, i.web.URL, as, "https://zk1/console/callback", true)
}

// TestSignIn signs in at a provider, with each way to show a secret.
func TestSignIn(t *testing.T) {
	i := newIssuer(t)
	hidden := secret.NewText("s:1 ")
	for _, c := range []struct {
		secret          secret.Text
		ways            []string
		basic, body, id string
	}{
		{secret.Text{}, nil, " ", "", "console"},
		{hidden, nil, "console s%3A1+", "", ""},
		{hidden, []string{"client_secret_post", "client_secret_basic"}, "console s%3A1+", "", ""},
		{hidden, []string{"client_secret_post"}, " ", "s:1 ", "console"},
	} {
		i.about["token_endpoint_auth_methods_supported"] = c.ways
		s, with := i.begin(config.OIDC{Secret: c.secret})
		for name, want := range map[string]string{
			"tenant": "1", "response_type": "code", "client_id": "console", "scope": "openid email", "redirect_uri": "https://zk1/console/callback", "code_challenge_method": "S256",
		} {
			if got := i.asked.Get(name); got != want {
				t.Errorf("%s=%q, want %q", name, got, want)
			}
		}
		token, err := s.finish(t.Context(), with)
		if err != nil || token != i.idToken() {
			t.Errorf("%v: %q, %v", c.ways, token, err)
		}
		if i.basic != c.basic || i.posted.Get("client_secret") != c.body || i.posted.Get("client_id") != c.id || i.posted.Get("redirect_uri") != "https://zk1/console/callback" {
			t.Errorf("%v: %q, %v", c.ways, i.basic, i.posted)
		}
	}
	s, with := i.begin(config.OIDC{})
	s.idToken = false
	i.claims["aud"] = []string{"other", "console"}
	if token, err := s.finish(t.Context(), with); token != "access" || err != nil {
		t.Errorf("the access token: %q, %v", token, err)
	}
	again, _ := i.begin(config.OIDC{})
	if again.state == s.state || again.nonce == s.nonce || again.verifier == s.verifier || len(s.verifier) < 43 {
		t.Error("what has to be new is not")
	}
}

// TestSignInRefusals comes back with what is not the answer of the provider to this sign-in.
func TestSignInRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*issuer, url.Values)
		want  string
	}{
		"another state":        {func(_ *issuer, with url.Values) { with.Set("state", "x") }, "another request"},
		"no state":             {func(_ *issuer, with url.Values) { with.Del("state") }, "another request"},
		"a refusal":            {func(_ *issuer, with url.Values) { with.Set("error", "access_denied\n") }, `refused: "access_denied\n"`},
		"another provider":     {func(_ *issuer, with url.Values) { with.Set("iss", "https://evil.example") }, "another provider"},
		"a provider in hiding": {func(i *issuer, _ url.Values) { i.about["authorization_response_iss_parameter_supported"] = true }, "another provider"},
		"no code":              {func(_ *issuer, with url.Values) { with.Del("code") }, "no code"},
		"another code":         {func(_ *issuer, with url.Values) { with.Set("code", "of bob") }, "no ID token"},
		"an error":             {func(i *issuer, _ url.Values) { i.status = 400 }, "does not take the code: 400"},
		"a redirection":        {func(i *issuer, _ url.Values) { i.status = 307 }, "does not take the code: 307"},
		"another nonce":        {func(i *issuer, _ url.Values) { i.claims["nonce"] = "x" }, "another nonce"},
		"no nonce":             {func(i *issuer, _ url.Values) { delete(i.claims, "nonce") }, "another nonce"},
		"another client":       {func(i *issuer, _ url.Values) { i.claims["aud"] = []string{"mail"} }, "another client"},
		"no client":            {func(i *issuer, _ url.Values) { delete(i.claims, "aud") }, "can't be read"},
		"another issuer":       {func(i *issuer, _ url.Values) { i.claims["iss"] = "https://evil.example" }, "another issuer"},
	} {
		i := newIssuer(t)
		if name == "a provider in hiding" {
			c.spoil(i, nil)
		}
		s, with := i.begin(config.OIDC{})
		c.spoil(i, with)
		if token, err := s.finish(t.Context(), with); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v; want error %q", name, token, err, c.want)
		}
	}
}

// TestSignInNowhere asks providers whose answers lead nowhere, or to where others could listen.
func TestSignInNowhere(t *testing.T) {
	for name, about := range map[string]map[string]any{
		"has no PKCE":                   {"code_challenge_methods_supported": []string{"plain"}},
		"authorization_endpoint \"http": {"authorization_endpoint": "http://id.example/"},
		"authorization_endpoint \"java": {"authorization_endpoint": "javascript:alert(1)"},
		"authorization_endpoint \"\"":   {"authorization_endpoint": ""},
		"token_endpoint \"http":         {"token_endpoint": "http://id.example/"},
		"is about the issuer":           {"issuer": "https://evil.example"},
	} {
		i := newIssuer(t)
		for key, value := range about {
			i.about[key] = value
		}
		if address, err := i.signIn(config.OIDC{}).begin(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q, %v; want error %q", address, err, name)
		}
	}
}

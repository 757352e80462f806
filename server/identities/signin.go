package identities

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/config"
)

// askFor bounds how long a provider has for an answer.
const askFor = 10 * time.Second

// SignIn begins a sign-in at the issuer of tokens: OpenID Connect's code flow with PKCE (RFC 7636). address is where the browser has to
// go. With the parameters with which it comes back to redirect, finish returns a token, which proves an identity as any other one: nothing but
// its scheme has verified it. finish is called once, and only for the browser that has begun.
func (ids *Identities) SignIn(ctx context.Context, redirect string) (address string, finish func(context.Context, url.Values) (token string, err error), err error) {
	s := newSignIn(newKeyClient, ids.cfg.Issuer, ids.signIn, redirect, slices.Contains(ids.cfg.Audiences, ids.signIn.ClientID))
	if address, err = s.begin(ctx); err != nil {
		ids.log.Warn("nobody can sign in to the console at the provider", zap.Error(err))
		return "", nil, err
	}
	return address, func(ctx context.Context, with url.Values) (string, error) {
		token, err := s.finish(ctx, with)
		if err != nil {
			ids.log.Warn("somebody could not sign in to the console at the provider", zap.Error(err))
		}
		return token, err
	}, nil
}

// signIn is a sign-in that is under way.
type signIn struct {
	client                           func() *http.Client
	issuer                           string
	as                               config.OIDC
	redirect, state, nonce, verifier string
	// idToken: the ID token is the proof, since its audience, the client, is one of this service's. Otherwise the access token is.
	idToken  bool
	provider *provider
}

func newSignIn(client func() *http.Client, issuer string, as config.OIDC, redirect string, idToken bool) *signIn {
	return &signIn{client: client, issuer: issuer, as: as, redirect: redirect, idToken: idToken,
		state: rand.Text(), nonce: rand.Text(), verifier: rand.Text() + rand.Text()}
}

// begin returns the address at which the provider asks who somebody is.
func (s *signIn) begin(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	p, err := discover(ctx, s.client(), s.issuer)
	if err != nil {
		return "", err
	}
	s.provider = p
	at, err := url.Parse(p.Authorize)
	switch {
	case err != nil || at.Scheme != "https" || at.Host == "":
		return "", fmt.Errorf("%s: authorization_endpoint %.200q is no address with https", s.issuer, p.Authorize)
	case !strings.HasPrefix(p.Token, "https://"):
		return "", fmt.Errorf("%s: token_endpoint %.200q does not begin with https", s.issuer, p.Token)
	case p.Methods != nil && !slices.Contains(p.Methods, "S256"):
		return "", fmt.Errorf("%s has no PKCE with S256", s.issuer)
	}
	challenge := sha256.Sum256([]byte(s.verifier))
	q := at.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": s.as.ClientID, "redirect_uri": s.redirect, "scope": strings.Join(s.as.Scopes, " "), "state": s.state, "nonce": s.nonce,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	at.RawQuery = q.Encode()
	return at.String(), nil
}

// finish returns the token for what the browser has come back with.
func (s *signIn) finish(ctx context.Context, with url.Values) (string, error) {
	from, known := with["iss"]
	switch {
	case subtle.ConstantTimeCompare([]byte(with.Get("state")), []byte(s.state)) == 0:
		return "", errors.New("the answer is to another request")
	case known && from[0] != s.issuer, !known && s.provider.NamesSelf:
		return "", errors.New("the answer is of another provider") // RFC 9207
	case with.Get("error") != "":
		return "", fmt.Errorf("the provider has refused: %.100q", with.Get("error"))
	case with.Get("code") == "":
		return "", errors.New("the answer has no code")
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	access, id, err := s.redeem(ctx, with.Get("code"))
	if err != nil {
		return "", err
	}
	if err := s.checkID(id); err != nil {
		return "", err
	}
	if s.idToken {
		return id, nil
	}
	return access, nil
}

// redeem returns the tokens for a code.
func (s *signIn) redeem(ctx context.Context, code string) (access, id string, err error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {s.redirect}, "code_verifier": {s.verifier}}
	inBody := slices.Contains(s.provider.TokenAuth, "client_secret_post") && !slices.Contains(s.provider.TokenAuth, "client_secret_basic")
	secret := s.as.Secret.Reveal()
	if secret == "" || inBody {
		form.Set("client_id", s.as.ClientID)
	}
	if inBody && secret != "" {
		form.Set("client_secret", secret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.provider.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return "", "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if secret != "" && !inBody {
		r.SetBasicAuth(url.QueryEscape(s.as.ClientID), url.QueryEscape(secret)) // RFC 6749, section 2.3.1
	}
	client := s.client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the secret and the code are for nobody else
	resp, err := client.Do(r)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	text, err := readKeySet(resp.Body)
	if err != nil {
		return "", "", err
	}
	var answer struct {
		Access string `json:"access_token"`
		ID     string `json:"id_token"`
		Error  string `json:"error"`
	}
	err = json.Unmarshal(text, &answer)
	switch {
	case resp.StatusCode != http.StatusOK:
		return "", "", fmt.Errorf("%s does not take the code: %s %.100q", s.provider.Token, resp.Status, answer.Error)
	case err != nil:
		return "", "", fmt.Errorf("%s: %w", s.provider.Token, err)
	}
	return answer.Access, answer.ID, nil
}

// checkID checks that the ID token is for this sign-in. It comes from the provider itself, over TLS, so its signature says no more (OpenID Connect Core
// 1.0, section 3.1.3.7).
func (s *signIn) checkID(token string) error {
	var claims struct {
		Issuer   string          `json:"iss"`
		Audience json.RawMessage `json:"aud"`
		Nonce    string          `json:"nonce"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("the provider gives no ID token")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(text, &claims)
	}
	var one string
	var several []string
	if json.Unmarshal(claims.Audience, &one) == nil {
		several = []string{one}
	} else if err == nil {
		err = json.Unmarshal(claims.Audience, &several)
	}
	switch {
	case err != nil:
		return fmt.Errorf("the ID token can't be read: %w", err)
	case claims.Issuer != s.issuer:
		return errors.New("the ID token is of another issuer")
	case !slices.Contains(several, s.as.ClientID):
		return errors.New("the ID token is for another client")
	case subtle.ConstantTimeCompare([]byte(claims.Nonce), []byte(s.nonce)) == 0:
		return errors.New("the ID token is of another sign-in: it has another nonce")
	}
	return nil
}

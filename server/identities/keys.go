package identities

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxKeySet bounds a JSON Web Key Set, in bytes.
const maxKeySet = 1 << 20

// newKeyClient returns a client for one fetch. It keeps no connection, so that there is
// none to close.
func newKeyClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Scheme != "https" || len(via) > 3 {
				return fmt.Errorf("redirected to %s: only three redirections, to https, are followed", r.URL.Redacted())
			}
			return nil
		},
	}
}

// provider is what an issuer says of itself.
type provider struct {
	Issuer    string   `json:"issuer"`
	Keys      string   `json:"jwks_uri"`
	Authorize string   `json:"authorization_endpoint"`
	Token     string   `json:"token_endpoint"`
	Methods   []string `json:"code_challenge_methods_supported"`
	TokenAuth []string `json:"token_endpoint_auth_methods_supported"`
	NamesSelf bool     `json:"authorization_response_iss_parameter_supported"`
}

// discover asks an issuer where everything is (OpenID Connect Discovery 1.0, section 4). It must say of itself what tokens say of it.
func discover(ctx context.Context, client *http.Client, issuer string) (*provider, error) {
	address := strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
	text, err := fetchKeys(ctx, client, address)
	if err != nil {
		return nil, err
	}
	p := new(provider)
	switch err := json.Unmarshal(text, p); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", address, err)
	case p.Issuer != issuer:
		return nil, fmt.Errorf("%s is about the issuer %.200q, not %q", address, p.Issuer, issuer)
	}
	return p, nil
}

// discoverKeys fetches the keys from the address that the issuer names.
func discoverKeys(ctx context.Context, client *http.Client, issuer string) ([]byte, error) {
	p, err := discover(ctx, client, issuer)
	switch {
	case err != nil:
		return nil, err
	case !strings.HasPrefix(p.Keys, "https://"):
		return nil, fmt.Errorf("%s: jwks_uri %.200q does not begin with https", issuer, p.Keys)
	}
	return fetchKeys(ctx, client, p.Keys)
}

func fetchKeys(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", address, resp.Status)
	}
	return readKeySet(resp.Body)
}

func readKeySet(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxKeySet+1))
	if err == nil && len(text) > maxKeySet {
		err = fmt.Errorf("larger than %d bytes", maxKeySet)
	}
	return text, err
}

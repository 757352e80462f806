package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/auth/certid"
	"github.com/zkd-project/zkd/server/auth/jwt"
	"github.com/zkd-project/zkd/server/auth/sasl"
	"github.com/zkd-project/zkd/server/config"
)

// identities are the schemes that the configuration turns on.
type identities struct {
	schemes *auth.Schemes
	tokens  *jwt.Provider // nil if the scheme jwt is off
}

func newIdentities(cfg *config.Config, log *zap.Logger) (ids identities, err error) {
	var providers []auth.Provider
	if cfg.HasScheme("x509") {
		p, err := certid.New(certConfig(&cfg.Identities.X509))
		if err != nil {
			return ids, fmt.Errorf("set up scheme x509: %w", err)
		}
		providers = append(providers, p)
	}
	if cfg.HasScheme("ensemble") {
		providers = append(providers, auth.NewEnsemble(cfg.Identities.EnsembleNames...))
	}
	if cfg.HasScheme("jwt") {
		if ids.tokens, err = jwt.New(tokenConfig(&cfg.Identities.JWT, log)); err != nil {
			return ids, fmt.Errorf("set up scheme jwt: %w", err)
		}
		providers = append(providers, ids.tokens)
	}
	if cfg.SASL.On {
		providers = append(providers, sasl.Provider{EverybodyAs: cfg.SASL.EverybodyAs})
	}
	ids.schemes, err = auth.New(auth.Config{
		SuperDigest:   cfg.SuperDigest.Reveal(),
		DigestAlg:     cfg.DigestAlg,
		DigestEnabled: cfg.DigestAuth,
		SkipACL:       cfg.SkipACL,
		Providers:     providers,
	})
	return ids, err
}

func certConfig(x *config.X509) certid.Config {
	sources := map[string]certid.Source{"SDN": certid.Subject, "SAN": certid.AltName, "SPIFFE": certid.SPIFFE}
	return certid.Config{
		From:      sources[x.IDType],
		Rule:      certid.Rule{Type: x.SANType, Match: x.SANMatch, Extract: x.SANExtract, Group: x.SANGroup},
		SuperUser: x.SuperUser,
	}
}

func tokenConfig(j *config.JWT, log *zap.Logger) jwt.Config {
	fetch := func(context.Context) ([]byte, error) { return readKeys(j.Keys) }
	switch {
	case j.Keys == "":
		fetch = func(ctx context.Context) ([]byte, error) { return discoverKeys(ctx, newKeyClient(), j.Issuer) }
	case j.KeysURL():
		fetch = func(ctx context.Context) ([]byte, error) { return fetchKeys(ctx, newKeyClient(), j.Keys) }
	}
	return jwt.Config{
		Issuer:     j.Issuer,
		Audiences:  j.Audiences,
		Algorithms: j.Algorithms,
		IDClaim:    j.IDClaim,
		SuperUser:  j.SuperUser,
		Skew:       j.ClockSkew,
		Refresh:    j.Refresh,
		Fetch:      fetch,
		Failed: func(err error) {
			log.Warn("can't read the keys of tokens; trying again (zkd.jwt.keys)", zap.String("issuer", j.Issuer), zap.String("keys", j.Keys), zap.Error(err))
		},
		Now: time.Now,
	}
}

// registerTokens registers the metrics of the keys of tokens.
func (s *Server) registerTokens() {
	tokens := s.identities.tokens
	if tokens == nil {
		return
	}
	counter := func(name, help string, value func(jwt.Stats) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return value(tokens.Stats()) })
	}
	gauge := func(name, help string, value func(jwt.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(tokens.Stats()) })
	}
	s.registry.MustRegister(
		counter("zkd_jwt_key_reads_total", "How often the keys of tokens were read, or could not be.", func(st jwt.Stats) float64 { return float64(st.Reads) }),
		counter("zkd_jwt_key_read_failures_total", "How often the keys of tokens could not be read.", func(st jwt.Stats) float64 { return float64(st.Failures) }),
		gauge("zkd_jwt_keys", "Keys that tokens are checked with.", func(st jwt.Stats) float64 { return float64(st.Keys) }),
		gauge("zkd_jwt_keys_read_seconds", "When they were read, as Unix time; 0 if never.", func(st jwt.Stats) float64 {
			if st.Read.IsZero() {
				return 0
			}
			return float64(st.Read.Unix())
		}),
	)
}

// open reads the keys of tokens. A file must be readable and have keys; an address may be
// unreachable for now.
func (ids *identities) open(cfg *config.JWT, log *zap.Logger) error {
	if ids.tokens == nil {
		return nil
	}
	err := ids.tokens.Load()
	if err != nil && cfg.KeysURL() {
		log.Warn("can't read the keys of tokens; trying again when a client sends a token (zkd.jwt.keys)",
			zap.String("issuer", cfg.Issuer), zap.String("keys", cfg.Keys), zap.Error(err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("zkd.jwt.keys=%s: %w", cfg.Keys, err)
	}
	return nil
}

// close ends what connections wait for.
func (ids *identities) close() {
	if ids.tokens != nil {
		ids.tokens.Close()
	}
}

// maxKeySet bounds a JSON Web Key Set, in bytes.
const maxKeySet = 1 << 20

func readKeys(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readKeySet(f)
}

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

// discoverKeys fetches the keys from the address that the issuer names (OpenID Connect
// Discovery 1.0, section 4). The issuer must say of itself what tokens say of it.
func discoverKeys(ctx context.Context, client *http.Client, issuer string) ([]byte, error) {
	address := strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
	text, err := fetchKeys(ctx, client, address)
	if err != nil {
		return nil, err
	}
	var provider struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	switch err := json.Unmarshal(text, &provider); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", address, err)
	case provider.Issuer != issuer:
		return nil, fmt.Errorf("%s is about the issuer %.200q, not %q", address, provider.Issuer, issuer)
	case !strings.HasPrefix(provider.Keys, "https://"):
		return nil, fmt.Errorf("%s: jwks_uri %.200q does not begin with https", address, provider.Keys)
	}
	return fetchKeys(ctx, client, provider.Keys)
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

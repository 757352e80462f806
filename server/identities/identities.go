package identities

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/smallfile"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/auth/certid"
	"github.com/zkd-project/zkd/server/auth/jwt"
	"github.com/zkd-project/zkd/server/auth/sasl"
	"github.com/zkd-project/zkd/server/config"
)

// Identities are the schemes that the configuration turns on.
type Identities struct {
	Schemes *auth.Schemes

	tokens *jwt.Provider // nil if the scheme jwt is off
	cfg    config.JWT
	signIn config.OIDC
	log    *zap.Logger
}

// New returns the schemes that a configuration turns on. It does no I/O.
func New(cfg *config.Config, log *zap.Logger) (*Identities, error) {
	ids := &Identities{cfg: cfg.Identities.JWT, signIn: cfg.Identities.OIDC, log: log}
	var providers []auth.Provider
	if cfg.HasScheme("x509") {
		p, err := certid.New(certConfig(&cfg.Identities.X509))
		if err != nil {
			return nil, fmt.Errorf("set up scheme x509: %w", err)
		}
		providers = append(providers, p)
	}
	if cfg.HasScheme("ensemble") {
		providers = append(providers, auth.NewEnsemble(cfg.Identities.EnsembleNames...))
	}
	if cfg.HasScheme("jwt") {
		var err error
		if ids.tokens, err = jwt.New(tokenConfig(&ids.cfg, log)); err != nil {
			return nil, fmt.Errorf("set up scheme jwt: %w", err)
		}
		providers = append(providers, ids.tokens)
	}
	if cfg.SASL.On {
		providers = append(providers, sasl.Provider{EverybodyAs: cfg.SASL.EverybodyAs})
	}
	schemes, err := auth.New(auth.Config{
		SuperDigest:   cfg.SuperDigest.Reveal(),
		DigestAlg:     cfg.DigestAlg,
		DigestEnabled: cfg.DigestAuth,
		SkipACL:       cfg.SkipACL,
		Edges:         cfg.Edges,
		Supers:        cfg.Supers(),
		Providers:     providers,
	})
	ids.Schemes = schemes
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
	fetch := func(context.Context) ([]byte, error) { return smallfile.Read(j.Keys, maxKeySet, "a JSON Web Key Set") }
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

// Metrics returns those of the keys of tokens.
func (ids *Identities) Metrics() []prometheus.Collector {
	if ids.tokens == nil {
		return nil
	}
	counter := func(name, help string, value func(jwt.Stats) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return value(ids.tokens.Stats()) })
	}
	gauge := func(name, help string, value func(jwt.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(ids.tokens.Stats()) })
	}
	return []prometheus.Collector{
		counter("zkd_jwt_key_reads_total", "How often the keys of tokens were read, or could not be.", func(st jwt.Stats) float64 { return float64(st.Reads) }),
		counter("zkd_jwt_key_read_failures_total", "How often the keys of tokens could not be read.", func(st jwt.Stats) float64 { return float64(st.Failures) }),
		gauge("zkd_jwt_keys", "Keys that tokens are checked with.", func(st jwt.Stats) float64 { return float64(st.Keys) }),
		gauge("zkd_jwt_keys_read_seconds", "When they were read, as Unix time; 0 if never.", func(st jwt.Stats) float64 {
			if st.Read.IsZero() {
				return 0
			}
			return float64(st.Read.Unix())
		}),
	}
}

// Open reads the keys of tokens. A file must be readable and have keys; an address may be
// unreachable for now.
func (ids *Identities) Open() error {
	if ids.tokens == nil {
		return nil
	}
	err := ids.tokens.Load()
	if err != nil && ids.cfg.KeysURL() {
		ids.log.Warn("can't read the keys of tokens; trying again when a client sends a token (zkd.jwt.keys)",
			zap.String("issuer", ids.cfg.Issuer), zap.String("keys", ids.cfg.Keys), zap.Error(err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("zkd.jwt.keys=%s: %w", ids.cfg.Keys, err)
	}
	return nil
}

// Close ends what connections wait for.
func (ids *Identities) Close() {
	if ids.tokens != nil {
		ids.tokens.Close()
	}
}

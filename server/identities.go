package server

import (
	"fmt"

	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/auth/certid"
	"github.com/zkd-project/zkd/server/config"
)

// newSchemes returns the schemes that the configuration turns on.
func newSchemes(cfg *config.Config) (*auth.Schemes, error) {
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
	return auth.New(auth.Config{
		SuperDigest:   cfg.SuperDigest,
		DigestAlg:     cfg.DigestAlg,
		DigestEnabled: cfg.DigestAuth,
		SkipACL:       cfg.SkipACL,
		Providers:     providers,
	})
}

func certConfig(x *config.X509) certid.Config {
	sources := map[string]certid.Source{"SDN": certid.Subject, "SAN": certid.AltName, "SPIFFE": certid.SPIFFE}
	return certid.Config{
		From:      sources[x.IDType],
		Rule:      certid.Rule{Type: x.SANType, Match: x.SANMatch, Extract: x.SANExtract, Group: x.SANGroup},
		SuperUser: x.SuperUser,
	}
}

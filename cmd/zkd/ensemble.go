package main

import (
	"crypto/tls"
	"net"
	"strconv"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/cmd/zkcli/ensemble"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/secure"
)

// asksMembers returns what asks the members for the HTTP API, and must be closed, and how. There is none without the API, and
// for a server without a port by which it can ask itself.
func asksMembers(cfg *config.Config, log *zap.Logger) (*ensemble.Ensemble, servers.Asker, error) {
	if !cfg.Admin.API {
		return nil, servers.Asker{}, nil
	}
	asker, self, err := asksItself(cfg, log)
	if err != nil || self == "" {
		return nil, asker, err
	}
	return ensemble.New(asker, cfg.MyID, self), asker, nil
}

// asksItself returns how this server asks the members, and its own address. That is "" if it has no port by which it can.
func asksItself(cfg *config.Config, log *zap.Logger) (servers.Asker, string, error) {
	at := func(host string, port int) string { return net.JoinHostPort(reachable(host), strconv.Itoa(port)) }
	if cfg.ClientPort > 0 {
		return servers.Asker{}, at(cfg.ClientPortAddress, cfg.ClientPort), nil
	}
	t := &cfg.ClientTLS
	if t.Port <= 0 {
		return servers.Asker{}, "", nil
	}
	files, err := secure.New(t.Settings, "client", log)
	if err != nil {
		return servers.Asker{}, "", err
	}
	return servers.Asker{TLS: func(host string) (*tls.Config, error) {
		switch {
		case host == reachable(t.Address):
			return files.Self(), nil
		case !t.VerifyHost:
			host = ""
		}
		return files.Peer(host), nil
	}}, at(t.Address, t.Port), nil
}

package main

import (
	"context"
	"net"
	"strconv"

	"github.com/zkd-project/zkd/cmd/zkcli/ensemble"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/config"
)

// lookAtEnsemble returns what asks the members for the HTTP API, nil if the server has no port without TLS by which it can ask itself.
func lookAtEnsemble(cfg *config.Config) func(context.Context) *api.Ensemble {
	if !cfg.Admin.API || cfg.ClientPort <= 0 {
		return nil
	}
	host := cfg.ClientPortAddress
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return ensemble.New(servers.Asker{}, cfg.MyID, net.JoinHostPort(host, strconv.Itoa(cfg.ClientPort))).Look
}

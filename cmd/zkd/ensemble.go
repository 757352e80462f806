package main

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/cmd/zkcli/why"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/config"
)

// ensemble asks the members of the ensemble for the HTTP API, as zkcli why does.
type ensemble struct {
	self string // where this server is asked
	id   int64
	ask  func(ctx context.Context, addrs []string) why.Facts

	mu   sync.Mutex
	last *api.Ensemble
	at   time.Time
}

// ensembleFresh is for how long the members are not asked again, however many callers there are.
const ensembleFresh = 4 * time.Second

// newEnsemble returns nil if the server has no port without TLS by which it can ask itself.
func newEnsemble(cfg *config.Config) func(context.Context) *api.Ensemble {
	if !cfg.Admin.API || cfg.ClientPort <= 0 {
		return nil
	}
	host := cfg.ClientPortAddress
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	e := &ensemble{self: net.JoinHostPort(host, strconv.Itoa(cfg.ClientPort)), id: cfg.MyID}
	e.ask = servers.Examination{Limit: 2 * time.Second, Interval: time.Second}.Examine
	return e.look
}

// look returns how the members are. One caller at a time asks them.
func (e *ensemble) look(ctx context.Context) *api.Ensemble {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil || time.Since(e.at) > ensembleFresh {
		facts := e.ask(context.WithoutCancel(ctx), []string{e.self}) // others wait for the answer
		e.last, e.at = e.describe(&facts), time.Now()
	}
	return e.last
}

// describe returns the records of an answer.
func (e *ensemble) describe(facts *why.Facts) *api.Ensemble {
	out := &api.Ensemble{At: facts.Now, Self: e.id, Complete: facts.Complete, Members: []api.Peer{}, Findings: []api.Finding{}}
	var newest uint64
	for i := range facts.Servers {
		s := &facts.Servers[i]
		newest = max(newest, zxidOf(s))
	}
	voters, up := 0, 0
	for i := range facts.Servers {
		p := describePeer(&facts.Servers[i], facts.Interval, newest)
		if p.Voter {
			voters++
			if p.Problem == "" {
				up++
			}
		}
		out.Members = append(out.Members, p)
	}
	out.MayFail = int64(up - (voters/2 + 1))
	for _, f := range why.Find(*facts) {
		out.Findings = append(out.Findings, api.Finding{ID: f.ID, Severity: f.Severity.String(), Servers: append([]string{}, f.Servers...),
			What: f.What, SinceMs: f.Since.Milliseconds(), Do: f.Do})
	}
	return out
}

// zxidOf returns the zxid of a server at the later of the two times at which it was asked.
func zxidOf(s *why.Server) uint64 { return cmp.Or(s.After.Zxid, s.Before.Zxid) }

// describePeer returns the record of a member.
func describePeer(s *why.Server, interval time.Duration, newest uint64) api.Peer {
	p := api.Peer{Name: s.Name, ID: s.ID, Role: cmp.Or(s.Mode, "unknown"), Voter: !s.Observer, Version: s.Version, Lag: -1, Requests: -1, Clients: -1, Silent: s.Unanswered}
	switch {
	case s.Unreachable != "":
		p.Role, p.Problem = "unreachable", s.Unreachable
		return p
	case s.NotServing:
		p.Role, p.Problem = "not-serving", cmp.Or(s.Detail, "it finds no quorum")
		return p
	}
	zxid := zxidOf(s)
	p.Zxid = "0x" + strconv.FormatUint(zxid, 16)
	if zxid>>32 == newest>>32 { // else it is of another leader's time, and zxids can't be counted
		p.Lag = int64(newest - zxid)
	}
	if n, err := strconv.ParseInt(s.After.Metrics["num_alive_connections"], 10, 64); err == nil {
		p.Clients = n
	}
	before, err1 := strconv.ParseInt(s.Before.Metrics["packets_received"], 10, 64)
	after, err2 := strconv.ParseInt(s.After.Metrics["packets_received"], 10, 64)
	if err1 == nil && err2 == nil && after >= before && interval > 0 {
		p.Requests = int64(float64(after-before)/interval.Seconds() + 0.5)
	}
	p.Latency = s.After.Metrics["avg_latency"]
	return p
}

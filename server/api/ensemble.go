package api

import (
	"context"
	"net/http"
	"time"
)

// Ensemble is how the members of an ensemble are.
type Ensemble struct {
	At       int64     `json:"at" doc:"when the members were asked, in ms since 1970"`
	Self     int64     `json:"self" doc:"the id of the server that answers, 0 without an ensemble"`
	Complete bool      `json:"complete" doc:"all members are known, and were asked"`
	MayFail  int64     `json:"mayFail" doc:"how many more voters may fail; negative if there is no quorum"`
	Members  []Peer    `json:"members"`
	Findings []Finding `json:"findings" doc:"what is wrong, the worst first, as zkcli why finds it"`
	Standby  *Standby  `json:"standby,omitempty" doc:"of a standby, which is the only one of the members then"`
	Load     []Load    `json:"load,omitempty" doc:"of the last hour, a sample each minute; none yet of a server without the console that nobody has asked"`
}

// Load is what the members did since the sample before.
type Load struct {
	At        int64   `json:"at" doc:"in ms since 1970"`
	Requests  int64   `json:"requests" doc:"from clients, per second, of all members that tell it; -1 if none does"`
	LatencyMs float64 `json:"latencyMs" doc:"of requests on average, at the slowest member; -1 if there were none"`
}

// Peer is a member of an ensemble.
type Peer struct {
	Name     string   `json:"name" doc:"host and port for clients"`
	ID       int64    `json:"id" doc:"0 if it is not known"`
	Role     string   `json:"role" enum:"leader follower observer standalone standby read-only not-serving unreachable unknown"`
	Problem  string   `json:"problem,omitempty"`
	Voter    bool     `json:"voter"`
	Version  string   `json:"version,omitempty"`
	Zxid     string   `json:"zxid,omitempty"`
	Lag      int64    `json:"lag" doc:"by how many zxids it is behind the newest one, -1 if that is not known"`
	Requests int64    `json:"requests" doc:"from clients, per second; -1 if that is not known"`
	Latency  string   `json:"latency,omitempty" doc:"of requests on average, in ms"`
	Clients  int64    `json:"clients" doc:"connections, -1 if that is not known"`
	Silent   []string `json:"silent,omitempty" doc:"the four-letter words that it is not allowed to answer"`
}

// Finding is something that is wrong.
type Finding struct {
	ID       string   `json:"id" doc:"the anchor in docs/why.md"`
	Severity string   `json:"severity" enum:"broken danger notice"`
	Servers  []string `json:"servers"`
	What     string   `json:"what"`
	SinceMs  int64    `json:"sinceMs,omitempty" doc:"for how long it has been so"`
	Do       string   `json:"do" doc:"what to do"`
}

// getEnsemble tells how the members are.
func (c *call) getEnsemble() error {
	if c.Ensemble == nil && !c.ReadOnly {
		return refuse(http.StatusNotFound, "this server does not ask the members: it has neither clientPort nor secureClientPort")
	}
	out := Ensemble{At: time.Now().UnixMilli(), Members: []Peer{}, Findings: []Finding{}}
	if c.Ensemble != nil {
		e := c.Ensemble(c.r.Context())
		if e == nil {
			return context.Cause(c.r.Context())
		}
		out = *e // which is for all callers
	}
	if c.ReadOnly {
		out.Standby = standbyOf(c.Server().View())
	}
	return c.answer(http.StatusOK, &out)
}

package member

import (
	"context"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
)

// Ensemble is the ensemble whose members are shown and changed.
type Ensemble interface {
	// Members returns the text of /zookeeper/config, at least as new as this call.
	Members(ctx context.Context) (string, error)
	// MayChange returns an error if the client may not change the members.
	MayChange(ctx context.Context) error
	// Reconfig changes the members, which must have a version, and returns the new text.
	Reconfig(ctx context.Context, m client.Members, version int64) (string, error)
	// Address returns where Look reaches a server, or "" if its line does not say it.
	Address(Server) string
	// Look asks the servers at some addresses for their state.
	Look(ctx context.Context, addrs []string) []servers.View
}

// Status is the members and their state.
type Status struct {
	List  List
	views map[int64]servers.View
}

// Look returns the state of the ensemble. It is an error, before any server is asked for its state, if one of
// the ids is not a member's.
func Look(ctx context.Context, e Ensemble, ids ...int64) (Status, error) {
	text, err := e.Members(ctx)
	if err != nil {
		return Status{}, err
	}
	list, err := ParseList(text)
	if err == nil && len(list.Servers) == 0 {
		err = &wordedError{singleServer, client.ErrUnimplemented}
	}
	for _, id := range ids {
		if _, ok := list.Server(id); !ok && err == nil {
			err = list.stranger(id)
		}
	}
	if err != nil {
		return Status{}, err
	}
	return Status{list, look(ctx, e, list.Servers)}, nil
}

const singleServer = "this is a single server, without members: an ensemble of one, which can grow, has one server line and standaloneEnabled=false"

// look asks servers for their state. The map has those whose client address is known.
func look(ctx context.Context, e Ensemble, list []Server) map[int64]servers.View {
	var addrs []string
	var ids []int64
	for _, s := range list {
		if at := e.Address(s); at != "" {
			addrs, ids = append(addrs, at), append(ids, s.ID)
		}
	}
	views := make(map[int64]servers.View)
	for i, v := range e.Look(ctx, addrs) {
		views[ids[i]] = v
	}
	return views
}

// Leader returns the id of the leader, or -1 if it is not known.
func (s *Status) Leader() int64 {
	for id, v := range s.views {
		if v.Mode == "leader" {
			return id
		}
	}
	return -1
}

// head returns the zxid of the leader, or the highest one.
func (s *Status) head() (z client.Zxid) {
	if v, ok := s.views[s.Leader()]; ok {
		return v.LastZxid()
	}
	for _, v := range s.views {
		z = max(z, v.LastZxid())
	}
	return z
}

// up reports whether a member serves, as far as is known: one that does not tell its state,
// or has no address to ask, is taken to serve.
func (s *Status) up(id int64) bool {
	v, asked := s.views[id]
	return !asked || v.Silent || v.Serves()
}

// Tolerance returns what the ensemble can lose.
func (s *Status) Tolerance() Tolerance { return s.List.Tolerance(s.up) }

// Member is a member and its state.
type Member struct {
	ID      int64  `json:"id"`
	Role    string `json:"role"`
	Demoted bool   `json:"demotedByAutopilot,omitempty"` // and to be a voter again when it is back
	Quorum  string `json:"quorum"`
	Client  string `json:"client,omitempty"`
	State   string `json:"state"` // of srvr: leader, follower, observer; or why there is none
	Zxid    string `json:"zxid,omitempty"`
	Behind  *int64 `json:"behind"` // transactions; nil if it is not known
	Problem string `json:"problem,omitempty"`
}

// Members returns the members and their state.
func (s *Status) Members() []Member {
	var list []Member
	for _, m := range s.List.Servers {
		v, asked := s.views[m.ID]
		row := Member{m.ID, m.Role(), m.Demoted, m.Quorum, v.Server, v.Mode, v.Zxid, v.Lag, v.Problem}
		switch {
		case v.Mode != "":
			row.Problem = "" // it is that mntr does not answer
		case !asked || v.Silent:
			row.State = "unknown"
		case v.Reachable:
			row.State = "not serving"
		default:
			row.State = "not reachable"
		}
		if joiner, ok := s.views[s.Leader()].Joiners[m.ID]; ok && v.Mode == "" {
			row.Problem = joiner.String()
		}
		list = append(list, row)
	}
	return list
}

// NonVoting returns how many followers the leader has that have no vote, or 0 if it does not say.
func (s *Status) NonVoting() int64 {
	if v := s.views[s.Leader()]; v.NonVoting != nil {
		return *v.NonVoting
	}
	return 0
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/member"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/api"
)

// operator changes the members for the HTTP API, as zkcli member does: it plans and waits as that, and asks the members for their state. What it
// changes are requests of the caller. It implements api.Operator.
type operator struct {
	asker servers.Asker
}

// reached is the ensemble that a caller changes. It implements member.Ensemble.
type reached struct {
	api.Access
	asker servers.Asker
}

// stateWithin is how long a server may take to tell its state, as for zkcli member.
const stateWithin = 3 * time.Second

func (e *reached) Members(context.Context) (string, error) {
	text, err := e.Access.Members()
	return text, clientError(jute.OpGetData, err)
}

func (e *reached) MayChange(context.Context) error {
	return clientError(jute.OpSetData, e.Access.MayChange())
}

func (e *reached) Reconfig(_ context.Context, m client.Members, version int64) (string, error) {
	text, err := e.Access.Reconfig(m.Joining, m.Leaving, m.All, version)
	return text, clientError(jute.OpReconfig, err)
}

func (e *reached) Address(s member.Server) string { return s.Address(e.asker) }

func (e *reached) Look(ctx context.Context, addrs []string) []servers.View {
	return servers.LookAll(ctx, addrs, stateWithin, e.asker.Look)
}

// clientError returns the error that a client would have.
func clientError(op jute.OpCode, err error) error {
	code, ok := err.(jute.Code)
	if !ok {
		return err
	}
	return &client.Error{Op: op, Err: code, Ambiguous: code == jute.ErrConnectionLoss && op.Write()}
}

func (o *operator) Change(ctx context.Context, a api.Access, r *api.MemberRequest, how api.ChangeOptions) (*api.MemberChange, error) {
	change, err := changeOf(r)
	if err != nil {
		return nil, api.Invalid(err)
	}
	x := member.Runner{Ensemble: &reached{a, o.asker}, Timeout: how.Timeout, Progress: func(string) {}}
	if how.DryRun {
		f, err := x.Forecast(ctx, change)
		if err != nil {
			return nil, err
		}
		out := record(&f.Announcement, &f.List)
		out.DryRun, out.Waits = true, f.Waits
		return out, possible(&f.Announcement)
	}
	x.Announce = func(a member.Announcement) error {
		if a.Ask && !how.Force {
			return &api.Problem{Title: http.StatusText(http.StatusConflict), Status: http.StatusConflict, Detail: a.String() + " force=true does it."}
		}
		return possible(&a)
	}
	res, err := x.Run(ctx, change)
	if err != nil {
		return nil, err
	}
	out := record(&res.Announcement, &res.List)
	out.Changed = res.Changed
	return out, nil
}

// possible returns why the servers would refuse a change, or nil.
func possible(a *member.Announcement) error {
	if len(a.Does) > 0 && a.After.Spare < 0 {
		return fmt.Errorf("the servers refuse that, as those of the new voters that are up are no quorum: %s", a)
	}
	return nil
}

// changeOf returns the change that a request asks for.
func changeOf(r *api.MemberRequest) (c member.Change, err error) {
	if len(r.Servers) == 0 {
		return c, errors.New("servers is empty: it says which servers are to change")
	}
	switch r.Action {
	case "add":
		return member.Add(r.Servers, r.Group)
	case "remove":
		return member.Remove(r.Servers)
	case "promote":
		return member.Promote(r.Servers)
	case "demote":
		return member.Demote(r.Servers)
	case "replace":
		if len(r.Servers) != 2 {
			return c, errors.New("replace takes the id of a member, and the line of the server that comes in its place")
		}
		return member.Replace(r.Servers[0], r.Servers[1])
	}
	return c, fmt.Errorf("there is no action %q: write add, remove, promote, demote or replace", r.Action)
}

// record returns the record of an answer.
func record(a *member.Announcement, l *member.List) *api.MemberChange {
	out := &api.MemberChange{Does: append([]string{}, a.Does...), Notes: append([]string{}, a.Notes...), Asks: a.Ask,
		Before: tolerance(a.Before), After: tolerance(a.After), Version: fmt.Sprintf("%x", l.Version), Members: []string{}}
	for _, s := range l.Servers {
		out.Members = append(out.Members, s.String())
	}
	return out
}

func tolerance(t member.Tolerance) api.Tolerance {
	return api.Tolerance{Voters: int64(t.Voters), Up: int64(t.Up), Spare: int64(t.Spare), Text: t.String()}
}

func (o *operator) TransferLeader(ctx context.Context, a api.Access, id int64, dryRun bool) error {
	e := &reached{a, o.asker}
	st, err := member.Look(ctx, e, id)
	if err == nil {
		err = st.MayLead(id)
	}
	if err != nil || dryRun {
		return err
	}
	return member.TransferLeader(ctx, e, id, func(context.Context) error { return clientError(jute.OpTransferLeader, a.TransferLeader(id)) }, func(string) {})
}

func (o *operator) Welcomes(ctx context.Context, a api.Access, id int64) (bool, error) {
	st, err := member.Look(ctx, &reached{a, o.asker}, id)
	return err == nil && st.Welcomes(id), err
}

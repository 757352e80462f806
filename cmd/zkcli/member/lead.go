package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/pause"
)

// MayLead returns why a member can't become the leader, or nil. A server that does not tell its state is left to the leader to judge.
func (s *Status) MayLead(id int64) error {
	m, _ := s.List.Server(id)
	if m.Observer {
		return fmt.Errorf("server %d can't take over: it is no voter", id)
	}
	if v, asked := s.views[id]; asked && s.Leader() != id {
		reason, err := lacks(&v, 0)
		if err != nil {
			reason = err.Error()
		}
		if reason != "" {
			return fmt.Errorf("server %d can't take over: it %s", id, reason)
		}
	}
	return nil
}

// TransferLeader makes a server the leader by a request, and waits until it leads. The connection may break before the answer
// comes, so what counts is who leads.
func TransferLeader(ctx context.Context, e Ensemble, id int64, request func(context.Context) error, progress func(string)) error {
	for {
		st, err := Look(ctx, e, id)
		switch {
		case ctx.Err() == nil && lostConnection(err): // between two leaders
		case err != nil:
			return err
		case st.Leader() == id:
			return nil
		default:
			if err := request(ctx); err != nil && !lostConnection(err) {
				return notTransferred(err, id)
			}
		}
		progress(fmt.Sprintf("server %d takes over", id))
		if pause.For(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("server %d does not lead: %w", id, ctx.Err())
		}
	}
}

// lostConnection reports whether the connection broke, whatever became of the request.
func lostConnection(err error) bool {
	return err != nil && (client.IsRetryable(err) || client.IsAmbiguous(err))
}

func notTransferred(err error, id int64) error {
	switch {
	case errors.Is(err, client.ErrBadArguments):
		return &wordedError{fmt.Sprintf("server %d can't take over: it is no voter, or not up to date", id), err}
	case errors.Is(err, client.ErrUnimplemented):
		return &wordedError{"these servers can't choose their leader: only zkd's can", err}
	}
	return err
}

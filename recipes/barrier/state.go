package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// state is the data of an event's node.
type state struct {
	Kind Kind `json:"kind"`
	// Set and Turn are a ManualReset event's. Turn counts how often it was set: a waiter
	// is released when it has changed, even if the event has been reset since.
	Set  bool  `json:"set,omitempty"`
	Turn int64 `json:"turn,omitempty"`
	// Signals is an AutoReset event's: how many signals nobody has taken yet.
	Signals int `json:"signals,omitempty"`
	// Recent has the names of the last changes, the newest last. A client whose reply
	// was lost finds its change there, also if others have changed the event since.
	Recent []string `json:"recent,omitempty"`
}

// kept is the number of changes in Recent.
const kept = 16

func (s *state) isSet() bool { return s.Set || s.Signals > 0 }

// encode returns the state with that change recorded.
func (s *state) encode(change string) []byte {
	s.Recent = append(s.Recent, change)
	s.Recent = s.Recent[max(len(s.Recent)-kept, 0):]
	data, _ := json.Marshal(s) // these types have no error
	return data
}

// decode reads the state of an event of the right kind.
func (e *Event) decode(data []byte) (s state, err error) {
	if err := json.Unmarshal(data, &s); err != nil || s.Kind == "" {
		return s, fmt.Errorf("%w: %s has data that are not an event's; use another path", recipes.ErrLayout, e.path)
	}
	if s.Kind != e.kind {
		return s, fmt.Errorf("%w: %s is an event with %s reset, not %s", recipes.ErrLayout, e.path, s.Kind, e.kind)
	}
	return s, nil
}

func (e *Event) read(ctx context.Context) (state, client.Stat, error) {
	node, err := e.c.Steady().Get(ctx, e.path)
	if err != nil {
		return state{}, node.Stat, err
	}
	s, err := e.decode(node.Data)
	return s, node.Stat, err
}

// ensure creates the event if there is none, and returns its state.
func (e *Event) ensure(ctx context.Context) (state, client.Stat, error) {
	for {
		s, stat, err := e.read(ctx)
		if !errors.Is(err, client.ErrNoNode) {
			return s, stat, err
		}
		data, _ := json.Marshal(state{Kind: e.kind}) // these types have no error
		_, err = settle.CreateInContainer(ctx, e.c, e.path, data, settle.CreateOptions{ACL: e.o.ACL})
		if errors.Is(err, client.ErrNodeExists) {
			err = e.c.Steady().Sync(ctx, e.path) // the server that was read may not have it yet
		}
		if err != nil {
			return s, stat, err
		}
	}
}

// update changes the state, exactly once where that can be found out. change reports
// whether it has changed the state.
func (e *Event) update(ctx context.Context, change func(*state) (bool, error)) error {
	c := e.c.Steady()
	for name := line.NewID(); ; {
		s, stat, err := e.ensure(ctx)
		if err != nil {
			return err
		}
		changed, err := change(&s)
		if err != nil {
			return err
		}
		var done bool
		if changed {
			_, err = c.Set(ctx, e.path, s.encode(name), stat.Version)
			done = err == nil
			if client.IsAmbiguous(err) {
				done, err = e.wasDone(ctx, name, stat, err)
			}
		} else {
			// The leader checks that the state is the newest: a server that lags
			// behind may have shown an old one.
			_, err = c.Multi(ctx, client.CheckOp(e.path, stat.Version))
			done = err == nil
			if client.IsAmbiguous(err) && ctx.Err() == nil {
				err = nil
			}
		}
		changedByOthers := !client.IsAmbiguous(err) && (errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrNoNode))
		if done || err != nil && !changedByOthers {
			return err
		}
	}
}

// errManyChanges is the reason why the outcome of a change is unknown.
var errManyChanges = errors.New("others have changed the event so often since that it can't be known")

// wasDone reports whether a change whose reply was lost was made to the state with Stat
// old. The servers refuse what was sent on an earlier connection.
func (e *Event) wasDone(ctx context.Context, change string, old client.Stat, ambiguous error) (bool, error) {
	if err := e.c.Steady().Sync(ctx, e.path); err != nil {
		return false, line.InDoubt(ambiguous, err)
	}
	s, stat, err := e.read(ctx)
	switch {
	case err != nil:
		return false, line.InDoubt(ambiguous, err)
	case slices.Contains(s.Recent, change):
		return true, nil
	case stat.Czxid != old.Czxid || stat.Version-old.Version > kept:
		return false, line.InDoubt(ambiguous, errManyChanges)
	}
	return false, nil
}

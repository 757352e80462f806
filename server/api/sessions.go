package api

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

func (c *call) openSession() error {
	t, err := c.links.begin(c.r.Context(), c.caller, int32(c.number("timeout")), c.arg("exactly") == "once")
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", Prefix+"sessions/"+t.id.String())
	return c.answer(http.StatusCreated, Session{ID: t.id.String(), TimeoutMs: t.timeoutMs, Token: t.String()})
}

// ownSession checks that the session in the path is that of the token.
func (c *call) ownSession() error {
	switch {
	case c.token == nil:
		return refuse(http.StatusBadRequest, "this needs the token of the session, as X-Session")
	case c.id != c.token.id.String():
		return refuse(http.StatusForbidden, "the token is that of another session")
	}
	return nil
}

// getSession tells of a session.
func (c *call) getSession() error {
	if err := c.ownSession(); err != nil {
		return err
	}
	var got jute.GetEphemeralsResponse
	zxid, err := c.read(jute.OpGetEphemerals, &jute.GetEphemeralsRequest{}, &got)
	if err != nil {
		return err
	}
	slices.Sort(got.Paths)
	c.zxid(zxid)
	return c.answer(http.StatusOK, Session{ID: c.id, TimeoutMs: c.token.timeoutMs, Ephemerals: got.Paths})
}

// touchSession keeps a session.
func (c *call) touchSession() error {
	if err := c.ownSession(); err != nil {
		return err
	}
	if _, err := c.send(jute.OpWhoAmI, encoded(nil), nil); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// closeSession closes a session, whose ephemerals are deleted: the caller's own, or for an operator another's.
func (c *call) closeSession() error {
	if c.token == nil {
		return c.endSession()
	}
	if c.arg("dry-run") == "true" {
		return refuse(http.StatusBadRequest, "dry-run is for sessions of others, without X-Session")
	}
	if err := c.ownSession(); err != nil {
		return err
	}
	zxid, err := c.send(jute.OpCloseSession, encoded(nil), nil)
	if err != nil {
		return err
	}
	c.zxid(zxid)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// Ended is a session of another client that has ended, or would.
type Ended struct {
	ID         string   `json:"id"`
	DryRun     bool     `json:"dryRun"`
	Address    string   `json:"address,omitempty" doc:"of the client, if it is connected to this server"`
	Identity   string   `json:"identity,omitempty" doc:"of the client, if it is connected to this server"`
	Ephemerals int64    `json:"ephemerals" doc:"how many nodes are deleted with it"`
	Paths      []string `json:"paths" doc:"of the first of them, in order"`
}

const (
	// endedPaths is how many paths of ephemerals are told.
	endedPaths = 500
	// endings is how often a session is taken over from a client that takes it back.
	endings = 5
)

// endSession ends the session of another client. The operator takes it over, as its client does that connects
// to another server, and closes it; so the ensemble has one rule for the end of a session by request.
func (c *call) endSession() error {
	number, err := strconv.ParseUint(strings.TrimPrefix(c.id, "0x"), 16, 64)
	if err != nil {
		return refuse(http.StatusBadRequest, "the id of a session is a number in hex")
	}
	id, dry := jute.SessionID(number), c.arg("dry-run") == "true"
	if err := c.mayOperate(); err != nil {
		if p, ok := errors.AsType[*Problem](err); ok && p.Code == int32(jute.ErrNoAuth) && !dry {
			return cmp.Or(c.Server().Ended(c.r.Context(), c.caller, id, jute.ErrNoAuth), err)
		}
		return err
	}
	v := c.Server().View()
	rows, _ := sessionRows(v)
	row := rows[int64(id)]
	switch {
	case row == nil:
		return refuse(http.StatusNotFound, "there is no such session")
	case row.Local:
		return refuse(http.StatusConflict, "the session is local to this server and owns nothing: it ends with its connection")
	}
	out := Ended{ID: id.String(), DryRun: dry, Address: row.Address, Identity: row.Identity, Ephemerals: row.Ephemerals, Paths: []string{}}
	for _, e := range v.Ephemerals() {
		if e.Session == int64(id) {
			out.Paths = slices.Sorted(slices.Values(e.Paths))
			out.Paths = out.Paths[:min(len(out.Paths), endedPaths)]
		}
	}
	if dry {
		return c.answer(http.StatusOK, out)
	}
	c.token = &token{id: id, timeoutMs: int32(row.TimeoutMs), password: c.Server().Password(id)}
	for range endings {
		if _, err = c.send(jute.OpCloseSession, encoded(nil), nil); !errors.Is(err, errLost) && !errors.Is(err, jute.ErrSessionMoved) {
			break
		}
	}
	code, _ := errors.AsType[jute.Code](err)
	if err != nil && code == 0 {
		code = jute.ErrConnectionLoss
	}
	if err := cmp.Or(c.Server().Ended(c.r.Context(), c.caller, id, code), err); err != nil {
		return err
	}
	return c.answer(http.StatusOK, out)
}

// whoAmI tells the caller its identities.
func (c *call) whoAmI() error {
	var got jute.WhoAmIResponse
	if _, err := c.send(jute.OpWhoAmI, encoded(nil), &got); err != nil {
		return err
	}
	out := Identities{[]Identity{}}
	for _, id := range got.Clients {
		out.Identities = append(out.Identities, Identity{id.Scheme, id.User})
	}
	return c.answer(http.StatusOK, out)
}

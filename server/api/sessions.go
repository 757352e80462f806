package api

import (
	"net/http"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// openSession opens a session.
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

// closeSession closes a session, whose ephemerals are deleted.
func (c *call) closeSession() error {
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

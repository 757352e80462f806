package server

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree/treetest"
	"github.com/zkd-project/zkd/server/session"
)

// TestApachePassword resumes a session that Apache's server has opened, with the password of
// that server, which the client also gets back. Such a password is of no use for a session of
// zkd.
func TestApachePassword(t *testing.T) {
	dir := t.TempDir()
	check(t, data.Write(t.Context(), &data.Contents{Tree: treetest.Imported(t)}, data.Place{DataDir: dir, LogDir: dir}))
	s := startOn(t, fastFS{}, dir)
	resume := func(id jute.SessionID, password session.Password) jute.ConnectResponse {
		return s.dial(t, dialOptions{}).establish(&jute.ConnectRequest{TimeoutMs: 30000, SessionID: id, Password: password[:]})
	}
	const moved, own = treetest.ApachesSession, treetest.OwnSession
	r := resume(moved, session.ApachePassword(moved))
	if r.SessionID != moved || session.Password(r.Password) != session.ApachePassword(moved) {
		t.Errorf("the session was resumed as %v, password %x", r.SessionID, r.Password)
	}
	for id, password := range map[jute.SessionID]session.Password{moved: session.ApachePassword(moved + 1), own: session.ApachePassword(own), 99: session.ApachePassword(99)} {
		if r := resume(id, password); r.SessionID != 0 {
			t.Errorf("session %v was resumed with a wrong password", id)
		}
	}
	if r := resume(own, s.state.Keys().Password(own)); r.SessionID != own || session.Password(r.Password) != s.state.Keys().Password(own) {
		t.Errorf("zkd's session was resumed as %v", r.SessionID)
	}
}

package server

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/jute"
)

// TestStrangersMakeNoLines has a client whose texts have line ends, tabs and control sequences: its
// identities, the paths that it watches, what it asks for. None of that makes a line or a field of
// its own in a word, a page or a message of the log.
func TestStrangersMakeNoLines(t *testing.T) {
	const evil = "x\r\nFORGED\tline\x1b[2J\u2028FORGED\u0085FORGED"
	forged := func(where, text string) {
		t.Helper()
		if !strings.Contains(text, "FORGED") {
			t.Errorf("%s does not have the client's text: %q", where, text)
		}
		for _, bad := range []string{"\nFORGED", "\rFORGED", "\tline", "\x1b", "\u2028", "\u0085"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q in %q", where, bad, text)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 3)
		s := e.servers[e.leader()]
		c := s.connect(t)
		c.call(jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte(evil + ":secret")})
		for _, path := range []string{"/" + evil, "/y\nFORGED"} {
			c.call(jute.OpExists, &jute.PathWatchRequest{Path: path, Watch: true})
			c.call(jute.OpAddWatch, &jute.AddWatchRequest{Path: path, Mode: jute.AddPersistent})
			c.call(jute.OpCreate, create(path, "", 0))
			c.call(jute.OpGetData, get(path, false))
		}
		for _, word := range []string{"wchp", "wchc", "topc"} {
			forged(word, s.ask(t, word, false))
		}
		for _, word := range []string{"cons", "stat", "srvr", "dump", "mntr", "conf", "envi"} {
			if text := s.ask(t, word, false); strings.Contains(text, "FORGED") && strings.Contains(text, "\nFORGED") {
				t.Errorf("%s: %q", word, text)
			}
		}
		for _, bad := range []jute.ReconfigRequest{
			{Joining: evil + "=host:1:2;3", ConfigID: -1},
			{Joining: "server.4=" + evil + ":1:2;3", ConfigID: -1},
			{Leaving: evil, ConfigID: -1},
			{NewMembers: "server.1=a:1:2;3\nserver." + strings.ReplaceAll(evil, "\n", `\n`) + "=5", ConfigID: -1},
		} {
			if r := c.call(jute.OpReconfig, &bad); r.Err == 0 {
				t.Errorf("%+v was accepted", bad)
			}
		}
		refused := s.logged.FilterMessageSnippet("a change of the members that session").All()
		if len(refused) != 4 {
			t.Errorf("%d refusals were logged", len(refused))
		}
		for _, l := range refused {
			forged("the log", l.Message)
		}
	})
}

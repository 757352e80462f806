package server

import (
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var holder = regexp.MustCompile(`"name":"([^"]*)","role":"holds"`)

// TestConsole gets the console, and what it shows of a lock: its holder, the sessions that wait, and who would hold it without the holder's node. Without its key it is not there, and
// for a host that others may have made resolve to the server neither.
func TestConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := startServer(t, apiLines...)
		off.caller(t).want(404, "", "GET", "/console/", "")
		s := startServer(t, append(apiLines, "zkd.console=true")...)
		c := s.caller(t)
		c.want(200, "<title>zkd console</title>", "GET", "/console/", "")
		c.want(200, "<h1>zkd</h1>", "GET", "/", "")
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://evil.example/console/", nil)
		refused := httptest.NewRecorder()
		if c.pages.ServeHTTP(refused, r); refused.Code != 403 {
			t.Errorf("the page of another host: %d", refused.Code)
		}
		c.want(201, "", "POST", "/v1/nodes/lock", "")
		a, b := c.openSession(), c.openSession()
		for _, session := range []string{a.Token, b.Token} {
			c.want(201, "", "POST", "/v1/nodes/lock/_c_5f1d3c7a-0b1c-4d2e-8f3a-4b5c6d7e8f90-lock-?mode=ephemeral_sequential", "me", "X-Session", session)
		}
		w := c.want(200, `"kind":"lock"`, "GET", "/v1/coordination?path=/lock&path=/none", "")
		for _, part := range []string{`"role":"holds","session":"` + a.ID, `"role":"waits","session":"` + b.ID, `"label":"me"`, `"error":"NONODE"`, `"cycles":[]`} {
			if !strings.Contains(w.Body.String(), part) {
				t.Errorf("without %s:\n%s", part, w.Body)
			}
		}
		name := holder.FindStringSubmatch(w.Body.String())
		after := c.want(200, `"role":"holds","session":"`+b.ID, "GET", "/v1/coordination?path=/lock&without="+name[1], "").Body.String()
		if strings.Contains(after, a.ID) || !strings.Contains(c.want(200, "", "GET", "/v1/coordination?path=/lock", "").Body.String(), a.ID) {
			t.Errorf("after the holder's node:\n%s", after)
		}
		c.want(400, "from 1 to 256", "GET", "/v1/coordination", "")
		c.want(404, "clientPort", "GET", "/v1/ensemble", "")
	})
}

// TestConsoleSignIn signs in to the console: what it does is done for that identity, and says so in the audit log.
func TestConsoleSignIn(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, slices.Concat(apiLines, i.lines, []string{"zkd.console=true", "audit.enable=true", "zkd.audit.file=" + auditFile, "enforce.auth.enabled=true", "enforce.auth.schemes=digest,jwt"})...)
		c := s.caller(t)
		page := []string{"X-Console", "visitor", "Content-Type", "application/json"}
		c.want(401, "", "GET", "/console/v1/nodes/", "", page...)
		c.want(401, "prove nothing", "POST", "/console/session", `{"token": "x"}`, page...)
		c.want(403, "over TLS", "POST", "/console/session", `{"user": "ann", "password": "pw"}`, page...) // it comes from 192.0.2.1
		w := c.want(200, `"name":"jwt:ann"`, "POST", "/console/session", `{"token": "`+i.token("ann", time.Minute)+`"}`, page...)
		var state struct {
			Token        string
			Since, Until int64
		}
		if err := json.Unmarshal(w.Body.Bytes(), &state); err != nil || state.Until != time.Now().Truncate(time.Second).Add(time.Minute).UnixMilli() {
			t.Errorf("%+v, %v", state, err)
		}
		page = []string{"X-Console", state.Token, "Cookie", strings.TrimSuffix(w.Header().Get("Set-Cookie"), "; Path=/console/; HttpOnly; SameSite=Strict")}
		c.want(404, `"path":"/a/b"`, "POST", "/console/v1/nodes/a%2Fb", "", page...)
		c.want(201, "", "POST", "/console/v1/nodes/c?acl=auth::cdrwa", "", page...)
		c.want(200, `"user":"ann"`, "GET", "/console/v1/whoami", "", page...)
		c.want(401, "", "GET", "/v1/nodes/c", "", page...) // the API knows no cookies
		time.Sleep(time.Minute)
		c.want(401, "SIGNEDOUT", "GET", "/console/v1/nodes/c", "", page...)
		log := strings.Join(auditLines(t, s.opts.FS, nil), "\n")
		for _, line := range []string{
			"ip=192.0.2.1 via=console operation=addAuth scheme=jwt result=failure",
			"user=192.0.2.1,ann ip=192.0.2.1 via=console operation=addAuth scheme=jwt result=success",
			"user=192.0.2.1,ann ip=192.0.2.1 via=console operation=create znode=/c znode_type=persistent",
		} {
			if !strings.Contains(log, line) {
				t.Errorf("the audit log lacks %q:\n%s", line, log)
			}
		}
	})
}

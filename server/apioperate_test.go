package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/config"
)

// super is how a caller of the API proves that it is the super user of superIs.
const super = "digest super:secret"

// startOperated starts a server with the API, whose file has further lines.
func startOperated(t *testing.T, lines ...string) *testServer {
	load := func(on ...config.Setting) (*config.Config, []config.Warning, error) {
		text := strings.Join(slices.Concat([]string{"dataDir=/data", "clientPort=2181", "tickTime=1000", superIs}, apiLines, lines), "\n")
		return config.Parse(strings.NewReader(text), "zoo.cfg", on...)
	}
	cfg, _, err := load()
	check(t, err)
	alone := func(_, _ string) (net.Listener, error) { return newMemListener(), nil }
	return startWith(t, Options{FS: crashfs.New(1), Config: cfg, Load: load, Operator: pretender{}, ListenPeers: alone})
}

// pretender is an operator that sends what one can send.
type pretender struct{}

func (pretender) Change(_ context.Context, a api.Access, r *api.MemberRequest, how api.ChangeOptions) (*api.MemberChange, error) {
	_, err := a.Members()
	if err == nil && !how.DryRun {
		_, err = a.Reconfig("", strings.Join(r.Servers, ","), "", -1)
	}
	return &api.MemberChange{Does: r.Servers, Notes: []string{}, Members: []string{}}, err
}

func (pretender) TransferLeader(_ context.Context, a api.Access, id int64, _ bool) error {
	return a.TransferLeader(id)
}

func (pretender) Welcomes(context.Context, api.Access, int64) (bool, error) { return true, nil }

// TestAPIConfiguration reads and changes the configuration over HTTP, as those who may and those who may not.
func TestAPIConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startOperated(t, "maxCnxns=50").caller(t)
		w := c.want(200, `"key":"maxCnxns","value":"50","unit":"connections"`, "GET", "/v1/configuration", "", "Authorization", super)
		var list api.SettingList
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{"maxCnxns": "zoo.cfg:7 live", "tickTime": "zoo.cfg:3", "snapCount": "default live"} {
			i := slices.IndexFunc(list.Settings, func(s api.Setting) bool { return s.Key == key })
			if got := list.Settings[i].From + map[bool]string{true: " live"}[list.Settings[i].Live]; got != want {
				t.Errorf("%s: %s, want %s", key, got, want)
			}
		}
		if strings.Contains(w.Body.String(), "lK75jTNcA") {
			t.Error("a secret is shown")
		}
		for _, s := range []struct {
			status                   int
			method, path, body, want string
		}{
			{200, "PUT", "maxCnxns?dry-run=true&was=50", "60", `"dryRun":true,"changes":["maxCnxns=60 (was 50)"]`},
			{200, "PUT", "maxCnxns?was=50", "60", `"dryRun":false,"changes":["maxCnxns=60 (was 50)"]`},
			{412, "PUT", "maxCnxns?was=50", "70", `maxCnxns is \"60\" meanwhile`},
			{412, "PUT", "maxCnxns?was=50&dry-run=true", "70", `meanwhile`},
			{200, "PUT", "maxCnxns", "60", `"changes":[]`},
			{200, "PUT", "snapCount?dry-run=true", "1", `"warnings":["less than 2 counts as 2"]`},
			{200, "PUT", "zkd.limit.a?was=", "address * watches=9", `zkd.limit.a=address * watches=9 (was )`},
			{400, "PUT", "zkd.limit.b?dry-run=true", "address * watches=9", `both limit the watches`},
			{400, "PUT", "zkd.limit.b", "address * watches=9", `both limit the watches`},
			{400, "PUT", "maxCnxns?dry-run=true", "x", "must be a number"},
			{400, "PUT", "tickTime?dry-run=true", "500", "tickTime needs a restart"},
			{400, "PUT", "tickTime", "500", "tickTime needs a restart"},
			{400, "PUT", "maxCnxnz", "5", "did you mean maxCnxns?"},
			{400, "PUT", "zkd.limit.c", "address * watches=9\nmaxCnxns=1", "no control characters"},
			{200, "DELETE", "maxCnxns?dry-run=true", "", `maxCnxns=50 (was 60)`},
			{200, "DELETE", "maxCnxns", "", `maxCnxns=50 (was 60)`},
			{200, "DELETE", "zkd.limit.a", "", `zkd.limit.a= (was address * watches=9)`},
			{404, "PUT", "a/b", "5", "no such resource"},
		} {
			c.want(s.status, s.want, s.method, "/v1/configuration/"+s.path, s.body, "Authorization", super)
			if w := c.call(s.method, "/v1/configuration/"+s.path, s.body); w.Code != 403 && w.Code != 404 && w.Code != 400 {
				t.Errorf("%s %s by anybody: %d %s", s.method, s.path, w.Code, w.Body)
			}
		}
		c.want(403, "only those may do this", "GET", "/v1/configuration", "")
		c.want(403, "only those may do this", "PUT", "/v1/configuration/maxCnxns?dry-run=true", "60")
		c.want(401, "", "GET", "/v1/configuration", "", "Authorization", "nosuch x")
		c.want(403, "another origin", "PUT", "/v1/configuration/maxCnxns", "60", "Authorization", super, "Sec-Fetch-Site", "cross-site")
	})
}

// TestAPITwoOperators has two of them change what both have seen: one gets there.
func TestAPITwoOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startOperated(t, "maxCnxns=50").caller(t)
		var wg sync.WaitGroup
		statuses := make([]int, 8)
		for i := range statuses {
			wg.Go(func() {
				statuses[i] = c.call("PUT", "/v1/configuration/maxCnxns?was=50", "6"+string(rune('0'+i)), "Authorization", super).Code
			})
		}
		wg.Wait()
		slices.Sort(statuses)
		if statuses[0] != 200 || statuses[1] != 412 || statuses[7] != 412 {
			t.Errorf("%v", statuses)
		}
	})
}

// TestAPIEndsSessions ends the sessions of others: of a client that is connected, and of one that is away, but not by anybody.
func TestAPIEndsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startOperated(t, "audit.enable=true", "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true")
		c := s.caller(t)
		client, other := s.connect(t), c.openSession()
		client.ok(jute.OpCreate, create("/held", "", jute.ModeEphemeral))
		c.want(201, "", "POST", "/v1/nodes/two?mode=ephemeral", "", "X-Session", other.Token)
		id := client.session.String()
		for _, dry := range []string{"?dry-run=true", ""} {
			c.want(403, "only those may do this", "DELETE", "/v1/sessions/"+id+dry, "")
			c.want(404, "no such session", "DELETE", "/v1/sessions/0x77"+dry, "", "Authorization", super)
			c.want(400, "in hex", "DELETE", "/v1/sessions/me"+dry, "", "Authorization", super)
		}
		c.want(200, `"paths":["/held"]`, "DELETE", "/v1/sessions/"+id+"?dry-run=true", "", "Authorization", super)
		c.want(200, "", "GET", "/v1/nodes/held", "")
		c.want(200, `"dryRun":false`, "DELETE", "/v1/sessions/"+id, "", "Authorization", super)
		c.want(404, "", "GET", "/v1/nodes/held", "")
		c.want(404, "", "DELETE", "/v1/sessions/"+id, "", "Authorization", super)
		c.want(200, `"ephemerals":1`, "DELETE", "/v1/sessions/"+other.ID, "", "Authorization", super)
		c.want(410, "SESSIONEXPIRED", "GET", "/v1/nodes/", "", "X-Session", other.Token)
		w := c.want(200, "", "GET", "/v1/audit", "", "Authorization", super)
		for _, want := range []string{`"operation":"endSession","value":"` + id + `","error":"not authorized","result":"failure"`, `"operation":"endSession","value":"` + id + `","result":"success"`} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the audit log has no %s\n%s", want, w.Body)
			}
		}
	})
}

// TestAPIMembersOfASingleServer asks a server without members for what operators do with these.
func TestAPIMembersOfASingleServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startOperated(t).caller(t)
		remove := `{"action":"remove","servers":["1"]}`
		c.want(403, `"name":"RECONFIGDISABLED"`, "POST", "/v1/members?dry-run=true", remove, "Authorization", super)
		c.want(400, "not as described", "POST", "/v1/members", `{"action":1}`, "Authorization", super)
		c.want(409, "", "POST", "/v1/leader?id=1", "", "Authorization", super)
		c.want(400, "id is missing", "POST", "/v1/leader", "", "Authorization", super)
		c.want(409, "single server", "POST", "/v1/drain?dry-run=true", "", "Authorization", super)
		c.want(204, "", "DELETE", "/v1/drain", "", "Authorization", super)
		for _, path := range []string{"/v1/members", "/v1/leader?id=1", "/v1/drain?dry-run=true"} {
			c.want(403, "only those may do this", "POST", path, remove)
		}
		c.want(403, "only those may do this", "DELETE", "/v1/drain", "")
	})
}

// TestAPIChangesMembers changes the members of an ensemble of one, with a version that was seen.
func TestAPIChangesMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startOperated(t, "server.1=10.0.0.1:1:2;2181", "standaloneEnabled=false", "reconfigEnabled=true", "zkd.myid=1", "initLimit=5", "syncLimit=5").caller(t)
		time.Sleep(10 * time.Second) // it elects itself
		remove := `{"action":"remove","servers":["9"]}`
		c.want(200, `"does":["9"]`, "POST", "/v1/members?dry-run=true", remove, "Authorization", super)
		c.want(412, "the members have changed meanwhile", "POST", "/v1/members?version=77", remove, "Authorization", super)
		c.want(200, "", "POST", "/v1/members", remove, "Authorization", super)
		c.want(200, `"keepsAwayMs":600000`, "POST", "/v1/drain?dry-run=true", "", "Authorization", super)
		c.want(400, "there is no for", "POST", "/v1/drain?percent=10&for=5000", "", "Authorization", super)
		c.want(200, `"keepsAwayMs":600000`, "POST", "/v1/drain", "", "Authorization", super)
		time.Sleep(6 * time.Second) // the operator's link is idle, and closed
		if w := c.call("GET", "/v1/whoami", ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a drained server lets a caller in: %d", w.Code)
		}
		c.want(204, "", "DELETE", "/v1/drain", "", "Authorization", super)
		c.want(200, "", "GET", "/v1/whoami", "")
	})
}

// TestAPIMembersWhereServersDiffer asks a follower whose configuration allows changes of the members, or not, other than the leader's, which decides.
func TestAPIMembersWhereServersDiffer(t *testing.T) {
	operated := func(s *Server) { s.opts.Operator = pretender{} }
	for _, leads := range []bool{false, true} {
		enabled := func(is bool) string { return fmt.Sprint("reconfigEnabled=", is) }
		inTunedBubble(t, 3, operated, append([]string{enabled(leads), superIs}, apiLines...), func(t *testing.T, e *testEnsemble) {
			id := e.leader()%3 + 1
			e.stop(id)
			e.lines[slices.Index(e.lines, enabled(leads))] = enabled(!leads)
			e.start(id)
			e.settled()
			want, text := 403, `"name":"RECONFIGDISABLED"`
			if leads {
				want, text = 200, `"does":["9"]`
			}
			e.servers[id].caller(t).want(want, text, "POST", "/v1/members?dry-run=true", `{"action":"remove","servers":["9"]}`, "Authorization", super)
		})
	}
}

// TestAPIDrainsAnotherServer has a server keep clients away by an order that is given at another one: for its time, or until it is taken back.
func TestAPIDrainsAnotherServer(t *testing.T) {
	operated := func(s *Server) { s.opts.Operator = pretender{} }
	inTunedBubble(t, 3, operated, append([]string{superIs, "audit.enable=true"}, apiLines...), func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		id := leader%3 + 1
		here, s := e.servers[id%3+1].caller(t), e.servers[id]
		for range 12 {
			s.connectFor(t, 30_000)
		}
		to := fmt.Sprintf("/v1/drain?id=%d", id)
		here.want(403, "only those may", "POST", to, "")
		here.want(403, "only those may", "DELETE", to, "")
		here.want(404, "there is no server 7", "POST", "/v1/drain?id=7", "", "Authorization", super)
		here.want(400, "itself alone", "POST", to+"&percent=5", "", "Authorization", super)
		here.want(404, "has no order", "DELETE", to, "", "Authorization", super)
		here.want(404, "has no order", "DELETE", to+"&dry-run=true", "", "Authorization", super)
		here.want(200, `"dryRun":true`, "POST", to+"&dry-run=true", "", "Authorization", super)
		here.want(200, `"keepsAwayMs":90000`, "POST", to+"&for=90000", "", "Authorization", super)
		e.await("no connection is left", func() bool { return s.connections() == 0 })
		s.refuses(t)
		if got := s.drainLine(t); got != "0 connections left, keeps clients away: an operator has ordered it" {
			t.Errorf("srvr: %q", got)
		}
		if !e.servers[leader].letsIn(t, &jute.ConnectRequest{}) {
			t.Error("another server lets nobody in")
		}
		here.want(204, "", "DELETE", to, "", "Authorization", super)
		time.Sleep(2 * s.cfg.TickTime)
		s.connect(t)
		here.want(200, "", "POST", to+"&for=90000", "", "Authorization", super)
		here.want(200, `"keepsAwayMs":120000`, "POST", to+"&for=120000", "", "Authorization", super) // in its place
		time.Sleep(2 * s.cfg.TickTime)
		s.refuses(t)
		s.caller(t).want(204, "", "DELETE", "/v1/drain", "", "Authorization", super) // at the server itself
		s.connect(t)
		here.want(404, "has no order", "DELETE", to, "", "Authorization", super)
		here.want(200, "", "POST", to+"&for=90000", "", "Authorization", super)
		time.Sleep(2 * s.cfg.TickTime)
		s.refuses(t)
		time.Sleep(4 * time.Minute) // the node's TTL
		s.connect(t)
		if log := here.want(200, "", "GET", "/v1/audit", "", "Authorization", super).Body.String(); !strings.Contains(log, `"znode":"`+jute.DrainPath(int64(id))) {
			t.Errorf("the audit log has no order:\n%s", log)
		}
	})
}

// TestAPIAudit reads the audit log as a page and as it comes, as one who may and one who may not.
func TestAPIAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startOperated(t, "audit.enable=true").caller(t)
		c.want(403, "only those may do this", "GET", "/v1/audit", "")
		c.want(403, "only those may do this", "GET", "/v1/audit/follow", "")
		c.want(201, "", "POST", "/v1/nodes/a", "")
		var list api.AuditList
		if err := json.Unmarshal(c.want(200, `"operation":"create","znode":"/a","znode_type":"persistent"`, "GET", "/v1/audit?limit=3", "", "Authorization", super).Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		last := list.Entries[len(list.Entries)-1]
		if last.Via != "http" || last.Number == 0 || list.Missed != 0 || list.More {
			t.Errorf("%+v", list)
		}
		if w := c.want(200, "", "GET", "/v1/audit?limit=1&after=1", "", "Authorization", super); !strings.Contains(w.Body.String(), `"number":2,`) || !strings.Contains(w.Body.String(), `"more":true`) {
			t.Errorf("after the first: %s", w.Body)
		}
		follow := func(id string) string {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, "GET", "/v1/audit/follow", nil)
			r.Host = "localhost"
			r.Header.Set("Authorization", super)
			r.Header.Set("Last-Event-ID", id)
			w := httptest.NewRecorder()
			c.pages.ServeHTTP(w, r)
			return w.Body.String()
		}
		if text := follow(fmt.Sprint(last.Number - 1)); !strings.Contains(text, fmt.Sprintf("id: %d\ndata: {", last.Number)) || strings.Contains(text, "missed") {
			t.Errorf("followed: %s", text)
		}
		if text := follow("999999"); !strings.Contains(text, "id: 1\n") { // the server has started since
			t.Errorf("followed from another time: %s", text)
		}
		for range 1100 {
			c.call("POST", "/v1/nodes/a", "")
		}
		if text := follow("1"); !strings.Contains(text, "event: missed\ndata: ") {
			t.Errorf("followed from what is forgotten: %.200s", text)
		}
	})
}

// TestAPIAuditIsOff asks for the log of a server that has none.
func TestAPIAuditIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startOperated(t).caller(t)
		c.want(404, "audit.enable=true", "GET", "/v1/audit", "", "Authorization", super)
		c.want(200, "audit.enable=true (was false)", "PUT", "/v1/configuration/audit.enable", "true", "Authorization", super)
		c.want(200, `"key":"audit.enable"`, "GET", "/v1/audit", "", "Authorization", super)
	})
}

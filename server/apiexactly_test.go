package server

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/server/api"
)

// TestAPIExactlyOnce repeats writes with their keys, at the same server, at others, and after the leader has changed.
func TestAPIExactlyOnce(t *testing.T) {
	inBubble(t, 3, apiLines, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		at := slices.DeleteFunc([]int{1, 2, 3}, func(id int) bool { return id == leader })
		one, other := e.servers[at[0]].caller(t), e.servers[at[1]].caller(t)
		var s api.Session
		if err := json.Unmarshal(one.want(201, "token", "POST", "/v1/sessions?timeout=20000&exactly=once", "").Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		moved := func() { // the server that had the session knows that it is elsewhere now
			time.Sleep(time.Second)
			synctest.Wait()
		}
		with := func(key string) []string { return []string{"X-Session", s.Token, "Idempotency-Key", key} }

		one.want(201, `"path":"/n-0000000000"`, "POST", "/v1/nodes/n-?mode=ephemeral_sequential", "a", with("1")...)
		one.want(201, `"path":"/n-0000000000"`, "POST", "/v1/nodes/n-?mode=ephemeral_sequential", "a", with(`"1"`)...)
		one.want(422, "another request", "POST", "/v1/nodes/n-?mode=ephemeral_sequential", "b", with("1")...)
		other.want(201, `"path":"/n-0000000000"`, "POST", "/v1/nodes/n-?mode=ephemeral_sequential", "a", with("1")...)
		other.want(200, `{"name":"n-0000000000"},{"name":"zookeeper"}`, "GET", "/v1/children/", "", "X-Session", s.Token) // it needs no key

		other.want(201, "", "POST", "/v1/nodes/a", "0", with("5")...) // numbers may be left out
		other.want(200, `"version":1`, "PUT", "/v1/nodes/a", "1", with("6")...)
		moved()
		one.want(200, `"version":1`, "PUT", "/v1/nodes/a", "1", with("6")...)
		one.want(409, "not above the last one", "POST", "/v1/nodes/a", "0", with("5")...)
		one.want(412, "BADVERSION", "PUT", "/v1/nodes/a", "2", append(with("7"), "If-Match", `"0"`)...)
		moved()
		other.want(412, "BADVERSION", "PUT", "/v1/nodes/a", "2", append(with("7"), "If-Match", `"0"`)...)

		moved()
		e.kill(leader)
		one.want(412, "BADVERSION", "PUT", "/v1/nodes/a", "2", append(with("7"), "If-Match", `"0"`)...)
		one.want(200, `"version":2`, "PUT", "/v1/nodes/a", "2", with("8")...)
		one.want(200, `"version":2`, "PUT", "/v1/nodes/a", "2", with("8")...)
		moved()
		other.want(200, `"version":2`, "PUT", "/v1/nodes/a", "2", with("8")...)
		other.want(200, "2", "GET", "/v1/nodes/a", "", "X-Session", s.Token)

		one.want(400, "needs an Idempotency-Key", "PUT", "/v1/nodes/a", "3", "X-Session", s.Token)
		one.want(400, "exactly=once", "PUT", "/v1/nodes/a", "3", "Idempotency-Key", "9")
		one.want(400, "", "PUT", "/v1/nodes/a", "3", with("0")...)
		one.want(400, "", "PUT", "/v1/nodes/a", "3", with("9999999999")...)
		moved()
		one.want(204, "", "DELETE", "/v1/sessions/"+s.ID, "", "X-Session", s.Token)
		moved()
		other.want(410, "SESSIONEXPIRED", "PUT", "/v1/nodes/a", "3", with("9")...)
		e.start(leader)
		e.settled()
	})
}

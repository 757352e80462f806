package server

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/server/api"
)

// restoration decodes what a restore does.
func (c *caller) restoration(status int, method, path string, headers ...string) (out api.Restoration, tag string) {
	c.t.Helper()
	w := c.want(status, "", method, path, "", headers...)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		c.t.Fatal(err)
	}
	return out, w.Header().Get("ETag")
}

// TestAPIRestore brings a subtree back over HTTP: the differences first, only if they are still the same, and back again.
func TestAPIRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startOperated(t)
		c := s.caller(t)
		c.want(201, "", "POST", "/v1/nodes/first", "")
		c.want(201, "", "POST", "/v1/nodes/app", "one")
		c.want(201, "", "POST", "/v1/nodes/app/gone", "data")
		c.want(201, "", "POST", "/v1/nodes/app/gone/below?mode=container", "")
		then := c.want(201, "", "POST", "/v1/nodes/app/same", "").Header().Get("X-Zxid")
		time.Sleep(time.Minute)
		c.want(200, "", "PUT", "/v1/nodes/app", "two")
		c.want(200, "", "PUT", "/v1/acl/app/same", `{"acl":[{"scheme":"world","id":"anyone","perms":"rwa"}]}`)
		c.want(204, "", "DELETE", "/v1/nodes/app/gone/below", "")
		c.want(204, "", "DELETE", "/v1/nodes/app/gone", "")
		c.want(201, "", "POST", "/v1/nodes/app/new", "")
		e := c.openSession()
		c.want(201, "", "POST", "/v1/nodes/app/lock?mode=ephemeral", "", "X-Session", e.Token)

		plan, tag := c.restoration(200, "GET", "/v1/past/app?zxid="+then)
		if plan.Create != 2 || plan.Change != 2 || plan.Delete != 1 || strings.Join(plan.Kept, " ") != "/app/lock" || !plan.DryRun {
			t.Errorf("the differences: %+v", plan)
		}
		if dry, same := c.restoration(200, "POST", "/v1/restore/app?dry-run=true&zxid="+then); same != tag || !dry.DryRun {
			t.Errorf("a dry run: %q of %q, %+v", same, tag, dry)
		}
		at := time.Now().Add(-30 * time.Second).UTC().Format(time.RFC3339)
		if _, same := c.restoration(200, "GET", "/v1/past/app?at="+at); same != tag {
			t.Errorf("half a minute ago: %q, and after %s: %q", same, then, tag)
		}
		c.want(200, "", "PUT", "/v1/nodes/app", "three")
		c.want(412, "others than those that were seen", "POST", "/v1/restore/app?zxid="+then, "", "If-Match", tag)
		plan, tag = c.restoration(200, "GET", "/v1/past/app?zxid="+then)
		c.want(200, `"dryRun":false`, "POST", "/v1/restore/app?zxid="+then, "", "If-Match", tag)
		c.want(200, "one", "GET", "/v1/nodes/app", "")
		c.want(200, `"perms":"cdrwa"`, "GET", "/v1/acl/app/same", "")
		c.want(200, `[{"name":"gone"},{"name":"lock"},{"name":"same"}]`, "GET", "/v1/children/app", "")
		if left, _ := c.restoration(200, "GET", "/v1/past/app?zxid="+then); len(left.Changes) != 0 {
			t.Errorf("after the restore: %+v", left)
		}
		c.want(200, `"create":1,"change":2,"delete":2`, "POST", "/v1/restore/app?zxid="+plan.Now, "") // the way back
		c.want(200, "three", "GET", "/v1/nodes/app", "")

		c.want(404, "with If-Match", "POST", "/v1/restore/app?zxid=1", "")
		c.want(404, "and there was none", "GET", "/v1/past/other?zxid="+then, "")
		c.want(410, "is not reached", "GET", "/v1/past/app?zxid=1000000", "")
		c.want(410, "before the first transaction", "GET", "/v1/past/app?at=1999-01-01T00:00:00Z", "")
		c.want(400, "which moment", "GET", "/v1/past/app", "")
		c.want(400, "belongs to the servers", "GET", "/v1/past/zookeeper/quota?zxid="+then, "")
		c.want(204, "", "DELETE", "/v1/sessions/"+e.ID, "", "X-Session", e.Token)
		_, tag = c.restoration(200, "GET", "/v1/past/app?zxid=1") // a moment without it
		c.want(200, "", "POST", "/v1/restore/app?zxid=1", "", "If-Match", tag)
		c.want(404, "NONODE", "GET", "/v1/nodes/app", "")
		c.want(404, "there is no /app: restore that", "POST", "/v1/restore/app/same?zxid="+then, "")
		c.want(200, "", "POST", "/v1/restore/app?zxid="+then, "")
		c.want(200, "", "HEAD", "/v1/nodes/app/gone/below", "")
		s.noErrors(t)
	})
}

// watcher sees each line of an answer as it is sent.
type watcher struct {
	*httptest.ResponseRecorder
	line func(text string)
}

func (w *watcher) Write(p []byte) (int, error) {
	defer w.line(string(p))
	return w.ResponseRecorder.Write(p)
}

// TestAPIRestoreIsCancelled cancels a restore after its first piece: it says what is done, the same request continues, and another one undoes it.
func TestAPIRestoreIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startOperated(t).caller(t)
		then := c.want(201, "", "POST", "/v1/nodes/many", "").Header().Get("X-Zxid")
		const all = 1200
		for i := 0; i < all; i += 200 {
			var ops []string
			for n := i; n < i+200; n++ {
				ops = append(ops, fmt.Sprintf(`{"op":"create","path":"/many/%04d"}`, n))
			}
			c.want(200, "", "POST", "/v1/multi", `{"ops":[`+strings.Join(ops, ",")+`]}`)
		}
		left := func() int {
			return strings.Count(c.want(200, "", "GET", "/v1/children/many?limit=4096", "").Body.String(), `"name"`)
		}
		follow := func(see func(api.RestoreStep)) (last api.RestoreStep) {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/restore/many?zxid="+then, nil)
			r.Host = "localhost:8080"
			r.Header.Set("Accept", "application/jsonl")
			c.pages.ServeHTTP(&watcher{httptest.NewRecorder(), func(text string) {
				last = api.RestoreStep{}
				if err := json.Unmarshal([]byte(text), &last); err != nil {
					t.Errorf("%q: %v", text, err)
				}
				see(last)
			}}, r)
			return last
		}
		var id string
		last := follow(func(s api.RestoreStep) {
			if s.ID != "" {
				id = s.ID
			} else if s.Problem == nil {
				c.want(204, "", "DELETE", "/v1/restores/"+id, "")
			}
		})
		const piece = 500
		if p := last.Problem; p == nil || p.Name != "CANCELLED" || last.Done != piece || last.Delete != piece || last.All != all || !strings.Contains(p.Detail, "500 of 1200 nodes are done") || left() != all-piece {
			t.Errorf("cancelled: %+v, %+v; %d are left", last, p, left())
		}
		c.want(404, "no such restore", "DELETE", "/v1/restores/"+id, "")
		steps := 0
		undo := last.Undo
		if last = follow(func(api.RestoreStep) { steps++ }); last.Problem != nil || last.Done != all-piece || steps != 4 || left() != 0 {
			t.Errorf("continued: %+v in %d lines; %d are left", last, steps, left())
		}
		c.want(200, `"create":1200`, "POST", "/v1/restore/many?zxid="+undo, "")
		if left() != all {
			t.Errorf("undone: %d nodes", left())
		}
	})
}

// TestAPIPastNeedsBothRights reads the past of nodes as those who may read them now or could read them then, and not both.
func TestAPIPastNeedsBothRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startOperated(t).caller(t)
		const public, mine = `{"acl":[{"scheme":"world","id":"anyone","perms":"cdrwa"}]}`, `{"acl":[{"scheme":"digest","id":"super:x","perms":"cdrwa"}]}`
		acl := func(path, list string) {
			c.want(200, "", "PUT", "/v1/acl"+path, list, "Authorization", super)
		}
		for _, path := range []string{"/a", "/a/was", "/a/is", "/a/never", "/a/never/below", "/a/open"} {
			c.want(201, "", "POST", "/v1/nodes"+path, "secret of "+path)
		}
		acl("/a/is", mine)
		acl("/a/never", mine)
		then := c.want(200, "", "PUT", "/v1/nodes/a/is", "secret", "Authorization", super).Header().Get("X-Zxid")
		acl("/a/is", public)
		acl("/a/was", mine)
		for _, path := range []string{"/a/was", "/a/is", "/a/never/below", "/a/open"} {
			c.want(200, "", "PUT", "/v1/nodes"+path, "now", "Authorization", super)
		}
		c.want(204, "", "DELETE", "/v1/nodes/a/never/below", "", "Authorization", super)
		plan, tag := c.restoration(200, "GET", "/v1/past/a?zxid="+then)
		if len(plan.Changes) != 1 || plan.Changes[0].Path != "/a/open" || plan.Hidden != 4 {
			t.Errorf("somebody sees %+v", plan)
		}
		if all, other := c.restoration(200, "GET", "/v1/past/a?zxid="+then, "Authorization", super); len(all.Changes) != 4 || all.Hidden != 0 || other == tag {
			t.Errorf("the super user sees %+v", all)
		}
		for path, want := range map[string]int{"/a/was": 0, "/a/is": 2, "/a/never": 0, "/a/never/below": 0, "/a/open": 2} {
			w := c.call("GET", "/v1/history"+path, "")
			if w.Code == 403 && want == 0 {
				continue
			}
			if n := strings.Count(w.Body.String(), `"kind"`); n != want || w.Code != 200 {
				t.Errorf("%s: %d changes, want %d\n%s", path, n, want, w.Body)
			}
		}
		c.want(200, "", "POST", "/v1/restore/a?zxid="+then, "", "If-Match", tag)
		c.want(200, "now", "GET", "/v1/nodes/a/was", "", "Authorization", super)
		c.want(200, "secret of /a/open", "GET", "/v1/nodes/a/open", "")
		acl("/a/open", `{"acl":[{"scheme":"world","id":"anyone","perms":"r"}]}`)
		c.want(403, "0 of 1 nodes are done", "POST", "/v1/restore/a/open?zxid="+then, "")
	})
}

// TestAPIHistory reads the changes of a subtree in pages.
func TestAPIHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startOperated(t).caller(t)
		c.want(201, "", "POST", "/v1/nodes/h", "0")
		c.want(201, "", "POST", "/v1/nodes/h/long", strings.Repeat("x", 70_000))
		for i := range 20 {
			c.want(200, "", "PUT", "/v1/nodes/h", fmt.Sprint(i+1))
		}
		c.want(204, "", "DELETE", "/v1/nodes/h/long", "")
		var seen []string
		for before := ""; ; {
			var h api.History
			w := c.want(200, "", "GET", "/v1/history/h?below=true&limit=5"+before, "")
			if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil {
				t.Fatal(err)
			}
			var page []string
			for _, x := range h.Changes {
				text := x.Kind
				for _, d := range []*[]byte{x.Before, x.Data} {
					if d != nil {
						text += " " + string(*d)
					}
				}
				page = append(page, text)
			}
			seen = append(page, seen...)
			if !h.More {
				break
			}
			before = "&before=" + h.Next
		}
		want := []string{"created 0", "created"}
		for i := range 20 {
			want = append(want, fmt.Sprintf("data %d %d", i, i+1))
		}
		want = append(want, "deleted")
		if strings.Join(seen, ", ") != strings.Join(want, ", ") {
			t.Errorf("%q\nwant %q", seen, want)
		}
		if w := c.call("GET", "/v1/history/h", ""); strings.Count(w.Body.String(), `"kind"`) != 21 {
			t.Errorf("the changes of the node alone: %s", w.Body)
		}
	})
}

// TestAPIBackups makes backups in an archive, lists and verifies them, and looks back from them when the log does not reach so far.
func TestAPIBackups(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := startOperated(t, "zkd.archive="+dir)
		c := s.caller(t)
		c.want(403, "only those may", "GET", "/v1/backups", "")
		c.want(403, "only those may", "POST", "/v1/backups", "")
		then := c.want(201, "", "POST", "/v1/nodes/b", "old").Header().Get("X-Zxid")
		var b api.Backup
		w := c.want(201, `"ours":true,"verified"`, "POST", "/v1/backups", "", "Authorization", super)
		if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil {
			t.Fatal(err)
		}
		c.want(200, b.Name, "GET", "/v1/backups", "", "Authorization", super)
		c.want(200, `"verified"`, "POST", "/v1/backups/"+b.Name+"/verify", "", "Authorization", super)
		c.want(404, "no such backup", "POST", "/v1/backups/zkd-other.db/verify", "", "Authorization", super)
		c.want(200, "", "PUT", "/v1/nodes/b", "new")
		past := s.past()
		end, err := past.Begin()
		check(t, err)
		c.want(429, "one at a time", "GET", "/v1/past/b?zxid="+then, "")
		end()
		c.want(200, `"change":1`, "GET", "/v1/past/b?zxid="+then, "")
		file := filepath.Join(dir, b.Name)
		text, err := os.ReadFile(file)
		check(t, err)
		text[len(text)/2] ^= 1
		check(t, os.WriteFile(file, text, 0o600))
		c.want(200, `"problem":"`, "POST", "/v1/backups/"+b.Name+"/verify", "", "Authorization", super)
		check(t, os.RemoveAll(dir))
		c.want(500, "the archive can't be read", "GET", "/v1/backups", "", "Authorization", super)
	})
}

// TestAPIFormerNodes reads nodes, children and subtrees as they were before and after a delete.
func TestAPIFormerNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startOperated(t)
		c := s.caller(t)
		c.want(201, "", "POST", "/v1/nodes/app", "one")
		for _, path := range []string{"a", "b", "c", "b/below", "b/box?mode=container", "secret"} {
			c.want(201, "", "POST", "/v1/nodes/app/"+path, path)
		}
		c.want(201, "", "POST", "/v1/nodes/app/secret/below", "")
		const mine, public = `{"acl":[{"scheme":"digest","id":"super:x","perms":"cdrwa"}]}`, `{"acl":[{"scheme":"world","id":"anyone","perms":"cdrwa"}]}`
		then := c.want(200, "", "PUT", "/v1/acl/app/secret", mine, "Authorization", super).Header().Get("X-Zxid")
		time.Sleep(time.Minute)
		c.want(200, "", "PUT", "/v1/acl/app/secret", public, "Authorization", super)
		for _, path := range []string{"b/below", "b/box", "b", "a"} {
			c.want(204, "", "DELETE", "/v1/nodes/app/"+path, "")
		}
		c.want(200, "", "PUT", "/v1/nodes/app", "two")
		c.want(201, "", "POST", "/v1/nodes/app/d", "")
		at := time.Now().Add(-30 * time.Second).UTC().Format(time.RFC3339)
		for _, when := range []string{"zxid=" + then, "at=" + at} {
			w := c.want(200, "one", "GET", "/v1/nodes/app?"+when, "")
			if h := w.Header(); w.Body.String() != "one" || h.Get("X-Zxid") != then || h.Get("X-Stat-Num-Children") != "4" || h.Get("ETag") != `"0"` {
				t.Errorf("%s: %q, %v", when, w.Body, h)
			}
			var n api.Node
			if err := json.Unmarshal(c.want(200, "", "GET", "/v1/nodes/app/b/below?"+when, "", "Accept", "application/json").Body.Bytes(), &n); err != nil {
				t.Fatal(err)
			}
			if string(*n.Data) != "b/below" || len(n.ACL) != 1 || n.Time == "" || n.Zxid != then {
				t.Errorf("%s: %+v", when, n)
			}
			c.want(206, "ne", "GET", "/v1/nodes/app?"+when, "", "Range", "bytes=1-2")
			c.want(200, `"children":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"secret"`, "GET", "/v1/children/app?"+when, "")
			c.want(200, `"name":"b","stat":{"czxid"`, "GET", "/v1/children/app?show=stats&after=a&limit=1&"+when, "")
			c.want(200, `"numChildren":2}}],"more":true`, "GET", "/v1/children/app?show=stats&after=a&limit=1&"+when, "")
			c.want(200, `"ephemeralOwner":"0x0"`, "GET", "/v1/children/app/b?show=stats&after=below&"+when, "")
			c.want(200, `"more":false`, "GET", "/v1/children/app/b?show=data&"+when, "")
			lines := strings.Split(strings.TrimSpace(c.want(200, "", "GET", "/v1/subtree/app?show=acls&"+when, "").Body.String()), "\n")
			if len(lines) != 7 || !strings.Contains(lines[4], `"name":"/b/box"`) || !strings.HasPrefix(lines[6], `{"name":"/secret","error":"NOAUTH"}`) {
				t.Errorf("%s: the subtree is %s", when, strings.Join(lines, "\n"))
			}
			if all := c.want(200, "", "GET", "/v1/subtree/app?"+when, "", "Authorization", super).Body.String(); strings.Count(all, "\n") != 8 || !strings.Contains(all, "/secret/below") {
				t.Errorf("%s: the super user has the subtree %s", when, all)
			}
			c.want(403, "NOAUTH", "GET", "/v1/nodes/app/secret?"+when, "")
			c.want(403, "NOAUTH", "GET", "/v1/children/app/secret?"+when, "")
			c.want(404, "there was no /app/d at zxid "+then, "GET", "/v1/nodes/app/d?"+when, "")
			c.want(404, "NONODE", "GET", "/v1/children/app/d?"+when, "")
			c.want(404, "NONODE", "GET", "/v1/subtree/app/d?"+when, "")
		}
		c.want(200, `[{"name":"app"}]`, "GET", "/v1/children/?zxid="+then, "") // without /zookeeper
		c.want(410, "is not reached", "GET", "/v1/nodes/app?zxid=1000000", "")
		c.want(410, "before the first transaction", "GET", "/v1/children/app?at=1999-01-01T00:00:00Z", "")
		c.want(400, "which moment", "GET", "/v1/subtree/app?at="+at+"&zxid="+then, "")
		c.want(400, "belongs to the servers", "GET", "/v1/nodes/zookeeper/quota?zxid="+then, "")
		end, err := s.past().Begin()
		check(t, err)
		c.want(429, "one at a time", "GET", "/v1/nodes/app?zxid="+then, "")
		end()
		s.noErrors(t)
	})
}

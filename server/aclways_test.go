package server

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/jute"
)

// TestNoWayAroundAnACL lets a client that may do nothing with a node try every way to its data,
// its children, its ACL and its changes.
func TestNoWayAroundAnACL(t *testing.T) {
	const data, child, password = "hidden-data", "hidden-child", "ann:hidden-password"
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		ann, eve := s.connect(t), s.connect(t)
		ann.auth(password)
		hers := []jute.ACL{{Perms: jute.PermAll, ID: s.digestID(t, password)}}
		secrets := []string{data, child, hers[0].ID.ID}
		eve.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive})
		ann.ok(jute.OpCreate, &jute.CreateRequest{Path: "/closed", Data: []byte(data), ACL: hers})
		ann.ok(jute.OpCreate, &jute.CreateRequest{Path: "/closed/" + child, Data: []byte(data), ACL: hers})
		ann.ok(jute.OpCreate, &jute.CreateRequest{Path: "/closed/e", ACL: hers, Mode: jute.ModeEphemeral})

		show := func(way string, shown []byte) {
			t.Helper()
			for _, secret := range secrets {
				if bytes.Contains(shown, []byte(secret)) {
					t.Errorf("%s shows %s", way, secret)
				}
			}
		}
		setACL := &jute.SetACLRequest{Path: "/closed", ACL: openACL, Version: -1}
		for op, body := range map[jute.OpCode]record{
			jute.OpGetData: get("/closed", true), jute.OpExists: get("/closed", true), jute.OpGetChildren: get("/closed", true),
			jute.OpGetChildren2: get("/closed", true), jute.OpGetACL: &jute.PathRequest{Path: "/closed"},
			jute.OpGetAllChildrenNumber: &jute.PathRequest{Path: "/closed"},
			jute.OpSetData:              set("/closed", ""), jute.OpSetACL: setACL, jute.OpDelete: del("/closed/" + child),
			jute.OpCreate: create("/closed/mine", "", 0), jute.OpCreate2: create("/closed/mine", "", 0),
			jute.OpCreateContainer: create("/closed/mine", "", jute.ModeContainer),
		} {
			r := eve.call(op, body)
			if r.Err != jute.ErrNoAuth {
				t.Errorf("%v: %v", op, r.Err)
			}
			show(op.String(), r.body)
		}

		for _, op := range []jute.MultiOp{
			{Type: jute.OpCheck, Path: "/closed", Version: -1}, {Type: jute.OpSetData, Path: "/closed", Version: -1},
			{Type: jute.OpDelete, Path: "/closed/" + child, Version: -1}, {Type: jute.OpCreate, Path: "/closed/mine", ACL: openACL},
		} {
			for _, before := range [][]jute.MultiOp{nil, {{Type: jute.OpCreate, Path: "/eve", ACL: openACL}}} {
				r := eve.call(jute.OpMulti, &jute.MultiRequest{Ops: append(before, op)})
				if eve.exists("/eve") {
					t.Errorf("a multi with %v is done: %v", op.Type, r.Err)
				}
				show("multi", r.body)
			}
		}
		for _, op := range []jute.OpCode{jute.OpGetData, jute.OpGetChildren} {
			r := eve.call(jute.OpMultiRead, &jute.MultiRequest{Ops: []jute.MultiOp{{Type: op, Path: "/closed"}}})
			show("multiRead", r.body)
		}
		looker := s.looking(t)
		for _, shows := range []int32{jute.ShowACLs, jute.ShowChangedData} {
			for _, path := range []string{"/closed", "/"} {
				r := looker.wholeLook(jute.PastRequest{Path: path, Show: shows, Below: true, Zxid: ann.zxid})
				if r.Code != 0 {
					t.Errorf("past: %v %s", r.Code, r.Text)
				}
				show("past", r.Append(nil))
			}
		}
		show("getEphemerals", eve.ok(jute.OpGetEphemerals, &jute.GetEphemeralsRequest{Prefix: "/"}).body)

		eve.call(jute.OpSetWatches2, setWatches2{&jute.SetWatchesRequest{
			RelativeZxid: 1 << 60, // nothing was missed: see the comment at setWatches
			Data:         []string{"/closed"}, Exist: []string{"/closed/x"}, Child: []string{"/closed"}, Persistent: []string{"/closed"}}})
		ann.set("/closed", data+"2")
		ann.ok(jute.OpDelete, del("/closed/"+child))
		eve.ping()
		for _, e := range eve.events {
			if ev := e.event(); strings.HasPrefix(ev.Path, "/closed") {
				t.Errorf("a watch tells %v of %s", ev.Type, ev.Path)
			}
		}

		// dump, wchp and wchc show names, as docs/security.md says.
		secrets = []string{data, hers[0].ID.ID}
		for _, word := range strings.Fields("conf cons crst dirs dump envi gtmk hash isro mntr ruok srvr stat wchc wchp wchs") {
			show(word, []byte(s.ask(t, word, false)))
		}
		_, index := s.page("/commands", "")
		for _, link := range strings.Split(index, `href="`)[1:] {
			page, _, _ := strings.Cut(link, `"`)
			_, text := s.page(page, "")
			show(page, []byte(text))
		}

		moved := ann.resume(t, 10_000)
		if r := moved.call(jute.OpGetData, get("/closed", false)); moved.session != ann.session || r.Err != jute.ErrNoAuth {
			t.Errorf("the session keeps the identity on another connection: %v", r.Err)
		}
	})
}

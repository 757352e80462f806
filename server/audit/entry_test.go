package audit_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
)

var (
	bob   = jute.ID{Scheme: "digest", ID: "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}
	super = jute.ID{Scheme: "super"}
	home  = jute.ID{Scheme: "ip", ID: "127.0.0.1"}
)

func TestAppend(t *testing.T) {
	for _, tc := range []struct {
		name       string
		e          audit.Entry
		text, json string // | is a tab
	}{
		{"start", audit.Entry{User: "zk", Operation: audit.ServerStart},
			"user=zk|operation=serverStart|result=success",
			`{"user":"zk","operation":"serverStart","result":"success"}`},
		{"create", audit.Entry{Session: 0x1934, IDs: []jute.ID{home, bob}, IP: "127.0.0.1", Operation: audit.Create, Znode: "/a",
			ZnodeType: audit.ModeName(jute.ModePersistentSequentialTTL), Zxid: 0x100000002},
			"session=0x1934|user=127.0.0.1,bob|ip=127.0.0.1|operation=create|znode=/a|znode_type=persistent_sequential_with_ttl|result=success",
			`{"session":"0x1934","users":["ip:127.0.0.1","digest:bob"],"ip":"127.0.0.1","operation":"create","znode":"/a",` +
				`"znode_type":"persistent_sequential_with_ttl","zxid":"0x100000002","result":"success"}`},
		{"refused", audit.Entry{Session: 1, IDs: []jute.ID{home}, IP: "127.0.0.1", Operation: audit.Delete, Znode: "/a", Result: audit.Failure, Code: jute.ErrNoAuth},
			"session=0x1|user=127.0.0.1|ip=127.0.0.1|operation=delete|znode=/a|result=failure",
			`{"session":"0x1","users":["ip:127.0.0.1"],"ip":"127.0.0.1","operation":"delete","znode":"/a",` +
				`"error":"` + jute.ErrNoAuth.Error() + `","result":"failure"}`},
		{"super has no name of its own", audit.Entry{IDs: []jute.ID{super, {Scheme: "digest", ID: "super:lK75"}}, Operation: audit.Reconfig},
			"user=super|operation=reconfig|result=success",
			`{"users":["super:","digest:super"],"operation":"reconfig","result":"success"}`},
		{"configure", audit.Entry{Operation: audit.Configure, Key: "zkd.limit.a", Value: "address *\twatches=9"},
			`operation=configure|key=zkd.limit.a|value=address *\twatches=9|result=success`,
			`{"operation":"configure","key":"zkd.limit.a","value":"address *\twatches=9","result":"success"}`},
		{"blank names", audit.Entry{IDs: []jute.ID{{Scheme: "digest", ID: " :hash"}, {Scheme: "digest", ID: ":hash"}}, Operation: audit.SetData},
			"operation=setData|result=success",
			`{"users":["digest: ","digest:"],"operation":"setData","result":"success"}`},
		{"ACL", audit.Entry{Operation: audit.SetACL, Znode: "/a", ACL: []jute.ACL{
			{Perms: jute.PermAll, ID: jute.WorldAnyone}, {Perms: jute.PermRead | jute.PermWrite, ID: bob}}},
			"operation=setAcl|znode=/a|acl=world:anyone:cdrwa,digest:bob:x:rw|result=success",
			`{"operation":"setAcl","znode":"/a","acl":["world:anyone:cdrwa","digest:bob:x:rw"],"result":"success"}`},
		{"what a client sends can't break a line", audit.Entry{IDs: []jute.ID{{Scheme: "digest", ID: "a,super\nsession=0x1\tuser=b:hash"}},
			Operation: audit.Create, Znode: "/a\tresult=success\n\\\x00\u2028\u202e\xff é"},
			`user=a\,super\nsession=0x1\tuser=b|operation=create|znode=/a\tresult=success\n\\\x00\u2028\u202e\xff é|result=success`,
			`{"users":["digest:a,super\nsession=0x1\tuser=b"],"operation":"create",` +
				`"znode":"/a\tresult=success\n\\\u0000\u2028\u202e\ufffd é","result":"success"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, want := string(audit.AppendText(nil, &tc.e)), strings.ReplaceAll(tc.text, "|", "\t"); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			if got := string(audit.AppendJSON(nil, &tc.e)); got != tc.json {
				t.Errorf("got  %s\nwant %s", got, tc.json)
			}
		})
	}
}

// TestNoSecrets checks that an ACL shows no part of an id that may be a secret, also if
// the entry makes no sense and is refused.
func TestNoSecrets(t *testing.T) {
	for _, id := range []jute.ID{
		{Scheme: "digest", ID: "bob:hunter2"}, {Scheme: "digest", ID: "bob:x:hunter2"}, {Scheme: "digest", ID: "hunter2"},
		{Scheme: "auth", ID: "bob:hunter2"}, {Scheme: "auth", ID: "hunter2"}, {Scheme: "Digest", ID: "hunter2"},
		{Scheme: "", ID: "hunter2"}, {Scheme: "super", ID: "super:hunter2"}, {Scheme: "digest", ID: ":hunter2"},
	} {
		e := audit.Entry{Operation: audit.SetACL, ACL: []jute.ACL{{Perms: 31, ID: id}}, IDs: []jute.ID{{Scheme: "digest", ID: "bob:hunter2"}}}
		text, object := string(audit.AppendText(nil, &e)), string(audit.AppendJSON(nil, &e))
		if strings.Contains(text+object, "hunter2") {
			t.Errorf("%v: %s\n%s", id, text, object)
		}
	}
}

// FuzzAppend checks that no text of a client makes another line, another field, or another
// user or ACL entry, and that all texts can be told apart.
func FuzzAppend(f *testing.F) {
	f.Add("127.0.0.1", "bob:x", "digest", "/a", "world")
	f.Add("a\n", "a,b", "a\tresult=success", "/a\\n", "a,b:c:d")
	f.Add("\\", "\xff\u2028", "\r", "\x00", "\u202e")
	f.Fuzz(func(t *testing.T, ip, user, scheme, znode, aclScheme string) {
		e := audit.Entry{Session: 1, IDs: []jute.ID{home, {Scheme: "x509", ID: user}}, IP: ip, Operation: audit.Create, Scheme: scheme,
			Znode: znode, ACL: []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: aclScheme, ID: user}}, {Perms: 1, ID: jute.WorldAnyone}}}
		line := string(audit.AppendText(nil, &e))
		var want []string
		for _, field := range []struct{ name, value string }{{"session=", "x"}, {"user=", "x"}, {"ip=", ip}, {"operation=", "x"},
			{"scheme=", scheme}, {"znode=", znode}, {"acl=", "x"}, {"result=", "x"}} {
			if field.value != "" {
				want = append(want, field.name)
			}
		}
		fields := strings.Split(line, "\t")
		if len(fields) != len(want) || strings.ContainsAny(line, "\n\r\v\f\u0085\u2028\u2029") {
			t.Fatalf("%q has %d fields, want %d", line, len(fields), len(want))
		}
		for i := range fields {
			if !strings.HasPrefix(fields[i], want[i]) {
				t.Errorf("field %d is %q, want %s", i, fields[i], want[i])
			}
			switch want[i] {
			case "znode=":
				if got := unescape(t, fields[i][len(want[i]):]); got != znode {
					t.Errorf("znode is %q, want %q", got, znode)
				}
			case "acl=":
				if n := len(splitList(fields[i])); n != 2 {
					t.Errorf("%d entries of an ACL in %q", n, fields[i])
				}
			case "user=":
				if n := len(splitList(fields[i])); n != 2 && strings.TrimSpace(user) != "" {
					t.Errorf("%d users in %q", n, fields[i])
				}
			}
		}
		object := audit.AppendJSON(nil, &e)
		var decoded map[string]any
		if err := json.Unmarshal(object, &decoded); err != nil || strings.Contains(string(object), "\n") {
			t.Fatalf("%s: %v", object, err)
		}
		if decoded["result"] != "success" || decoded["operation"] != "create" {
			t.Errorf("%s", object)
		}
	})
}

// splitList splits at the commas that are not escaped.
func splitList(s string) []string {
	return strings.Split(strings.ReplaceAll(strings.ReplaceAll(s, `\\`, ""), `\,`, ""), ",")
}

// unescape is the inverse of the escapes in a line.
func unescape(t *testing.T, s string) string {
	var b strings.Builder
	for s != "" {
		if s[0] != '\\' {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		n := map[byte]int{'x': 4, 'u': 6, 'U': 10}[s[1]]
		if n == 0 {
			n = 2
		}
		text, err := unquote(s[:n])
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		b.WriteString(text)
		s = s[n:]
	}
	return b.String()
}

func unquote(escape string) (string, error) { return strconv.Unquote(`"` + escape + `"`) }

func BenchmarkAppendText(b *testing.B) {
	e := audit.Entry{Session: 0x1934, IDs: []jute.ID{home, bob}, IP: "127.0.0.1", Operation: audit.SetData, Znode: "/app/config/one"}
	line := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		line = audit.AppendText(line[:0], &e)
	}
}

package server

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
)

// startConfigurable starts a server whose file has the lines that file points to.
func startConfigurable(t *testing.T, file *[]string) *testServer {
	t.Helper()
	load := func(on ...config.Setting) (*config.Config, []config.Warning, error) {
		text := "dataDir=/data\nclientPort=2181\ntickTime=1000\n" + strings.Join(*file, "\n")
		return config.Parse(strings.NewReader(text), "zoo.cfg", on...)
	}
	cfg, _, err := load()
	check(t, err)
	return startWith(t, Options{FS: crashfs.New(1), Config: cfg, Load: load})
}

// configure sends a request about the configuration.
func (c *client) configure(action int32, key, value string) (done bool, text string) {
	c.t.Helper()
	r := c.ok(jute.OpConfigure, &jute.ConfigureRequest{Action: action, Key: key, Value: value})
	var resp jute.ConfigureResponse
	d := jute.NewDecoder(r.body)
	resp.Decode(&d)
	check(c.t, d.Err())
	return resp.Done, resp.Text
}

func TestConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := []string{superIs, "maxCnxns=50", "zkd.limit.file=address * sessions=100"}
		s := startConfigurable(t, &file)
		guest, c := s.connect(t), s.super(t)
		if r := guest.call(jute.OpConfigure, &jute.ConfigureRequest{}); r.Err != jute.ErrNoAuth {
			t.Errorf("somebody without permission: %v", r)
		}
		if r := c.call(jute.OpConfigure, nil); r.Err != jute.ErrMarshalling {
			t.Errorf("no body: %v", r)
		}
		want := func(action int32, key, value string, done bool, parts ...string) {
			t.Helper()
			ok, text := c.configure(action, key, value)
			for _, part := range parts {
				if ok != done || !strings.Contains(text, part) || strings.Contains(text, "lK75") {
					t.Errorf("%d %s=%s: done %v, %q; want %v, %q", action, key, value, ok, text, done, part)
				}
			}
		}
		const show, set, unset = jute.ConfigureShow, jute.ConfigureSet, jute.ConfigureUnset
		want(show, "", "", true, "maxCnxns=50 (connections) ", "zoo.cfg:5\n", "superDigest=***")
		want(set, "maxCnxns", "60", true, "maxCnxns=60 (was 50)\n")
		want(set, "zookeeper.connectionMaxTokens", "7", true, "connection_throttle_tokens=7 (was 0)\n")
		want(show, "", "", true, "maxCnxns=60 (connections) ", "set while the server runs\n")
		want(set, "snapCount", "1", true, "snapCount=2 (was 100000)\nwarning: less than 2 counts as 2\n")
		want(set, "maxCnxns", "60", true, "")
		want(set, "zkd.limit.a", "address * watches=9", true, "zkd.limit.a=address * watches=9 (was )\n")
		if now := s.settings.Live(); now.MaxCnxns != 60 || now.ConnectionThrottle.Tokens != 7 || len(now.Limits) != 2 {
			t.Errorf("now %d, %d, %v", now.MaxCnxns, now.ConnectionThrottle.Tokens, now.Limits)
		}

		for _, bad := range []struct{ key, value, want string }{
			{"maxCnxns", "x", `maxCnxns: "x": must be a number`},
			{"tickTime", "500", "tickTime needs a restart"},
			{"maxCnxnz", "5", "did you mean maxCnxns?"},
			{"no such key at all", "5", "there is no key"},
			{"digest.enabled", "true", "has no effect"},
			{"zkd.limit.b", "address * watches=9", "zkd.limit.b"},
			{"zkd.limit.", "address * watches=9", "zkd.limit."},
		} {
			want(set, bad.key, bad.value, false, bad.want)
		}
		want(9, "maxCnxns", "5", false, "older than the client")

		// A file that has changed meanwhile counts only for the key, and one with an error not at all.
		file = []string{superIs, "maxCnxns=51", "enforceQuota=true"}
		want(unset, "maxCnxns", "", true, "maxCnxns=51 (was 60)\n")
		want(unset, "zkd.limit.a", "", true, "zkd.limit.a= (was address * watches=9)\n")
		want(set, "zkd.limit.b", "address * sessions=8", false, "rules file and b both limit the sessions")
		if now := s.settings.Live(); now.EnforceQuota || len(now.Limits) != 1 {
			t.Error("another key of the file counts")
		}
		file = []string{superIs, "maxCnxns=none"}
		want(set, "snapCount", "100", false, `zoo.cfg:5: maxCnxns: "none": must be a number`)

		// The file counts again for all keys after SIGHUP.
		file = []string{superIs, "maxCnxns=52"}
		cfg, _, err := s.opts.Load()
		check(t, err)
		_, err = s.Reload(cfg)
		check(t, err)
		if now := s.settings.Live(); now.MaxCnxns != 52 || now.ConnectionThrottle.Tokens != 0 || len(now.Limits) != 0 || now.SnapCount != 100000 {
			t.Errorf("after a reload %d, %d, %v, %d", now.MaxCnxns, now.ConnectionThrottle.Tokens, now.Limits, now.SnapCount)
		}
		want(set, "snapCount", "90", true, "snapCount=90")
		if n := s.settings.Live().MaxCnxns; n != 52 {
			t.Errorf("a setting from before the reload counts again: %d", n)
		}
	})
}

// The answer comes after those to the requests before it.
func TestConfigureInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := []string{superIs}
		c := startConfigurable(t, &file).super(t)
		var frames []byte
		for i := range int32(10) {
			frames = append(frames, frameOf(requestFrame(c.xid+1+2*i, jute.OpSetData, set("/", "")))...)
			frames = append(frames, frameOf(requestFrame(c.xid+2+2*i, jute.OpConfigure, &jute.ConfigureRequest{Action: jute.ConfigureSet, Key: "maxCnxns", Value: "5"}))...)
		}
		c.nc.Write(frames)
		for i := range int32(20) {
			if r := c.must(); r.Xid != c.xid+1+i || r.Err != 0 {
				t.Fatalf("got %v, want the reply to %d", r, c.xid+1+i)
			}
		}
	})
}

// A server that was not given a way to read its configuration again shows it, and does not
// change it.
func TestConfigureWithoutFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t, superIs).super(t)
		if done, text := c.configure(jute.ConfigureSet, "maxCnxns", "5"); done || !strings.Contains(text, "can't change") {
			t.Errorf("done %v, %q", done, text)
		}
		if done, text := c.configure(jute.ConfigureShow, "", ""); !done || !strings.Contains(text, "maxCnxns=0 (connections)") {
			t.Errorf("done %v, %q", done, text)
		}
	})
}

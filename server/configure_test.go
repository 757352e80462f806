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

// TestConfigure sends requests through the port: who may, and that they have an effect, without secrets. Package
// settings tests what they may contain.
func TestConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := []string{superIs, "maxCnxns=50"}
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
		const show, set = jute.ConfigureShow, jute.ConfigureSet
		want(show, "", "", true, "maxCnxns=50 (connections) ", "zoo.cfg:5\n", "superDigest=***")
		want(set, "maxCnxns", "60", true, "maxCnxns=60 (was 50)\n")
		want(set, "maxCnxns", "x", false, `maxCnxns: "x": must be a number`)
		if n := s.settings.Live().MaxCnxns; n != 60 {
			t.Errorf("maxCnxns is %d", n)
		}
		cfg, _, err := s.opts.Load()
		check(t, err)
		_, err = s.Reload(cfg) // as after SIGHUP
		check(t, err)
		if n := s.settings.Live().MaxCnxns; n != 50 {
			t.Errorf("after a reload maxCnxns is %d", n)
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

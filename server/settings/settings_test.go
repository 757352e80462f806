package settings

import (
	"errors"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
)

const (
	show  = jute.ConfigureShow
	set   = jute.ConfigureSet
	unset = jute.ConfigureUnset
)

// program is what Settings have around them: a configuration file, and parts that hear of changes.
type program struct {
	t       *testing.T
	file    []string
	refusal error            // of Prepare
	live    []*config.Config // what Changed was called with
	*Settings
}

func (p *program) load(on ...config.Setting) (*config.Config, []config.Warning, error) {
	return config.Parse(strings.NewReader("dataDir=/data\nclientPort=2181\n"+strings.Join(p.file, "\n")), "zoo.cfg", on...)
}

func start(t *testing.T, file ...string) *program {
	p := &program{t: t, file: file}
	cfg, _, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	p.Settings = New(Options{
		Config: cfg, Load: p.load,
		Prepare: func(*config.Config) error { return p.refusal },
		Changed: func(cfg *config.Config) {
			if p.Live() != cfg {
				t.Error("the parts are told of a configuration that is not the live one")
			}
			p.live = append(p.live, cfg)
		},
	})
	return p
}

// ask sends a request, and checks that the answer, or the error if fails, has a text.
func (p *program) ask(action int32, key, value string, fails bool, want string) {
	p.t.Helper()
	before := len(p.live)
	text, err := p.Configure(jute.ConfigureRequest{Action: action, Key: key, Value: value})
	got := text
	if err != nil {
		got = err.Error()
	}
	if (err != nil) != fails || !strings.Contains(got, want) {
		p.t.Errorf("%d %s=%s: failed %v, %q; want %v and %q", action, key, value, err != nil, got, fails, want)
	}
	if changed := len(p.live) > before; changed != (err == nil && action != show) {
		p.t.Errorf("%d %s=%s: the parts were told: %v", action, key, value, changed)
	}
}

// TestConfigure sends requests to show, set and unset keys.
func TestConfigure(t *testing.T) {
	p := start(t, "maxCnxns=50", "zkd.limit.file=address * sessions=100")
	for _, step := range []struct {
		action     int32
		key, value string
		fails      bool
		want       string
	}{
		{show, "", "", false, "maxCnxns=50 (connections) "},
		{set, "maxCnxns", "60", false, "maxCnxns=60 (was 50)\n"},
		{show, "", "", false, "set while the server runs\n"},
		{set, "zookeeper.connectionMaxTokens", "7", false, "connection_throttle_tokens=7 (was 0)\n"}, // the property's name
		{set, "snapCount", "1", false, "snapCount=2 (was 100000)\nwarning: less than 2 counts as 2\n"},
		{set, "maxCnxns", "60", false, ""}, // it is already
		{set, "zkd.limit.a", "address * watches=9", false, "zkd.limit.a=address * watches=9 (was )\n"},
		{set, "maxCnxns", "x", true, `maxCnxns: "x": must be a number`},
		{set, "tickTime", "500", true, "tickTime needs a restart"},
		{set, "maxCnxnz", "5", true, "did you mean maxCnxns?"},
		{set, "no such key at all", "5", true, "there is no key"},
		{set, "digest.enabled", "true", true, "has no effect"},
		{set, "zkd.limit.b", "address * watches=9", true, "zkd.limit.b"}, // as rule a
		{set, "zkd.limit.", "address * watches=9", true, "zkd.limit."},
		{9, "maxCnxns", "5", true, "older than the client"},
	} {
		p.ask(step.action, step.key, step.value, step.fails, step.want)
	}
	if now := p.Live(); now.MaxCnxns != 60 || now.ConnectionThrottle.Tokens != 7 || len(now.Limits) != 2 {
		t.Errorf("now %d, %d, %v", now.MaxCnxns, now.ConnectionThrottle.Tokens, now.Limits)
	}
}

// TestFileChangesMeanwhile has a file that was edited since the start: it counts for the key of the request alone,
// with an error in it not at all, and for all keys when it is read again, with which the clients' settings end.
func TestFileChangesMeanwhile(t *testing.T) {
	p := start(t, "maxCnxns=50", "zkd.limit.file=address * sessions=100")
	p.ask(set, "maxCnxns", "60", false, "")
	p.ask(set, "connection_throttle_tokens", "7", false, "")
	p.file = []string{"maxCnxns=51", "enforceQuota=true"}
	p.ask(unset, "maxCnxns", "", false, "maxCnxns=51 (was 60)\n")
	p.ask(set, "zkd.limit.b", "address * sessions=8", true, "rules file and b both limit the sessions")
	if now := p.Live(); now.EnforceQuota || len(now.Limits) != 1 {
		t.Error("another key of the file counts")
	}
	p.file = []string{"maxCnxns=none"}
	p.ask(set, "snapCount", "100", true, `zoo.cfg:3: maxCnxns: "none": must be a number`)

	p.file = []string{"maxCnxns=52"}
	cfg, _, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if now := p.Live(); now.MaxCnxns != 52 || now.ConnectionThrottle.Tokens != 0 {
		t.Errorf("after a reload %d, %d", now.MaxCnxns, now.ConnectionThrottle.Tokens)
	}
	p.ask(set, "snapCount", "90", false, "snapCount=90")
	if now := p.Live(); now.MaxCnxns != 52 || now.ConnectionThrottle.Tokens != 0 {
		t.Errorf("settings from before the reload count again: %d, %d", now.MaxCnxns, now.ConnectionThrottle.Tokens)
	}
}

// TestRefusedChange has a part that can't work with a configuration: nothing changes, nobody hears of it, and the next
// request does not make up for it.
func TestRefusedChange(t *testing.T) {
	p := start(t, "maxCnxns=50")
	heard := p.Changes()
	p.refusal = errors.New("the audit log can't be opened")
	p.ask(set, "maxCnxns", "60", true, "can't be opened")
	cfg, _, _ := p.load(config.SetWhileRunning("maxCnxns", "70"))
	if _, err := p.Reload(cfg); !errors.Is(err, p.refusal) || len(p.live) > 0 || len(heard) > 0 || p.Live().MaxCnxns != 50 {
		t.Errorf("%v, told %d times, maxCnxns is %d", err, len(p.live)+len(heard), p.Live().MaxCnxns)
	}
	p.refusal = nil
	p.ask(set, "snapCount", "90", false, "snapCount=90 (was 100000)\n")
	if n := p.Live().MaxCnxns; n != 50 {
		t.Errorf("maxCnxns is %d", n)
	}
}

// TestChanges has a part that is busy while the configuration changes twice: it hears of it once.
func TestChanges(t *testing.T) {
	p := start(t)
	first, second := p.Changes(), p.Changes()
	p.ask(set, "maxCnxns", "60", false, "")
	p.ask(set, "maxCnxns", "61", false, "")
	for _, heard := range []<-chan struct{}{first, second} {
		if len(heard) != 1 {
			t.Errorf("it has %d tokens", len(heard))
		}
	}
}

// TestWithoutFile has a server that can't read its configuration again: it shows it, and does not change it.
func TestWithoutFile(t *testing.T) {
	p := start(t)
	p.o.Load = nil
	p.ask(set, "maxCnxns", "5", true, "can't change")
	p.ask(show, "", "", false, "maxCnxns=0 (connections)")
}

package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// What operators do. Each action is a request of the protocol, as zkcli sends it, so the server has one rule for who may do it:
// those who may write /zookeeper/config. A dry run needs the same permission.

var (
	dryRun = param{in: "query", name: "dry-run", choices: []string{"true", "false"}, doc: "true: nothing changes, and the answer says what would."}
	force  = param{in: "query", name: "force", choices: []string{"true", "false"}, doc: "true: do it although the dry run warns."}
)

// operations returns the endpoints about the servers themselves.
func operations() []endpoint {
	list := []endpoint{
		{method: http.MethodGet, path: "/v1/configuration", doc: "The configuration of this server.", serve: (*call).configuration,
			answers: []answer{{status: 200, doc: "Each key with its value and where that comes from.", content: inJSON[SettingList]()}}},
		{method: http.MethodPut, path: "/v1/configuration/{key}", doc: "Set a key of this server until it restarts, or reads its file again.", serve: (*call).configure,
			params: []param{dryRun, was}, body: []content{{textType, nil}}, refuses: []int{412},
			answers: []answer{{status: 200, doc: "What has changed, or would.", content: inJSON[Configured]()}}},
		{method: http.MethodDelete, path: "/v1/configuration/{key}", doc: "Go back to the value of the configuration file.", serve: (*call).configure,
			params: []param{dryRun, was}, refuses: []int{412},
			answers: []answer{{status: 200, doc: "What has changed, or would.", content: inJSON[Configured]()}}},
	}
	list = slices.Concat(list, memberOperations(), auditOperations(), backupOperations())
	for i := range list {
		list[i].operates = true
	}
	return list
}

// was has a change refused if the value is another one meanwhile.
var was = param{in: "query", name: "was", doc: "The value that the caller has seen, empty for a rule that there was not. If there is another one meanwhile, nothing changes."}

// SettingList is a configuration.
type SettingList struct {
	Self     int64     `json:"self" doc:"the id of this server, 0 without an ensemble"`
	Settings []Setting `json:"settings"`
}

// Setting is a key of a configuration.
type Setting struct {
	Key     string `json:"key"`
	Value   string `json:"value" doc:"secrets are masked"`
	Unit    string `json:"unit,omitempty"`
	Default string `json:"default"`
	From    string `json:"from" doc:"where the value comes from: a file with the line, an option, default, or that it was set while the server runs"`
	Live    bool   `json:"live" doc:"it can change while the server runs"`
	Allowed string `json:"allowed"`
	Doc     string `json:"doc"`
}

// Configured is what has become of a change of the configuration, or would.
type Configured struct {
	Key      string   `json:"key"`
	DryRun   bool     `json:"dryRun"`
	Changes  []string `json:"changes" doc:"KEY=VALUE (was VALUE); none if it is so already"`
	Warnings []string `json:"warnings"`
}

// mayOperate asks the server whether the caller may operate it, by a request that changes nothing.
func (c *call) mayOperate() error {
	if _, err := c.server(); err != nil {
		return err
	}
	_, err := c.sendConfigure(jute.ConfigureRequest{Action: jute.ConfigureShow})
	return err
}

// sendConfigure sends a request about the configuration, and returns the server's text.
func (c *call) sendConfigure(r jute.ConfigureRequest) (string, error) {
	var out jute.ConfigureResponse
	if _, err := c.send(jute.OpConfigure, &r, &out); err != nil {
		return "", notAllowed(err)
	}
	if !out.Done {
		return "", refuse(http.StatusBadRequest, "%s", out.Text)
	}
	return out.Text, nil
}

// notAllowed says what an operator has to be.
func notAllowed(err error) error {
	if !errors.Is(err, jute.ErrNoAuth) {
		return err
	}
	p := problemOf(jute.ErrNoAuth, "")
	p.Detail = "only those may do this who may write /zookeeper/config, such as the super user"
	return p
}

// configuration tells the configuration.
func (c *call) configuration() error {
	if err := c.mayOperate(); err != nil {
		return err
	}
	out := SettingList{Settings: c.Server().Settings()}
	if p := c.Server().View().Peer(); p != nil {
		out.Self = p.ID
	}
	return c.answer(http.StatusOK, out)
}

// configure sets or unsets a key.
func (c *call) configure() error {
	r := jute.ConfigureRequest{Action: jute.ConfigureUnset, Key: c.id}
	if c.r.Method == http.MethodPut {
		value, err := c.body()
		if err != nil {
			return err
		}
		if strings.ContainsFunc(string(value), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return refuse(http.StatusBadRequest, "a value has no control characters")
		}
		r.Action, r.Value = jute.ConfigureSet, string(value)
	}
	if err := c.mayOperate(); err != nil {
		return err
	}
	if seen := c.args["was"]; len(seen) > 0 {
		c.configuring.Lock() // of those who say what they have seen, one at a time
		defer c.configuring.Unlock()
		list := c.Server().Settings()
		now := ""
		if i := slices.IndexFunc(list, func(s Setting) bool { return s.Key == c.id }); i >= 0 {
			now = list[i].Value
		}
		if now != seen[0] {
			return refuse(http.StatusPreconditionFailed, "%s is %q meanwhile", c.id, now)
		}
	}
	out := Configured{Key: c.id, DryRun: c.arg("dry-run") == "true", Changes: []string{}, Warnings: []string{}}
	text, err := c.carryOut(r, out.DryRun)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if warning, ok := strings.CutPrefix(line, "warning: "); ok {
			out.Warnings = append(out.Warnings, warning)
		} else {
			out.Changes = append(out.Changes, line)
		}
	}
	return c.answer(http.StatusOK, out)
}

// carryOut does what a request about the configuration asks for, or returns what would be.
func (c *call) carryOut(r jute.ConfigureRequest, dry bool) (string, error) {
	if !dry {
		return c.sendConfigure(r)
	}
	text, err := c.Server().Try(r)
	if err != nil {
		return "", refuse(http.StatusBadRequest, "%v", err)
	}
	return text, nil
}

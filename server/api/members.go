package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Operator knows how the members of an ensemble change. Its errors are those of an Access, those of Invalid, and texts that say why
// something is not possible.
type Operator interface {
	// Change changes the members, and returns when that is done.
	Change(ctx context.Context, a Access, r *MemberRequest, o ChangeOptions) (*MemberChange, error)
	// TransferLeader makes a server the leader, and returns when it leads. dryRun: it only says why the server can't.
	TransferLeader(ctx context.Context, a Access, id int64, dryRun bool) error
	// Welcomes reports whether another server than id lets clients in.
	Welcomes(ctx context.Context, a Access, id int64) (bool, error)
}

// Access sends an operator's requests. A lost connection is jute.ErrConnectionLoss.
type Access interface {
	// Members returns the text of /zookeeper/config, at least as new as this call.
	Members() (string, error)
	// Reconfig changes the members, which must have a version, and returns the new text.
	Reconfig(joining, leaving, all string, version int64) (string, error)
	// TransferLeader asks the leader to hand over.
	TransferLeader(id int64) error
}

// ChangeOptions say how the members are to change.
type ChangeOptions struct {
	DryRun  bool // say what would change
	Force   bool // also if it takes tolerance away, or removes a server
	Timeout time.Duration
}

// Invalid is the error of an Operator for a request that can't be understood.
func Invalid(err error) error { return refuse(http.StatusBadRequest, "%v", err) }

// MemberRequest asks for a change of the members.
type MemberRequest struct {
	Action  string   `json:"action" enum:"add remove promote demote replace"`
	Servers []string `json:"servers" doc:"of add: lines such as 4=zk4:2888:3888;2181. Of replace: an id, and the line of the server that comes in its place. Else ids."`
	Group   string   `json:"group,omitempty" doc:"of the added voters, if the ensemble has groups"`
}

// MemberChange is a change of the members that was made, or would be.
type MemberChange struct {
	DryRun  bool      `json:"dryRun"`
	Changed bool      `json:"changed" doc:"false for a dry run, and if it is so already"`
	Does    []string  `json:"does" doc:"such as: removes server 3; none if it is so already"`
	Notes   []string  `json:"notes"`
	Waits   string    `json:"waits,omitempty" doc:"of a dry run: what the change would wait for"`
	Asks    bool      `json:"asks" doc:"it takes tolerance away or removes a server, so it needs force=true"`
	Before  Tolerance `json:"before"`
	After   Tolerance `json:"after"`
	Version string    `json:"version" doc:"of the members that there are now"`
	Members []string  `json:"members" doc:"their lines"`
}

// Tolerance is what an ensemble can lose.
type Tolerance struct {
	Voters int64  `json:"voters"`
	Up     int64  `json:"up" doc:"of the voters"`
	Spare  int64  `json:"spare" doc:"how many more voters may fail; -1 without a quorum"`
	Text   string `json:"text"`
}

// Lead is who leads after a transfer of the lead.
type Lead struct {
	DryRun bool  `json:"dryRun"`
	Leader int64 `json:"leader"`
}

// Drained is what becomes of the clients of this server.
type Drained struct {
	DryRun      bool   `json:"dryRun"`
	Ended       int64  `json:"ended" doc:"connections that end, bit by bit"`
	KeepsAwayMs int64  `json:"keepsAwayMs" doc:"for how long clients are kept away"`
	Warning     string `json:"warning,omitempty" doc:"of a dry run: why it needs force=true"`
}

// access is an Access.
type access struct {
	c *call
	// version is that of the members that the operator has seen, "" for any. It counts until a change is asked for.
	version string
}

// lost is err, or jute.ErrConnectionLoss if no reply came.
func lost(err error) error {
	if errors.Is(err, errLost) || errors.Is(err, errUnsent) || errors.Is(err, ErrRefused) {
		return jute.ErrConnectionLoss
	}
	return notAllowed(err)
}

// Members implements Access.
func (a *access) Members() (string, error) {
	var got jute.GetDataResponse
	r, err := a.c.last([]request{{jute.OpSync, &jute.SyncRequest{Path: configPath}}, {jute.OpGetData, &jute.PathWatchRequest{Path: configPath}}})
	if _, err = result(r, err, &got); err != nil {
		return "", lost(err)
	}
	if now := versionOf(string(got.Data)); a.version != "" && a.version != now {
		return "", refuse(http.StatusPreconditionFailed, "the members have changed meanwhile: their version is %s", now)
	}
	return string(got.Data), nil
}

const configPath = "/zookeeper/config"

// versionOf returns the version in the text of the members.
func versionOf(text string) string {
	_, version, _ := strings.Cut(text, "\nversion=")
	return strings.TrimSpace(version)
}

// Reconfig implements Access.
func (a *access) Reconfig(joining, leaving, all string, version int64) (string, error) {
	a.version = ""
	var got jute.GetDataResponse
	_, err := a.c.send(jute.OpReconfig, &jute.ReconfigRequest{Joining: joining, Leaving: leaving, NewMembers: all, ConfigID: version}, &got)
	return string(got.Data), lost(err)
}

// TransferLeader implements Access.
func (a *access) TransferLeader(id int64) error {
	_, err := a.c.send(jute.OpTransferLeader, &jute.TransferLeaderRequest{Server: int32(id)}, nil)
	return lost(err)
}

// memberOperations returns the endpoints about the members.
func memberOperations() []endpoint {
	return []endpoint{
		{method: http.MethodPost, path: "/v1/members", doc: "Change the members, as zkcli member does. It waits for new voters to be up to date.", serve: (*call).changeMembers,
			params: []param{dryRun, force,
				{in: "query", name: "version", pattern: "^[0-9a-f]{1,16}$", doc: "The version of the members that the caller has seen. If there is another one, nothing changes."},
				{in: "query", name: "timeout", least: 0, most: 600_000, doc: "How long the change may take, in ms; 60000 by default."}},
			body: inJSON[MemberRequest](), refuses: []int{404, 409, 412, 413},
			answers: []answer{{status: 200, doc: "The change.", content: inJSON[MemberChange]()}}},
		{method: http.MethodPost, path: "/v1/leader", doc: "Make a voter the leader, and wait until it leads.", serve: (*call).transferLeader,
			params:  []param{dryRun, {in: "query", name: "id", least: 0, most: 255, doc: "The server."}},
			refuses: []int{404, 409},
			answers: []answer{{status: 200, doc: "It leads, or could.", content: inJSON[Lead]()}}},
		{method: http.MethodPost, path: "/v1/drain", doc: "Move clients of this server to others, and keep clients away for a time.", serve: (*call).drain,
			params: []param{dryRun, force,
				{in: "query", name: "for", least: 1000, most: 7 * 24 * 3_600_000, doc: "For how long clients are kept away, in ms; 600000 by default."},
				{in: "query", name: "percent", least: 1, most: 100, doc: "Instead of all its clients this part is moved, once, and nobody kept away."}},
			refuses: []int{404, 409},
			answers: []answer{{status: 200, doc: "What happens, or would.", content: inJSON[Drained]()}}},
		{method: http.MethodDelete, path: "/v1/drain", doc: "Let clients in again.", serve: (*call).endDrain,
			params:  []param{dryRun},
			answers: []answer{{status: 204, doc: "They are let in."}}},
	}
}

// operator returns who changes the members, for a caller that may.
func (c *call) operator() (Operator, error) {
	if c.Operator == nil {
		return nil, refuse(http.StatusNotFound, "this server does not ask the members, so it can't change them: it has no port for clients")
	}
	return c.Operator, c.mayOperate()
}

// impossible makes a problem of the reason why an operator's action is not possible.
func impossible(err error) error {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	p := refuse(http.StatusConflict, "%v", err)
	if code, ok := errors.AsType[jute.Code](err); ok && code != jute.ErrUnimplemented {
		p = problemOf(code, configPath)
		if p.Detail = err.Error(); code == jute.ErrConnectionLoss {
			p.Detail = "the connection was lost, so look at the members before you try again"
		}
	}
	return p
}

func (c *call) changeMembers() error {
	how := ChangeOptions{DryRun: c.arg("dry-run") == "true", Force: c.arg("force") == "true", Timeout: time.Minute}
	if c.arg("timeout") != "" {
		how.Timeout = time.Duration(c.number("timeout")) * time.Millisecond
	}
	var r MemberRequest
	if err := c.record(&r); err != nil {
		return err
	}
	o, err := c.operator()
	if err != nil {
		return err
	}
	for _, s := range c.Server().Settings() { // a dry run asks no leader
		if s.Key == "reconfigEnabled" && s.Value != "true" {
			return impossible(fmt.Errorf("the servers do not allow changes of the members: set reconfigEnabled=true on all of them, and restart them one by one: %w", jute.ErrReconfigDisabled))
		}
	}
	out, err := o.Change(c.r.Context(), &access{c, c.arg("version")}, &r, how)
	if err != nil {
		return impossible(err)
	}
	return c.answer(http.StatusOK, out)
}

func (c *call) transferLeader() error {
	if c.arg("id") == "" {
		return refuse(http.StatusBadRequest, "id is missing: it says which server is to lead")
	}
	o, err := c.operator()
	if err != nil {
		return err
	}
	out := Lead{c.arg("dry-run") == "true", c.number("id")}
	ctx, cancel := context.WithTimeout(c.r.Context(), time.Minute)
	defer cancel()
	if err := o.TransferLeader(ctx, &access{c, ""}, out.Leader, out.DryRun); err != nil {
		return impossible(err)
	}
	return c.answer(http.StatusOK, out)
}

func (c *call) drain() error {
	o, err := c.operator()
	if err != nil {
		return err
	}
	v := c.Server().View()
	peer := v.Peer()
	if peer == nil {
		return refuse(http.StatusConflict, "this is a single server: its clients have no other one")
	}
	out := Drained{DryRun: c.arg("dry-run") == "true", KeepsAwayMs: 600_000}
	body := jute.DrainRequest{HasKeepAway: true}
	percent := c.number("percent")
	switch {
	case percent > 0 && c.arg("for") != "":
		return refuse(http.StatusBadRequest, "percent keeps nobody away, so there is no for")
	case percent > 0:
		body, out.KeepsAwayMs = jute.DrainRequest{Percent: int32(percent)}, 0
	case c.arg("for") != "":
		out.KeepsAwayMs = c.number("for")
	}
	body.KeepAwayMs = out.KeepsAwayMs
	welcome, err := o.Welcomes(c.r.Context(), &access{c, ""}, peer.ID)
	if err != nil {
		return impossible(err)
	}
	if !welcome {
		out.Warning = fmt.Sprintf("No other server than %d serves and lets clients in, so its clients find none.", peer.ID)
	}
	if out.DryRun {
		if out.Ended = int64(v.Connections); percent > 0 {
			out.Ended = (out.Ended*percent + 99) / 100
		}
		return c.answer(http.StatusOK, out)
	}
	if out.Warning != "" && c.arg("force") != "true" {
		return refuse(http.StatusConflict, "%s force=true does it nevertheless.", out.Warning)
	}
	out.Warning = ""
	if out.Ended, err = c.sendDrain(&body); err != nil {
		return err
	}
	return c.answer(http.StatusOK, out)
}

func (c *call) endDrain() error {
	err := c.mayOperate()
	if err == nil && c.arg("dry-run") != "true" {
		_, err = c.sendDrain(&jute.DrainRequest{HasKeepAway: true})
	}
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// sendDrain returns how many connections will end.
func (c *call) sendDrain(r *jute.DrainRequest) (int64, error) {
	var n number
	_, err := c.send(jute.OpDrain, r, &n)
	return int64(n), notAllowed(err)
}

// number is a reply that is one.
type number int32

func (n *number) Decode(d *jute.Decoder) { *n = number(d.Int32()) }

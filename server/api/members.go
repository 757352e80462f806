package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
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
	// MayChange returns an error if the caller may not change the members.
	MayChange() error
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

// Drained is what becomes of the clients of a server.
type Drained struct {
	DryRun      bool   `json:"dryRun"`
	Ended       int64  `json:"ended" doc:"connections that end, bit by bit; -1 if that is not known"`
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

// MayChange implements Access, by a write of the node whose ACL gives the right and a change, both with a version that the node never has.
func (a *access) MayChange() error {
	_, err := a.c.send(jute.OpSetData, &jute.SetDataRequest{Path: configPath, Version: math.MinInt32}, nil)
	if errors.Is(err, jute.ErrBadVersion) {
		err = a.enabled()
	}
	return lost(err)
}

// enabled returns an error if the servers do not allow changes of the members. The leader decides that before all else, by its own
// configuration: that of this server may differ.
func (a *access) enabled() error {
	_, err := a.reconfig("", "", "", math.MinInt32)
	if errors.Is(err, jute.ErrBadVersion) || errors.Is(err, jute.ErrReconfigInProgress) {
		return nil
	}
	return err
}

func (a *access) Reconfig(joining, leaving, all string, version int64) (string, error) {
	a.version = ""
	text, err := a.reconfig(joining, leaving, all, version)
	return text, lost(err)
}

func (a *access) reconfig(joining, leaving, all string, version int64) (string, error) {
	var got jute.GetDataResponse
	_, err := a.c.send(jute.OpReconfig, &jute.ReconfigRequest{Joining: joining, Leaving: leaving, NewMembers: all, ConfigID: version}, &got)
	return string(got.Data), err
}

func (a *access) TransferLeader(id int64) error {
	_, err := a.c.send(jute.OpTransferLeader, &jute.TransferLeaderRequest{Server: int32(id)}, nil)
	return lost(err)
}

// ofServer is the server of a drain.
var ofServer = param{in: "query", name: "id", least: 0, most: 255, doc: "The server, by default this one. Another one is told by a node, /zookeeper/config/drain-ID, which has the time as its TTL."}

// memberOperations returns the endpoints about the members.
func memberOperations() []endpoint {
	return []endpoint{
		{method: http.MethodPost, path: "/v1/members", doc: "Change the members, as zkcli member does. It waits for new voters to be up to date.", serve: (*call).changeMembers,
			params: []param{dryRun, force,
				{in: "query", name: "version", pattern: "^[0-9a-f]{1,16}$", doc: "The version of the members that the caller has seen. If there is another one, nothing changes."},
				{in: "query", name: "timeout", least: 0, most: 600_000, doc: "How long the change may take, in ms; 60000 by default."}},
			body: inJSON[MemberRequest](), refuses: []int{404, 409, 412},
			answers: []answer{{status: 200, doc: "The change.", content: inJSON[MemberChange]()}}},
		{method: http.MethodPost, path: "/v1/leader", doc: "Make a voter the leader, and wait until it leads.", serve: (*call).transferLeader,
			params:  []param{dryRun, {in: "query", name: "id", least: 0, most: 255, doc: "The server."}},
			refuses: []int{404, 409},
			answers: []answer{{status: 200, doc: "It leads, or could.", content: inJSON[Lead]()}}},
		{method: http.MethodPost, path: "/v1/drain", doc: "Move clients of a server to others, and keep clients away for a time.", serve: (*call).drain,
			params: []param{dryRun, force, ofServer,
				{in: "query", name: "for", least: 1000, most: 7 * 24 * 3_600_000, doc: "For how long clients are kept away, in ms; 600000 by default."},
				{in: "query", name: "percent", least: 1, most: 100, doc: "Instead of all its clients this part is moved, once, and nobody kept away."}},
			refuses: []int{404, 409},
			answers: []answer{{status: 200, doc: "What happens, or would.", content: inJSON[Drained]()}}},
		{method: http.MethodDelete, path: "/v1/drain", doc: "Let clients in again.", serve: (*call).endDrain,
			params:  []param{dryRun, ofServer},
			refuses: []int{404},
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
	a := &access{c, c.arg("version")}
	if err := a.enabled(); errors.Is(err, jute.ErrReconfigDisabled) { // a dry run tries no change
		return impossible(fmt.Errorf("the servers do not allow changes of the members: set reconfigEnabled=true on all of them, and restart them one by one: %w", err))
	}
	out, err := o.Change(c.r.Context(), a, &r, how)
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

// drained returns the server that a request about a drain is for, and whether it is another one than this. A caller that may not operate gets an error.
func (c *call) drained(a *access) (id int64, elsewhere bool, err error) {
	if err := c.mayOperate(); err != nil {
		return 0, false, err
	}
	peer := c.Server().View().Peer()
	if peer == nil {
		return 0, false, nil
	}
	id = peer.ID
	if c.arg("id") == "" || c.number("id") == id {
		return id, false, nil
	}
	id = c.number("id")
	text, err := a.Members()
	if err == nil && !strings.Contains("\n"+text, fmt.Sprintf("\nserver.%d=", id)) {
		err = refuse(http.StatusNotFound, "there is no server %d", id)
	}
	return id, true, err
}

func (c *call) drain() error {
	o, err := c.operator()
	if err != nil {
		return err
	}
	a := &access{c, ""}
	id, elsewhere, err := c.drained(a)
	if err != nil {
		return err
	}
	if id == 0 {
		return refuse(http.StatusConflict, "this is a single server: its clients have no other one")
	}
	out := Drained{DryRun: c.arg("dry-run") == "true", KeepsAwayMs: 600_000}
	percent := c.number("percent")
	switch {
	case percent > 0 && c.arg("for") != "":
		return refuse(http.StatusBadRequest, "percent keeps nobody away, so there is no for")
	case percent > 0 && elsewhere:
		return refuse(http.StatusBadRequest, "a part of the clients of server %d is moved by itself alone", id)
	case percent > 0:
		out.KeepsAwayMs = 0
	case c.arg("for") != "":
		out.KeepsAwayMs = c.number("for")
	}
	welcome, err := o.Welcomes(c.r.Context(), a, id)
	if err != nil {
		return impossible(err)
	}
	if !welcome {
		out.Warning = fmt.Sprintf("No other server than %d serves and lets clients in, so its clients find none.", id)
	}
	if out.DryRun {
		if out.Ended = c.clientsOf(id, elsewhere); percent > 0 {
			out.Ended = (out.Ended*percent + 99) / 100
		}
		return c.answer(http.StatusOK, out)
	}
	if out.Warning != "" && c.arg("force") != "true" {
		return refuse(http.StatusConflict, "%s force=true does it nevertheless.", out.Warning)
	}
	out.Warning = ""
	switch {
	case elsewhere:
		out.Ended = c.clientsOf(id, true)
		err = c.orderDrain(id, out.KeepsAwayMs)
	case percent > 0:
		out.Ended, err = c.sendDrain(&jute.DrainRequest{Percent: int32(percent)})
	default:
		out.Ended, err = c.sendDrain(&jute.DrainRequest{HasKeepAway: true, KeepAwayMs: out.KeepsAwayMs})
	}
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, out)
}

// clientsOf returns how many connections of clients a server has, -1 if that is not known.
func (c *call) clientsOf(id int64, elsewhere bool) int64 {
	if !elsewhere {
		return int64(c.Server().View().Connections)
	}
	if c.Ensemble != nil {
		if e := c.Ensemble(c.r.Context()); e != nil {
			for i := range e.Members {
				if m := &e.Members[i]; m.ID == id {
					return m.Clients
				}
			}
		}
	}
	return -1
}

// orderDrain has another server keep clients away, by the node at jute.DrainPath. It has a TTL, so the order ends by itself.
func (c *call) orderDrain(id, ms int64) error {
	path := jute.DrainPath(id)
	create := jute.MultiOp{Type: jute.OpCreateTTL, Path: path, Data: []byte("server " + strconv.FormatInt(id, 10) + " keeps clients away as long as this is here\n"),
		ACL: []jute.ACL{{Perms: jute.PermRead, ID: jute.WorldAnyone}}, Mode: jute.ModePersistentTTL, TTL: ms}
	_, err := c.send(create.Type, single{create}, nil)
	if errors.Is(err, jute.ErrNodeExists) { // this order instead
		_, err = writes{c}.Multi(c.r.Context(), []jute.MultiOp{{Type: jute.OpDelete, Path: path, Version: -1}, create})
	}
	return orders(err)
}

// orders says what those need who order a drain, besides what all operators do.
func orders(err error) error {
	if !errors.Is(err, jute.ErrNoAuth) {
		return err
	}
	p := problemOf(jute.ErrNoAuth, configPath)
	p.Detail = "only those may order this of another server who may also create and delete children of /zookeeper/config, such as the super user"
	return p
}

// endDrain ends the drain of this server, and the order for a drain, of this server or of another one.
func (c *call) endDrain() error {
	id, elsewhere, err := c.drained(&access{c, ""})
	dry := c.arg("dry-run") == "true"
	switch {
	case err != nil:
	case elsewhere && dry:
		var stat jute.Stat
		_, err = c.send(jute.OpExists, &jute.PathWatchRequest{Path: jute.DrainPath(id)}, &stat)
	case elsewhere:
		err = c.endOrder(id)
	case !dry:
		if _, err = c.sendDrain(&jute.DrainRequest{HasKeepAway: true}); err == nil {
			_ = c.endOrder(id) // it was obeyed, and is not again
		}
	}
	if errors.Is(err, jute.ErrNoNode) {
		err = refuse(http.StatusNotFound, "server %d has no order to keep clients away: what it was told itself, it is told itself to end", id)
	}
	if err != nil {
		return orders(err)
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *call) endOrder(id int64) error {
	_, err := c.send(jute.OpDelete, &jute.DeleteRequest{Path: jute.DrainPath(id), Version: -1}, nil)
	return err
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

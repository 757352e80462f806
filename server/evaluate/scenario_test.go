package evaluate_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
)

// TestScenarios evaluates the requests of the files in testdata. Only "apply" applies
// transactions, and the evaluator learns of that only by "tell".
func TestScenarios(t *testing.T) {
	scenario.Run(t, "testdata/*.txt", func(t *testing.T) scenario.Command {
		d := &driver{t: t, world: newWorld(t, defaults)}
		return d.command
	})
}

type driver struct {
	t *testing.T
	*world
	session jute.SessionID
	local   bool
	ids     []jute.ID
	due     evaluate.Removal
}

func (d *driver) command(words []string) (string, error) {
	args := words[1:]
	switch words[0] {
	// options quota reconfig noTTL maxListed=2: the settings, with nothing pending.
	case "options":
		d.configure(d.t, evaluate.Options{
			MaxListed:       maxListed(args),
			ExtendedTypes:   !slices.Contains(args, "noTTL"),
			EnforceQuota:    slices.Contains(args, "quota"),
			ReconfigEnabled: slices.Contains(args, "reconfig"),
		})
		return "", nil
	// as 1 digest:ann:x: the session and identities of the following requests.
	case "as":
		return "", d.as(args)
	// apply [n]: apply the n oldest pending transactions, or all.
	case "apply":
		n := len(d.pending)
		if len(args) > 0 {
			n, _ = strconv.Atoi(args[0])
		}
		d.apply(n)
		return "", nil
	// tell: the evaluator learns what has been applied.
	case "tell":
		d.ev.Applied(d.tree.LastZxid())
		return "", nil
	// room N: the tree may take N bytes of memory more than it has; with "no", any number.
	case "room":
		limit := int64(0)
		if n, err := strconv.ParseInt(args[0], 10, 64); err == nil {
			limit = d.tree.Memory() + n
		}
		d.ev.SetRoom(limit)
		return "", nil
	// ready: whether the evaluator accepts requests now.
	case "ready":
		return fmt.Sprint(d.ev.Ready()), nil
	// recount: the server has the usage counted that is not right in the applied tree.
	case "recount":
		var b strings.Builder
		for _, path := range slices.Sorted(d.tree.Drifting()) {
			txn := d.do(evaluate.Request{Op: jute.OpDeleteContainer, Recount: path})
			b.WriteString(format(&txn))
		}
		return b.String(), nil
	// quota /q: the applied usage.
	case "quota":
		q, ok := d.tree.Quota(args[0])
		return fmt.Sprintf("%v %+v", ok, q.Usage), nil
	// timeout 1: the future timeout of a session.
	case "timeout":
		n, err := strconv.Atoi(args[0])
		ms, ok := d.ev.Timeout(jute.SessionID(n))
		return fmt.Sprint(ms, " ", ok), err
	// owner 1: the future owner of a session.
	case "owner":
		n, err := strconv.Atoi(args[0])
		return fmt.Sprint(d.ev.Owner(jute.SessionID(n))), err
	// tick 10: time passes, in ms.
	case "tick":
		n, err := strconv.Atoi(args[0])
		d.now += int64(n)
		return "", err
	// overlay: the pending records.
	case "overlay":
		return d.overlay(), nil
	// stored /a version=-2 aversion=-2 cversion=-2: the applied node has these numbers.
	case "stored":
		return "", d.store(args)
	// stat /a: what clients see of the applied node.
	case "stat":
		n, _ := d.tree.Get(args[0])
		st := n.Stat()
		return fmt.Sprintf("version=%d cversion=%d aversion=%d", st.Version, st.Cversion, st.Aversion), nil
	// due /c: the server finds that /c is to be removed; its state is that of the tree.
	case "due":
		n, ok := d.tree.Get(args[0])
		if !ok {
			return "", errors.New("no such node")
		}
		d.due = evaluate.Removal{Path: args[0], Cversion: n.Cversion, Mtime: n.Mtime}
		return "", nil
	}
	req, err := d.request(words)
	if err != nil {
		return "", err
	}
	txn := d.do(req)
	return format(&txn), nil
}

// store gives a node numbers that only many changes, or an import, would give it.
func (d *driver) store(args []string) error {
	path, child := args[0], strings.TrimSuffix(args[0], "/")+"/child"
	txn := datatree.Txn{Zxid: d.zxid}
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		n, err := strconv.ParseInt(value, 0, 32)
		if err != nil {
			return err
		}
		switch key {
		case "version":
			txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpSetData, Path: path, Version: int32(n)})
		case "aversion":
			txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpSetACL, Path: path, ACL: openACL, Version: int32(n)})
		case "cversion":
			txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpCreate, Path: child, ACL: openACL, Cversion: int32(n)},
				datatree.Op{Kind: datatree.OpDelete, Path: child})
		}
	}
	d.tree.Apply(&txn, &d.applied)
	return nil
}

func maxListed(args []string) (n int) {
	for _, arg := range args {
		if v, ok := strings.CutPrefix(arg, "maxListed="); ok {
			n, _ = strconv.Atoi(v)
		}
	}
	return n
}

func (d *driver) as(args []string) error {
	name, local := strings.CutPrefix(args[0], "local")
	n, err := strconv.Atoi(name)
	d.session, d.local, d.ids = jute.SessionID(n), local, nil
	for _, id := range args[1:] {
		d.ids = append(d.ids, parseID(id))
	}
	return err
}

func (d *driver) overlay() string {
	tr := d.ev.Trace()
	if tr.Empty() {
		return "empty"
	}
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(tr.Nodes)) {
		fmt.Fprintln(&b, path)
	}
	for _, s := range slices.Sorted(maps.Keys(tr.Sessions)) {
		fmt.Fprintf(&b, "session %d\n", s)
	}
	return b.String()
}

// request reads a request of the current session.
func (d *driver) request(words []string) (evaluate.Request, error) {
	req := evaluate.Request{Session: d.session, Auth: d.ids, Local: d.local}
	args := words[1:]
	switch words[0] {
	// open 1: createSession; close 1: closeSession; resume 1 6000: with another timeout;
	// own 1 6000 7: likewise, connection 7 becomes the owner.
	case "open", "close", "resume", "own":
		n, err := strconv.ParseInt(args[0], 0, 64)
		req.Session, req.TimeoutMs = jute.SessionID(n), 4000
		req.Op = jute.OpCreateSession
		switch words[0] {
		case "close":
			req.Op = jute.OpCloseSession
		case "resume", "own":
			ms, errMs := strconv.Atoi(args[1])
			req.Resumes, req.TimeoutMs, err = true, int32(ms), errors.Join(err, errMs)
		}
		if origin := args[len(args)-1]; words[0] == "own" || words[0] == "open" && len(args) > 1 {
			owner, errOwner := strconv.Atoi(origin)
			req.Owns, req.Origin, err = true, uint64(owner), errors.Join(err, errOwner)
		}
		return req, err
	// remove: deleteContainer of the node that is due, by the server.
	case "remove":
		req.Op, req.Removal = jute.OpDeleteContainer, d.due
		return req, nil
	// refused -118: the server itself refused a request.
	case "refused":
		n, err := strconv.Atoi(args[0])
		req.Op, req.Refused = jute.OpSetData, jute.Code(n)
		return req, err
	// body 5 "bytes": a request of this opcode and body.
	case "body":
		n, err := strconv.Atoi(args[0])
		req.Op = jute.OpCode(n)
		if err == nil && len(args) > 1 {
			var s string
			s, err = strconv.Unquote(args[1])
			req.Body = []byte(s)
		}
		return req, err
	case "setACL":
		v, err := strconv.Atoi(args[2])
		req.Op, req.Body = jute.OpSetACL, setACLBody(args[0], acl(args[1]), int32(v))
		return req, err
	// multi create /a ; delete /a -1
	case "multi":
		ops, err := parseOps(args)
		req.Op, req.Body = jute.OpMulti, multiBody(ops...)
		return req, err
	}
	op, err := parseOp(words)
	if err == nil {
		req.Op, req.Body = op.Type, body(op)
	}
	return req, err
}

func parseOps(words []string) ([]jute.MultiOp, error) {
	var ops []jute.MultiOp
	for len(words) > 0 {
		n := slices.Index(words, ";")
		if n < 0 {
			n = len(words)
		}
		op, err := parseOp(words[:n])
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
		words = words[min(n+1, len(words)):]
	}
	return ops, nil
}

var opTypes = map[string]jute.OpCode{
	"create": jute.OpCreate, "create2": jute.OpCreate2, "createContainer": jute.OpCreateContainer,
	"createTTL": jute.OpCreateTTL, "delete": jute.OpDelete, "set": jute.OpSetData, "check": jute.OpCheck,
	"get":    jute.OpGetData,
	"absent": jute.OpCheckAbsent, "createOrSet": jute.OpCreateOrSet, "deleteTree": jute.OpDeleteTree,
}

// parseOp parses "create /a mode=1 acl=31=world:anyone data=x ttl=5", "set /a data=x
// version=0" and so on. The defaults are null data, an open ACL and any version.
func parseOp(words []string) (jute.MultiOp, error) {
	op := jute.MultiOp{Type: opTypes[words[0]], ACL: openACL, Version: -1}
	if op.Type == 0 || len(words) < 2 {
		return op, scenario.Unknown(words)
	}
	op.Path = strings.ReplaceAll(strings.Trim(words[1], `"`), `\0`, "\x00")
	for _, w := range words[2:] {
		key, value, _ := strings.Cut(w, "=")
		n, err := strconv.ParseInt(value, 0, 64)
		switch key {
		case "data":
			op.Data, err = []byte(value), nil
		case "acl":
			op.ACL, err = parseACL(value)
		case "mode":
			op.Mode = jute.CreateMode(n)
		case "ttl":
			op.TTL = n
		case "version":
			op.Version = int32(n)
		case "limit":
			op.Limit = int32(n)
		default:
			err = scenario.Unknown(words)
		}
		if err != nil {
			return op, err
		}
	}
	return op, nil
}

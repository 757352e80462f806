package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
)

// Past looks at the past of a server: its snapshots, its log, and an archive. Errors may be a *Problem.
type Past interface {
	// Former returns so many levels of a subtree as they were at a moment, 0 for all; the last one's nodes don't know their children. Nodes that the
	// caller may not read now, or could not read then, are hidden.
	Former(ctx context.Context, c *Caller, path string, at Moment, levels int) (*Former, error)
	// Changes returns the newest changes before a zxid that the caller may read and could read then: at most some. 0 is for all.
	Changes(ctx context.Context, c *Caller, path string, below bool, before jute.Zxid, most int) (*History, error)
	// Backups lists what the archive has.
	Backups(ctx context.Context) (*BackupList, error)
	// BackUp adds a backup of the present state to the archive.
	BackUp(ctx context.Context) (*Backup, error)
	// Verify reads a backup, and what follows it.
	Verify(ctx context.Context, name string) (*Backup, error)
}

// Moment is the one after a zxid, or at a time if that is 0.
type Moment struct {
	Zxid jute.Zxid
	Time time.Time
}

// Former is a former state of a subtree. It must be closed: a server has few at a time.
type Former struct {
	Zxid  jute.Zxid
	Time  time.Time // of the last transaction before, zero for none
	From  string    // what it was made of
	Room  int64     // how many bytes the differences from it may take
	Nodes iter.Seq2[treediff.Node, error]
	// Visible are the Nodes without those below a hidden one.
	Visible iter.Seq2[treediff.Node, error]
	Shown   func([]jute.ACL) []jute.ACL // a list as the caller may see it
	Close   func()
}

// pastLasts bounds the time of a look at the past.
const pastLasts = 2 * time.Minute

// pastOperations returns the endpoints about the past of nodes.
func pastOperations() []endpoint {
	plan := answer{status: 200, doc: "What differs. The ETag names exactly that.", headers: []string{"ETag"}, content: inJSON[Restoration]()}
	return []endpoint{
		{method: http.MethodGet, path: "/v1/past/{path}", doc: "In what a subtree differs from what it was at a moment: what a restore would do.", serve: (*call).getPast,
			params: moment, answers: []answer{plan}, refuses: []int{404, 409, 413}},
		{method: http.MethodPost, path: "/v1/restore/{path}", doc: "Bring a subtree back as it was at a moment, by writes of the caller. Each is for the version that was compared. Ephemerals stay as they are.", serve: (*call).restore,
			params:  append(slices.Clone(moment), dryRun, param{in: "header", name: "If-Match", refuses: []int{412}, pattern: `^"[0-9a-f]{32}"$`, doc: "The ETag of the differences that the caller has seen. If there are others meanwhile, nothing changes."}),
			answers: []answer{{status: 200, doc: plan.doc + " With Accept: application/jsonl, a line after each piece instead.", headers: plan.headers, content: append(inJSON[Restoration](), content{linesType, inJSON[RestoreStep]()[0].record})}},
			refuses: []int{404, 409, 413}},
		{method: http.MethodDelete, path: "/v1/restores/{id}", doc: "Cancel a restore that somebody follows: it ends between two pieces.", serve: (*call).cancelRestore,
			answers: []answer{{status: 204, doc: "It ends."}}, refuses: []int{404}},
		{method: http.MethodGet, path: "/v1/history/{path}", doc: "The changes of a node, or of a subtree, from the log of the server and the archive.", serve: (*call).history,
			params: []param{{in: "query", name: "below", choices: []string{"true", "false"}, doc: "true: with all nodes below."},
				{in: "query", name: "before", pattern: byZxid.pattern, doc: "The changes wanted come before this zxid, in hex."},
				{in: "query", name: "limit", least: 1, most: mostRows, doc: "The largest number of changes, by default 500."}},
			answers: []answer{{status: 200, doc: "Changes.", content: inJSON[History]()}}, refuses: []int{404, 410, 413}},
	}
}

// Restoration is what brings a subtree back, or has brought it back.
type Restoration struct {
	Path    string         `json:"path"`
	Zxid    string         `json:"zxid" doc:"of the former state"`
	Time    string         `json:"time,omitempty" doc:"of the last transaction before it"`
	From    string         `json:"from" doc:"what the former state was made of"`
	Now     string         `json:"now" doc:"of the state that it was compared with: a restore to this zxid undoes this one"`
	DryRun  bool           `json:"dryRun" doc:"nothing was written"`
	Create  int            `json:"create" doc:"how many nodes are created"`
	Change  int            `json:"change" doc:"how many get their data or their ACL back"`
	Delete  int            `json:"delete" doc:"how many are deleted"`
	Changes []NodeReversal `json:"changes" doc:"at most 1000"`
	LeftOut []string       `json:"leftOut" doc:"former ephemerals, at most 1000: they belonged to sessions"`
	Kept    []string       `json:"kept" doc:"what stays because it is ephemeral, or has below it what is, or what the caller may not read; at most 1000"`
	Hidden  int            `json:"hidden" doc:"nodes that the caller may not read, or could not read then; they stay as they are"`
}

// RestoreStep is how far a restore is.
type RestoreStep struct {
	ID      string   `json:"id,omitempty" doc:"in the first line: DELETE /v1/restores/{id} cancels it"`
	Done    int      `json:"done" doc:"nodes that are as they were"`
	All     int      `json:"all" doc:"nodes that differed"`
	Undo    string   `json:"undo,omitempty" doc:"in the first line and in the last: a restore to this zxid undoes what is done"`
	Create  int      `json:"create,omitempty" doc:"in the last line: how many were created"`
	Change  int      `json:"change,omitempty" doc:"how many got their data or their ACL back"`
	Delete  int      `json:"delete,omitempty" doc:"how many were deleted"`
	Problem *Problem `json:"problem,omitempty" doc:"in the last line: why it has ended before all was done"`
}

// NodeReversal is what becomes of a node.
type NodeReversal struct {
	Op   string      `json:"op" enum:"create change delete"`
	Path string      `json:"path"`
	Data bool        `json:"data" doc:"its data changes"`
	ACL  bool        `json:"acl" doc:"its ACL changes"`
	Then *NodeFormer `json:"then,omitempty"`
	Now  *NodeFormer `json:"now,omitempty"`
}

// NodeFormer is a node as it was, or is.
type NodeFormer struct {
	Data *[]byte        `json:"data,omitempty" doc:"in base64; missing if it is longer than 65536 bytes, or the answer has 4194304 bytes of data"`
	ACL  []ACL          `json:"acl"`
	Stat *show.NodeStat `json:"stat"`
}

// History has changes of nodes.
type History struct {
	Path    string       `json:"path"`
	Changes []PastChange `json:"changes" doc:"the oldest first"`
	After   string       `json:"after" doc:"all changes after this zxid are in the list"`
	More    bool         `json:"more" doc:"there may be older ones: ask for those before the zxid after this one"`
	Next    string       `json:"next,omitempty" doc:"the parameter before with which to ask for them"`
}

// PastChange is a change of a node.
type PastChange struct {
	Zxid    string         `json:"zxid"`
	Time    string         `json:"time"`
	Session string         `json:"session"`
	Kind    string         `json:"kind" enum:"created data acl deleted"`
	Path    string         `json:"path"`
	Before  *[]byte        `json:"before,omitempty" doc:"the data before, in base64; missing if there was none, or it is longer than 65536 bytes"`
	Data    *[]byte        `json:"data,omitempty" doc:"the data after"`
	Stat    *show.NodeStat `json:"stat,omitempty"`
}

const (
	longestShown = 64 << 10
	mostShown    = 4 << 20
	mostChanges  = 1000
)

// past returns what looks at the past, for a caller that the server serves.
func (c *call) past() (Past, error) {
	s, err := c.server()
	if err != nil {
		return nil, err
	}
	var stat jute.Stat // as any other read, this one is limited, and proves who the caller is
	if zxid, err := c.send(jute.OpExists, &jute.PathWatchRequest{Path: c.path}, &stat); err == nil {
		c.zxid(zxid)
	} else if !errors.Is(err, jute.ErrNoNode) {
		return nil, err
	}
	return pastOf(s)
}

// pastOf returns what looks at the past of a server.
func pastOf(s Server) (Past, error) {
	if p := s.Past(); p != nil {
		return p, nil
	}
	return nil, refuse(http.StatusNotImplemented, "a standby shows no past, and has no archive: ask a server of the ensemble that it follows")
}

func (c *call) getPast() error {
	r, out, err := c.compare()
	if err != nil {
		return err
	}
	out.DryRun = true
	c.w.Header().Set("ETag", reversalTag(r, out))
	return c.answer(http.StatusOK, out)
}

func (c *call) restore() error {
	r, out, err := c.compare()
	if err != nil {
		return err
	}
	tag := reversalTag(r, out)
	seen := c.arg("If-Match")
	switch {
	case seen != "" && seen != tag:
		return refuse(http.StatusPreconditionFailed, "the differences are others than those that were seen: look again")
	case seen == "" && c.arg("dry-run") != "true" && !r.Existed:
		return refuse(http.StatusNotFound, "there was no %s at zxid %v: with If-Match, which says that the differences were seen, it is deleted", c.path, out.Zxid)
	}
	c.w.Header().Set("ETag", tag)
	if out.DryRun = c.arg("dry-run") == "true"; out.DryRun {
		return c.answer(http.StatusOK, out)
	}
	if accepted(c.r.Header.Get("Accept"), jsonType, linesType) == linesType {
		c.restoreInSight(r, out)
		return nil
	}
	report, err := r.Run(c.r.Context(), writes{c}, nil)
	if err == nil {
		return c.answer(http.StatusOK, out)
	}
	return c.stopped(&report, out, err)
}

// restoreInSight does a restore of which the caller sees each piece, and which it may cancel.
func (c *call) restoreInSight(r *treediff.Reversal, out *Restoration) {
	ctx, cancel := context.WithCancelCause(c.r.Context())
	defer cancel(nil)
	id := rand.Text()
	c.restores.Store(id, cancel)
	defer c.restores.Delete(id)
	c.w.Header().Set("Content-Type", linesType)
	c.begun = true
	lines := json.NewEncoder(c.w)
	say := func(s RestoreStep) { // a caller that is gone ends ctx
		_ = lines.Encode(&s)
		_ = http.NewResponseController(c.w).Flush()
	}
	say(RestoreStep{ID: id, All: len(r.Changes), Undo: out.Now})
	report, err := r.Run(ctx, writes{c}, func(p treediff.Progress) { say(RestoreStep{Done: p.Done, All: p.Total}) })
	last := RestoreStep{Done: report.Total - report.Left, All: report.Total, Undo: out.Now, Create: report.Created, Change: report.Changed, Delete: report.Deleted}
	if err != nil {
		last.Problem = c.stopped(&report, out, err)
	}
	say(last)
}

// cancelRestore ends a restore. Its id is known to its caller alone.
func (c *call) cancelRestore() error {
	cancel, ok := c.restores.Load(c.id)
	if !ok {
		return refuse(http.StatusNotFound, "no such restore is under way on this server")
	}
	p := refuse(http.StatusConflict, "it was cancelled")
	p.Name = "CANCELLED"
	cancel.(context.CancelCauseFunc)(p)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// stopped says how far a restore came that has failed.
func (c *call) stopped(report *treediff.Report, out *Restoration, err error) *Problem {
	next := treediff.Join(c.path, cmp.Or(report.Next, "/"))
	p := *asProblem(err, next)
	if raced, ok := errors.AsType[*treediff.RacedError](err); ok {
		p.Path, p.Status = raced.Path, http.StatusConflict
	}
	p.Detail = fmt.Sprintf("%d of %d nodes are done, the next is %s: %s", report.Total-report.Left, report.Total, next, err)
	if n := len(report.Unknown); n > 0 {
		p.Detail += fmt.Sprintf("; what became of %d nodes is not known", n)
	}
	p.Detail += ". The same request continues, and a restore to zxid " + out.Now + " undoes what is done"
	return &p
}

// compare finds out how the present state of the subtree comes back to a former one.
func (c *call) compare() (*treediff.Reversal, *Restoration, error) {
	ctx, cancel := context.WithTimeoutCause(c.r.Context(), pastLasts, refuse(http.StatusServiceUnavailable, "it takes longer than %v", pastLasts))
	defer cancel()
	f, err := c.former(ctx, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	var now jute.Zxid
	r, err := treediff.Revert(c.path, f.Nodes, c.present(ctx, &now), int(f.Room))
	switch {
	case errors.Is(err, treediff.ErrTooMuch):
		return nil, nil, refuse(http.StatusRequestEntityTooLarge, "%v: zkcli restore has more room, with a backup", err)
	case err != nil:
		return nil, nil, err
	case !r.Existed && len(r.Changes)+len(r.Kept)+len(r.Hidden) == 0:
		return nil, nil, refuse(http.StatusNotFound, "there is no %s, and there was none at zxid %v", c.path, f.Zxid)
	}
	c.zxid(now)
	return r, restorationOf(r, f, now), nil
}

// present yields the nodes of the subtree as they are at one zxid.
func (c *call) present(ctx context.Context, at *jute.Zxid) iter.Seq2[treediff.Node, error] {
	return func(yield func(treediff.Node, error) bool) {
		err := c.pages(ctx, jute.ShowACLs, func(page *jute.SubtreePageResponse) (done bool, err error) {
			*at = page.Zxid
			for i := range page.Nodes {
				p := &page.Nodes[i]
				if c.path == "/" && (p.Name == "/zookeeper" || treediff.Below(p.Name, "/zookeeper")) {
					continue
				}
				n := treediff.Node{Path: cmp.Or(p.Name, "/"), Data: p.Data, ACL: p.ACL, Stat: p.Stat, Hidden: p.Err == jute.ErrNoAuth}
				if p.Err == jute.ErrMarshalling { // it is too long for a page
					err = c.alone(&n)
				}
				if err != nil || !yield(n, nil) {
					return true, err
				}
			}
			return false, nil
		})
		if errors.Is(err, jute.ErrNoNode) {
			var stat jute.Stat
			*at, _ = c.send(jute.OpExists, &jute.PathWatchRequest{Path: "/"}, &stat) // or the writes say what is wrong
			return
		}
		if err != nil {
			yield(treediff.Node{}, err)
		}
	}
}

// alone reads the data of a node that a page has no room for.
func (c *call) alone(n *treediff.Node) error {
	path := treediff.Join(c.path, n.Path)
	var got jute.GetDataResponse
	_, err := c.send(jute.OpGetData, &jute.PathWatchRequest{Path: path}, &got)
	if err == nil && got.Stat.Mzxid != n.Stat.Mzxid {
		err = refuse(http.StatusConflict, "%s was changed while it was read", path)
	}
	n.Data = got.Data
	return err
}

// restorationOf returns how a reversal is shown.
func restorationOf(r *treediff.Reversal, f *Former, now jute.Zxid) *Restoration {
	n := r.Counts()
	out := &Restoration{Path: r.Root, Zxid: f.Zxid.String(), Time: timeText(f.Time), From: f.From, Now: now.String(), Create: n.Created, Change: n.Changed, Delete: n.Deleted,
		Changes: []NodeReversal{}, LeftOut: paths(r.Root, r.LeftOut), Kept: paths(r.Root, r.Kept), Hidden: len(r.Hidden)}
	shown := 0
	node := func(n *treediff.Node) *NodeFormer {
		if n == nil {
			return nil
		}
		out := &NodeFormer{ACL: shownACL(f.Shown(n.ACL)), Stat: show.StatOf(&n.Stat)}
		if shown += len(n.Data); len(n.Data) <= longestShown && shown <= mostShown {
			out.Data = &n.Data
		}
		return out
	}
	for i := range r.Changes[:min(len(r.Changes), mostChanges)] {
		d := &r.Changes[i]
		op := "change"
		if d.A == nil {
			op = "delete"
		} else if d.B == nil {
			op = "create"
		}
		out.Changes = append(out.Changes, NodeReversal{op, treediff.Join(r.Root, d.Path), d.Data, d.ACL, node(d.A), node(d.B)})
	}
	return out
}

func paths(root string, nodes []treediff.Node) []string {
	list := []string{}
	for i := range nodes[:min(len(nodes), mostChanges)] {
		list = append(list, treediff.Join(root, nodes[i].Path))
	}
	return list
}

// reversalTag names the differences: what was there, what is there, and what stays.
func reversalTag(r *treediff.Reversal, out *Restoration) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %s %d %d\n", r.Root, out.Zxid, len(r.LeftOut), len(r.Kept))
	for i := range r.Changes {
		d := &r.Changes[i]
		fmt.Fprintf(h, "%q %v %v\n", d.Path, d.Data, d.ACL)
		if d.A != nil {
			fmt.Fprintf(h, "%q %q\n", d.A.Data, d.A.ACL)
		}
		if d.B != nil {
			s := &d.B.Stat
			fmt.Fprintf(h, "%v %v %d %d\n", s.Czxid, s.Mzxid, s.Version, s.Aversion)
		}
	}
	return fmt.Sprintf(`"%x"`, h.Sum(nil)[:16])
}

// writes is where a Reversal writes: the caller's connection, as all its writes. It implements treediff.Target.
type writes struct{ *call }

// Ensure implements treediff.Target: what is above the subtree is another one's.
func (w writes) Ensure(_ context.Context, path string) error {
	var stat jute.Stat
	_, err := w.send(jute.OpExists, &jute.PathWatchRequest{Path: path}, &stat)
	if errors.Is(err, jute.ErrNoNode) {
		return refuse(http.StatusNotFound, "there is no %s: restore that", path)
	}
	return err
}

func (w writes) Grace(ctx context.Context) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

func (w writes) Multi(_ context.Context, ops []jute.MultiOp) (failed string, err error) {
	r, err := w.last([]request{{jute.OpMulti, &jute.MultiRequest{Ops: ops}}})
	if err != nil {
		return "", err
	}
	var got jute.MultiResponse
	if len(r.body) > 0 {
		if err := r.decode(&got); err != nil {
			return "", err
		}
	}
	for i, result := range got.Results {
		if result.Type == jute.OpError && result.Err != 0 && result.Err != jute.ErrRuntimeInconsistency && i < len(ops) {
			return ops[i].Path, result.Err
		}
	}
	if r.Err != 0 {
		return "", r.Err
	}
	w.zxid(r.Zxid)
	return "", nil
}

func (w writes) SetACL(_ context.Context, path string, acl []jute.ACL, aversion int32) error {
	var stat jute.Stat
	zxid, err := w.send(jute.OpSetACL, &jute.SetACLRequest{Path: path, ACL: acl, Version: aversion}, &stat)
	if err == nil {
		w.zxid(zxid)
	}
	return err
}

func (w writes) Ambiguous(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, jute.ErrConnectionLoss) || errors.Is(err, jute.ErrOperationTimeout) || errors.Is(err, context.Canceled)
}

func (c *call) history() error {
	past, err := c.past()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(c.r.Context(), pastLasts, refuse(http.StatusServiceUnavailable, "it takes longer than %v", pastLasts))
	defer cancel()
	out, err := past.Changes(ctx, c.caller, c.path, c.arg("below") == "true", jute.Zxid(c.hex("before")), cmp.Or(int(c.number("limit")), 500))
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, out)
}

// ShownData is data as answers show it, nil if it is too long.
func ShownData(data []byte, there bool) *[]byte {
	if !there || len(data) > longestShown {
		return nil
	}
	return &data
}

// Backup is a backup in an archive.
type Backup struct {
	Name     string `json:"name"`
	Time     string `json:"time" doc:"when it was fetched"`
	Zxid     string `json:"zxid"`
	Bytes    int64  `json:"bytes"`
	Reaches  string `json:"reaches" doc:"the zxid up to which the archive has what follows it"`
	Ours     bool   `json:"ours" doc:"it is of the history of this ensemble"`
	Verified string `json:"verified,omitempty" doc:"when this server has read it and what follows it last"`
	Problem  string `json:"problem,omitempty" doc:"why it is not sound"`
}

// BackupList is what an archive has.
type BackupList struct {
	Archive string   `json:"archive" doc:"the directory, empty for none: zkd.archive"`
	Backups []Backup `json:"backups" doc:"the newest first"`
	Since   string   `json:"since,omitempty" doc:"the zxid to which this server can look back, with its log and the archive"`
	Now     string   `json:"now" doc:"the zxid at which this server is"`
}

// backupOperations returns the endpoints about the archive.
func backupOperations() []endpoint {
	return []endpoint{
		{method: http.MethodGet, path: "/v1/backups", doc: "The backups in the archive of this server, and how far they reach.", serve: (*call).backups,
			answers: []answer{{status: 200, doc: "Backups.", content: inJSON[BackupList]()}}},
		{method: http.MethodPost, path: "/v1/backups", doc: "Add a backup of the present state to the archive.", serve: (*call).backUp,
			answers: []answer{{status: 201, doc: "The backup.", content: inJSON[Backup]()}}, refuses: []int{404}},
		{method: http.MethodPost, path: "/v1/backups/{name}/verify", doc: "Read a backup and what follows it, and compare all checksums.", serve: (*call).verifyBackup,
			answers: []answer{{status: 200, doc: "The backup; problem says what is wrong.", content: inJSON[Backup]()}}, refuses: []int{404}},
	}
}

// archive returns what looks at the past, for callers who may operate the server.
func (c *call) archive() (Past, error) {
	if err := c.mayOperate(); err != nil {
		return nil, err
	}
	return pastOf(c.Server())
}

func (c *call) backups() error {
	past, err := c.archive()
	if err != nil {
		return err
	}
	list, err := past.Backups(c.r.Context())
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, list)
}

func (c *call) backUp() error {
	past, err := c.archive()
	if err != nil {
		return err
	}
	b, err := past.BackUp(c.r.Context())
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, b)
}

func (c *call) verifyBackup() error {
	past, err := c.archive()
	if err != nil {
		return err
	}
	if strings.ContainsAny(c.id, `/\`) {
		return refuse(http.StatusNotFound, "there is no backup %q", c.id)
	}
	b, err := past.Verify(c.r.Context(), c.id)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, b)
}

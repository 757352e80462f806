package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/past"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/wal"
)

// Past is what a server keeps for those who look at its past.
type Past struct {
	past.Past
	verified sync.Map // by the names of backups: api.Backup
}

// Past implements api.Server.
func (f *Server) Past() api.Past { return &pastOf{f, f.Former} }

// pastOf implements api.Past.
type pastOf struct {
	*Server
	past *Past
}

// problem returns the problem that an error of package past is.
func problem(err error) error {
	status, oldest := 0, ""
	if e, unknown := errors.AsType[*past.UnknownError](err); unknown {
		if status = http.StatusGone; e.Oldest != 0 {
			oldest = e.Oldest.String()
		}
	} else if _, large := errors.AsType[*history.TooLargeError](err); large {
		status = http.StatusRequestEntityTooLarge
	} else if errors.Is(err, past.ErrBusy) {
		status = http.StatusTooManyRequests
	} else if errors.Is(err, past.ErrShort) || vfs.IsShortage(err) {
		status = http.StatusServiceUnavailable
	}
	if status == 0 {
		return err
	}
	return &api.Problem{Title: http.StatusText(status), Status: status, Detail: err.Error(), Oldest: oldest}
}

// visitor returns a caller of the API as a visitor of the pages.
func (p *pastOf) visitor(ctx context.Context, c *api.Caller) (*visitor, error) {
	creds, err := p.Clients.Proofs().Prove(ctx, p.shows(c))
	if err != nil {
		return nil, whyNot(ctx, err)
	}
	v := &visitor{creds: creds, schemes: p.Schemes, clients: p.Clients}
	if !v.admitted() {
		return nil, api.ErrUnauthorized
	}
	return v, nil
}

// reader returns the visitor as package past knows it.
func (v *visitor) reader(st *state.State) *past.Reader {
	return &past.Reader{State: st, Allowed: func(acl []jute.ACL, perm jute.Perms) bool {
		if perm == jute.PermRead {
			return v.mayRead(acl)
		}
		return v.schemes.Allowed(acl, perm, v.ids())
	}}
}

func (p *pastOf) Former(ctx context.Context, c *api.Caller, path string, at api.Moment, levels int) (*api.Former, error) {
	v, err := p.visitor(ctx, c)
	if err != nil {
		return nil, err
	}
	end, err := p.past.Begin()
	if err != nil {
		return nil, problem(err)
	}
	f, from, err := p.past.At(ctx, history.Part{Root: path, Levels: levels}, history.Moment{Zxid: at.Zxid, Time: at.Time})
	if err != nil {
		end()
		return nil, problem(err)
	}
	last := f.Last
	if last.UnixMilli() == 0 {
		last = time.Time{}
	}
	r := v.reader(p.State)
	return &api.Former{Zxid: f.At, Time: last, From: from, Room: p.past.Room(), Nodes: r.Nodes(f), Visible: shownOwners(r.Visible(f)), Close: end, Shown: r.Shown}, nil
}

// shownOwners yields nodes whose Stats are shown as clients see them: without what makes a node a container, or gives it a TTL.
func shownOwners(nodes iter.Seq2[treediff.Node, error]) iter.Seq2[treediff.Node, error] {
	return func(yield func(treediff.Node, error) bool) {
		for n, err := range nodes {
			n.Stat.EphemeralOwner = jute.Owner(n.Stat.EphemeralOwner).Session()
			if !yield(n, err) {
				return
			}
		}
	}
}

// kinds are those of feeds by the words of histories.
var kinds = map[string]string{"create": "created", "set": "data", "setACL": "acl", "delete": "deleted", "expire": "deleted"}

func (p *pastOf) Changes(ctx context.Context, c *api.Caller, path string, below bool, before jute.Zxid, most int) (*api.History, error) {
	v, err := p.visitor(ctx, c)
	if err != nil {
		return nil, err
	}
	end, err := p.past.Begin()
	if err != nil {
		return nil, problem(err)
	}
	defer end()
	found, err := p.past.Changes(ctx, path, below, before, most, v.reader(p.State).Sees)
	if err != nil {
		return nil, problem(err)
	}
	out := &api.History{Path: path, Changes: []api.PastChange{}, After: found.After.String(), More: found.More}
	if found.More {
		out.Next = (found.After + 1).String()
	}
	for _, s := range found.List {
		c := api.PastChange{Zxid: s.Zxid.String(), Time: s.Time.UTC().Format(time.RFC3339Nano), Session: s.Session.String(), Kind: kinds[s.Op], Path: s.Path,
			Before: api.ShownData(s.Before, s.Existed && s.Op != "setACL"), Data: api.ShownData(s.After, kinds[s.Op] == "created" || kinds[s.Op] == "data")}
		if kinds[s.Op] != "deleted" {
			c.Stat = show.StatOf(&s.Stat)
		}
		out.Changes = append(out.Changes, c)
	}
	return out, nil
}

// errNoArchive means that the server knows no archive.
func errNoArchive() error {
	return &api.Problem{Title: http.StatusText(http.StatusNotFound), Status: http.StatusNotFound, Detail: "this server knows no archive: set zkd.archive to a directory"}
}

func (p *pastOf) Backups(ctx context.Context) (*api.BackupList, error) {
	out := &api.BackupList{Archive: p.past.Archive, Backups: []api.Backup{}, Now: p.State.Applied().String()}
	if since, ok := p.past.Since(ctx); ok {
		out.Since = since.String()
	}
	if p.past.Archive == "" {
		return out, nil
	}
	a, err := p.past.List(ctx)
	if err != nil {
		return nil, problem(err)
	}
	for i := range slices.Backward(a.Bases) {
		out.Backups = append(out.Backups, p.backup(a, &a.Bases[i]))
	}
	return out, nil
}

// backup returns how a base is shown.
func (p *pastOf) backup(a *archive.Archive, b *archive.Base) api.Backup {
	out := api.Backup{Name: b.Name, Time: b.Time.UTC().Format(time.RFC3339), Zxid: b.Zxid.String(), Bytes: b.Bytes, Reaches: b.Zxid.String()}
	if id := p.HistoryID(); b.History == id.String() {
		out.Ours, out.Reaches = true, archive.End(b.Zxid, a.Chain(id, b.Zxid)).String()
	}
	if v, ok := p.past.verified.Load(b.Name); ok {
		last := v.(api.Backup)
		out.Verified, out.Problem = last.Verified, last.Problem
	}
	return out
}

func (p *pastOf) BackUp(ctx context.Context) (*api.Backup, error) {
	if p.past.Archive == "" {
		return nil, errNoArchive()
	}
	end, err := p.past.Begin()
	if err != nil {
		return nil, problem(err)
	}
	defer end()
	if err := p.roomForBackup(); err != nil {
		return nil, problem(err)
	}
	to := archive.Dir(p.past.Archive)
	file, b, err := archive.NewBase(ctx, to, true, time.Now(), func(w io.Writer) (jute.Zxid, error) {
		s, err := p.TakeSnapshot(ctx)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(w, s)
		return jute.Zxid(s.Zxid), errors.Join(err, s.Close())
	})
	if err != nil {
		return nil, problem(err)
	}
	b.Name = b.FileName()
	if err := to.Put(ctx, file, b.Name); err != nil {
		return nil, problem(err)
	}
	p.past.verified.Store(b.Name, api.Backup{Verified: now()}) // before it was compressed
	a, err := p.past.List(ctx)
	if err != nil {
		return nil, problem(err)
	}
	out := p.backup(a, b)
	return &out, nil
}

// roomForBackup returns an error if another backup, which is there whole while it is compressed, could take room that the log
// needs. What can't be found out is no reason.
func (p *pastOf) roomForBackup() error {
	own, err := p.past.Store.List()
	if err != nil {
		return err
	}
	var size int64
	for _, info := range own {
		size = max(size, info.Size)
	}
	to, errTo := p.FS.Space(p.past.Archive)
	log, errLog := p.FS.Space(p.Config.DataLogDir)
	if errTo != nil || errLog != nil || to.Device != log.Device {
		return nil
	}
	return fitsBeside(log, 2*size, wal.StopFree(log, p.Config.WALSegmentSize, size))
}

// fitsBeside returns an error if so many bytes do not fit on the log's disk beside what must stay free.
func fitsBeside(log vfs.Space, bytes, free int64) error {
	if log.Free >= bytes+free {
		return nil
	}
	return fmt.Errorf("the archive is on the disk of the log, where %d bytes are free; a backup takes up to %d, and %d must stay free: %w", log.Free, bytes, free, syscall.ENOSPC)
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

func (p *pastOf) Verify(ctx context.Context, name string) (*api.Backup, error) {
	if p.past.Archive == "" {
		return nil, errNoArchive()
	}
	a, err := p.past.List(ctx)
	if err != nil {
		return nil, problem(err)
	}
	i := slices.IndexFunc(a.Bases, func(b archive.Base) bool { return b.Name == name })
	if i < 0 {
		return nil, &api.Problem{Title: http.StatusText(http.StatusNotFound), Status: http.StatusNotFound, Detail: "there is no such backup"}
	}
	end, err := p.past.Begin()
	if err != nil {
		return nil, problem(err)
	}
	defer end()
	b := &a.Bases[i]
	bad := a.VerifyBase(ctx, b)
	if b.History == p.HistoryID().String() {
		for _, s := range a.Chain(p.HistoryID(), b.Zxid) {
			bad = cmp.Or(bad, a.VerifySegment(ctx, &s))
		}
	}
	if err := cmp.Or(context.Cause(ctx), unverified(bad)); err != nil {
		return nil, err
	}
	last := api.Backup{Verified: now()}
	if bad != nil {
		last.Problem = bad.Error()
	}
	p.past.verified.Store(name, last)
	out := p.backup(a, b)
	return &out, nil
}

// unverified returns why a backup could not be read, if that says nothing of the backup: this server lacks something now.
func unverified(bad error) error {
	if vfs.IsShortage(bad) {
		return problem(bad)
	}
	return nil
}

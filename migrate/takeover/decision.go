package takeover

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/migrate/apachelink"
	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/datatree"
)

// Decide decides how mirrors become an ensemble, on the machine of one of them. It writes the
// decision into a file, by which Finish carries it out on each machine.
type Decide struct {
	// From are the data directories of a majority of Apache's voters, and LogDirs their
	// dataLogDirs, in the same order; none if they are the same.
	From, LogDirs []string
	// Single accepts fewer than a majority, which may lack what the others have confirmed.
	Single bool
	// Dir is the directory of the mirror of this machine, and LogDir that of its log.
	Dir, LogDir string
	// Others are the other members, as their Status names them.
	Others []string
	// File is written. It has the secret of the ensemble.
	File   string
	Logger *zap.Logger

	dial func(context.Context, string) error // as Finish's
}

// decision is the content of the file.
type decision struct {
	Format int // 2
	mirror.Founding
	Digest string // of the tree with the marker
	Apache source // which has ended
	// Tail are transactions before the marker, for mirrors that lack some.
	Tail []tailTxn
}

type tailTxn struct {
	Txn    []byte
	Digest *uint64 `json:",omitempty"`
}

const decisionFormat = 2

// parseMembers returns members, and the least and the greatest zxid of their mirrors.
func parseMembers(texts []string) (founders []mirror.Founder, least, most jute.Zxid, err error) {
	for i, text := range texts {
		m, err := copies.ParseMember(text)
		if err != nil {
			return nil, 0, 0, err
		}
		if founders = append(founders, m.Admission); i == 0 || m.Last < least {
			least = m.Last
		}
		most = max(most, m.Last)
	}
	if len(founders) < 2 {
		return nil, 0, 0, fmt.Errorf("%d other members: an ensemble needs three members or more", len(founders))
	}
	return founders, least, most, nil
}

// Run decides. The mirror stays one.
func (d *Decide) Run(ctx context.Context) (r *Result, err error) {
	founders, least, most, err := parseMembers(d.Others)
	if err != nil {
		return nil, err
	}
	all := &Finish{From: d.From, LogDirs: d.LogDirs, Single: d.Single, Dirs: []string{d.Dir}, Logger: d.Logger, dial: d.dial}
	if d.LogDir != "" {
		all.ToLogs = []string{d.LogDir}
	}
	mirrors, err := all.open(ctx)
	defer closeAll(mirrors, &err)
	if err != nil {
		return nil, err
	}
	m := mirrors[0]
	if m.Founding() != nil {
		return nil, fmt.Errorf("%s is the data of a member already: its decision stands", d.Dir)
	}
	best, reason, apache, err := all.choose(mirrors)
	if err != nil {
		return nil, err
	}
	if _, err := all.checkEnded(ctx, apache, mirrors); err != nil {
		return nil, err
	}
	if most > best.Last() {
		return nil, moreThanDisks("one of the members", most, best)
	}
	n, err := all.catchUp(m, best)
	if err != nil {
		return nil, err
	}
	out := &decision{Format: decisionFormat}
	err = best.Tail(min(least, m.Last()), func(x *apachefiles.Txn) error {
		out.Tail = append(out.Tail, tailTxn{x.Txn.Append(nil), x.Digest})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the mirror that has least ends at %v: %w", least, err)
	}
	f, err := m.NewFounding(append(founders, m.Founder()), best.Epoch())
	if err != nil {
		return nil, err
	}
	digest, err := m.ExpectedDigest(f)
	if err != nil {
		return nil, err
	}
	out.Founding, out.Digest, out.Apache = *f, digest.String(), *apache
	if _, err := all.checkEnded(ctx, apache, mirrors); err != nil {
		return nil, err
	}
	if err := out.write(d.File); err != nil {
		return nil, err
	}
	r = resultOf(m, out.Digest)
	r.Chosen, r.Last, r.Members, r.Tail = reason, best.Last().String(), []uint8{uint8(m.ID())}, []int{n}
	return r, nil
}

// write writes the decision durably into a new file, or nothing.
func (d *decision) write(name string) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("write the decision: %s: %w: carry it out, or remove it if it is of an earlier attempt", name, fs.ErrExist)
	}
	return vfs.Replace(vfs.OS{}, name, b, "")
}

func readDecision(name string) (*decision, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	d := &decision{}
	if err := json.Unmarshal(b, d); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if d.Format != decisionFormat || d.Zxid == 0 || len(d.Apache.Ports) == 0 {
		return nil, fmt.Errorf("%s is no decision of zkd takeover decide, or one of another version of zkd: remove it, and decide again", name)
	}
	return d, nil
}

// prepare makes a mirror equal to the decision, and returns how many transactions it took from there.
func (d *decision) prepare(m *mirror.Mirror) (n int, err error) {
	if m.Founding() == nil {
		if n, err = d.catchUp(m); err != nil {
			return n, err
		}
	}
	digest, err := m.ExpectedDigest(&d.Founding)
	if err == nil && digest.String() != d.Digest {
		err = fmt.Errorf("the copy of server %d is not equal to that of the decision: its digest at %v is %v, not %s", m.ID(), d.Zxid, digest, d.Digest)
	}
	return n, err
}

// catchUp gives a mirror what it lacks up to the decision.
func (d *decision) catchUp(m *mirror.Mirror) (n int, err error) {
	c := apachelink.NewCopy(m.Tree())
	for _, t := range d.Tail {
		txn, err := datatree.DecodeTxn(t.Txn)
		if err != nil {
			return n, err
		}
		if txn.Zxid <= m.Last() {
			continue
		}
		if err := appendTo(m, c, &apachefiles.Txn{Txn: txn, Digest: t.Digest}); err != nil {
			return n, err
		}
		n++
	}
	return n, m.Sync()
}

package apachefiles

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Options are what an operator may accept.
type Options struct {
	// Until ends the history after this zxid; 0 means at its end.
	Until jute.Zxid
	// TrustEmpty accepts logs without a snapshot. Servers of 3.4 did not write one at their
	// first start.
	TrustEmpty bool
	// IgnoreDigest accepts a tree that differs from the digests in the log.
	IgnoreDigest bool
	// TTL353 takes owners that are no session for the times to live that servers of 3.5.3 wrote, and
	// later ones with emulate353TTLNodes.
	TTL353 bool
}

// Load returns the state of a server after the last transaction of its log, and what was read
// and found. All transactions in the log count: whether the last ones were committed is decided
// by the next election, which this server wins.
func (s *Server) Load(o Options) (*Tree, *Summary, error) {
	sum := &Summary{DataDir: s.DataDir, LogDir: s.LogDir, Epoch: s.epoch}
	tree, err := s.load(o, sum)
	if err == nil {
		err = s.unchanged()
	}
	if err != nil {
		return nil, sum, err
	}
	return tree, sum, nil
}

func (s *Server) load(o Options, sum *Summary) (*Tree, error) {
	var failed error
	for _, f := range s.snapshots {
		if o.Until != 0 && f.zxid > o.Until {
			continue
		}
		snap, err := f.readSnapshot()
		if err == nil {
			err = s.replay(snap, &f, o, sum)
		}
		if err == nil && snap.tree.Last < s.last && o.Until == 0 {
			return nil, errors.Join(failed, fmt.Errorf("without that snapshot the history ends at zxid %v: a part of it is lost. Leave %s out, if other servers are a majority; --until %v accepts what is left",
				snap.tree.Last, s.DataDir, snap.tree.Last))
		}
		if err == nil {
			sum.Snapshot, sum.Version = f.path, snap.version
			sum.SnapshotZxid = f.zxid
			return snap.tree, nil
		}
		failed = errors.Join(failed, err)
		sum.warn("can't use a snapshot: %v", err)
	}
	switch {
	case failed != nil:
		return nil, failed
	case !o.TrustEmpty:
		return nil, errors.New("there is no snapshot; if the logs begin with the first transaction of a server of 3.4, --trust-empty accepts them")
	}
	snap := &snapshot{tree: freshTree(), version: "3.4"}
	sum.Version = snap.version
	return snap.tree, s.replay(snap, nil, o, sum)
}

func (f *file) readSnapshot() (*snapshot, error) {
	in, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return readSnapshot(in, f.path, f.zxid)
}

// replay applies the logs to a snapshot, and completes the tree.
func (s *Server) replay(snap *snapshot, from *file, o Options, sum *Summary) error {
	r := replay{tree: snap.tree, snap: snap, o: o, base: snap.tree.Last, last: snap.tree.Last}
	r.apply = func(x *Txn) error {
		r.tree.apply(x)
		return r.compare(x)
	}
	*sum = Summary{DataDir: sum.DataDir, LogDir: sum.LogDir, Epoch: sum.Epoch, Warnings: sum.Warnings}
	r.sum = sum
	if err := r.logs(s.logs); err != nil {
		return err
	}
	t := snap.tree
	if t.Last < snap.newest {
		return fmt.Errorf("the log ends at zxid %v, but the snapshot has changes up to %v: a part of the log is missing", t.Last, snap.newest)
	}
	if t.Last == snap.digestZxid && t.Last == snap.newest {
		if err := r.compareDigest(snap.digest); err != nil {
			return err
		}
	}
	if from == nil && sum.Records == 0 {
		return errors.New("there are no transactions")
	}
	sum.Zxid = t.Last
	if r.o.TTL353 {
		t.convertTTL353()
	}
	return t.finish(sum)
}

// Tail calls fn with the transactions of the log after the zxid after. All of them count, as for
// Load. It returns an error if the first one does not follow after, or if they end before the
// last one of the server.
func (s *Server) Tail(after jute.Zxid, fn func(*Txn) error) error {
	r := replay{base: after, last: after, sum: &Summary{}, apply: fn}
	if err := r.logs(s.logs); err != nil {
		return err
	}
	if r.last != s.last {
		return fmt.Errorf("the log in %s ends at %v, and the server has %v", s.LogDir, r.last, s.last)
	}
	return s.unchanged()
}

// replay reads logs.
type replay struct {
	tree  *Tree
	snap  *snapshot
	apply func(*Txn) error // with each transaction after base
	o     Options
	sum   *Summary
	base  jute.Zxid // the snapshot's
	last  jute.Zxid // of the records that were read, or base
	seen  []epoch   // records that were read, by epoch
	torn  *tornFile // where the records of a file have ended, until others continue them
}

// epoch has the checksums of the records of an epoch, whose counters are consecutive.
type epoch struct {
	first jute.Zxid
	sums  []uint32
}

// logs applies all logs that can have transactions after the snapshot.
func (r *replay) logs(logs []file) error {
	first := 0
	for i, f := range logs {
		if f.zxid <= r.base {
			first = i
		}
	}
	for _, f := range logs[min(first, len(logs)):] {
		before := r.sum.Records + r.sum.Repeated
		err := f.records(r.record)
		if end, ok := errors.AsType[*endError](err); ok {
			r.torn, err = &tornFile{f, end}, nil
		}
		if r.sum.Records+r.sum.Repeated > before {
			r.sum.Logs = append(r.sum.Logs, f.path)
		}
		if errors.Is(err, errUntil) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if r.torn == nil {
		return nil
	}
	r.sum.TornEnd = fmt.Sprintf("%s: %v", r.torn.path, r.torn.end)
	return r.torn.check(r.last)
}

var errUntil = errors.New("the wanted end of the history")

// tornFile is a log whose records end before the file does. That is harmless if the next file
// continues them, or if nothing follows: then a crash has interrupted the last write.
type tornFile struct {
	file
	end *endError
}

// check returns an error if sound records, after the zxid last, follow the end.
func (f *tornFile) check(last jute.Zxid) error {
	if f.size-f.end.offset > searchLimit {
		return fmt.Errorf("%s: %w, and too much follows it", f.path, f.end)
	}
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	b := make([]byte, f.size-f.end.offset)
	if _, err := in.ReadAt(b, f.end.offset); err != nil {
		return err
	}
	if at, found := findRecord(b, last); found {
		return fmt.Errorf("%s: %w, but a sound transaction follows at byte %d: the file is damaged, and --until %v is what can be had of it",
			f.path, f.end, f.end.offset+int64(at), last)
	}
	return nil
}

// record applies the next record, unless the snapshot has it or it is a repetition.
func (r *replay) record(rec record) error {
	x, err := DecodeTxn(rec.payload)
	if err != nil {
		return &endError{rec.offset, err.Error()}
	}
	sum := crc32.ChecksumIEEE(rec.payload)
	if known, ok := r.find(x.Zxid); ok {
		if known != sum {
			return fmt.Errorf("at byte %d: zxid %v comes twice, with different transactions", rec.offset, x.Zxid)
		}
		r.sum.Repeated++
		return nil
	}
	if x.Zxid <= r.base {
		r.sum.Skipped++ // the snapshot has it
		return nil
	}
	if err := r.follows(x.Zxid); err != nil {
		return fmt.Errorf("at byte %d: %w", rec.offset, err)
	}
	if r.o.Until != 0 && x.Zxid > r.o.Until {
		return errUntil
	}
	r.remember(x.Zxid, sum)
	r.sum.Records++
	return r.apply(x)
}

// follows returns an error if a transaction can't be the next one: one is missing between the
// last one and it.
func (r *replay) follows(z jute.Zxid) error {
	last := r.last
	if z == last+1 || z.Epoch() > last.Epoch() && z.Counter() == 1 {
		return nil
	}
	return fmt.Errorf("zxid %v follows %v: a part of the log is missing between them", z, last)
}

// remember notes a record, so that a repetition of it is recognized.
func (r *replay) remember(z jute.Zxid, sum uint32) {
	if n := len(r.seen); n == 0 || z != r.last+1 || z.Counter() == 1 {
		r.seen = append(r.seen, epoch{first: z})
	}
	e := &r.seen[len(r.seen)-1]
	e.sums = append(e.sums, sum)
	r.last, r.torn = z, nil
}

// find returns the checksum of a record that was read before.
func (r *replay) find(z jute.Zxid) (sum uint32, ok bool) {
	for _, e := range slices.Backward(r.seen) {
		if i := int64(z - e.first); i >= 0 && i < int64(len(e.sums)) {
			return e.sums[i], true
		}
	}
	return 0, false
}

// compare compares the tree with the digest in a transaction, if the tree is exact.
func (r *replay) compare(x *Txn) error {
	if x.Digest == nil || x.Zxid <= r.snap.exact {
		return nil
	}
	return r.compareDigest(*x.Digest)
}

func (r *replay) compareDigest(want uint64) error {
	if got := r.tree.digest; got != want {
		if !r.o.IgnoreDigest {
			return fmt.Errorf("after zxid %v the digest of the tree is %x, and Apache's server had %x: the files are damaged, or that server had another tree than the others; --ignore-digest accepts the tree",
				r.tree.Last, got, want)
		}
		r.sum.DigestsIgnored++
		return nil
	}
	r.sum.Digests++
	r.sum.Proven = r.tree.Last
	return nil
}

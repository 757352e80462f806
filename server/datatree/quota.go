package datatree

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

// Limits are the limits of a quota; -1 means none.
type Limits struct {
	Count, Bytes         int64 // soft: exceeding one is logged
	CountHard, BytesHard int64 // hard: exceeding one may be refused
}

// Usage counts a subtree: its znodes, including the top one, and the bytes of their data.
type Usage struct{ Count, Bytes int64 }

// Quota is the quota that applies to a path.
type Quota struct {
	Path   string // top of the subtree that the quota is for
	Limits Limits
	Usage  Usage
}

// quota is kept for each path P that has a node zookeeper_limits or zookeeper_stats in
// /zookeeper/quota + P. It is active while it has limits. The usage is stored as the text
// of the stats node, as in ZooKeeper, so it is part of snapshots and of the digest like
// any data.
type quota struct {
	path      string
	statsPath string
	limitsID  nodeID // 0: not active
	statsID   nodeID // 0: usage is not kept
	limits    Limits
}

// The names of the nodes of a quota, which are below QuotaPath and the path that it is for.
const (
	LimitsName = "zookeeper_limits"
	StatsName  = "zookeeper_stats"
	ratesName  = "zkd_limits"
)

var noLimits = Limits{-1, -1, -1, -1}

var errQuotaText = errors.New("malformed quota")

// parseLimits parses "count=5,bytes=100=;byteHardLimit=20;countHardLimit=4". An absent
// key or value is -1. The second "=" after bytes makes older ZooKeeper readers ignore the
// hard limits.
func parseLimits(text string) (Limits, error) {
	l := noLimits
	separator := func(r rune) bool { return r == ',' || r == ';' }
	for pair := range strings.FieldsFuncSeq(text, separator) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return noLimits, fmt.Errorf("parse %q: %w", pair, errQuotaText)
		}
		value = strings.TrimRight(value, "=")
		if value == "" {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return noLimits, fmt.Errorf("parse %q: %w", pair, errQuotaText)
		}
		switch key {
		case "count":
			l.Count = n
		case "bytes":
			l.Bytes = n
		case "countHardLimit":
			l.CountHard = n
		case "byteHardLimit":
			l.BytesHard = n
		}
	}
	return l, nil
}

// appendLimits is the inverse of parseLimits. It writes hard limits only if there are
// any.
func appendLimits(b []byte, l Limits) []byte {
	b = strconv.AppendInt(append(b, "count="...), l.Count, 10)
	b = strconv.AppendInt(append(b, ",bytes="...), l.Bytes, 10)
	if l.BytesHard == -1 && l.CountHard == -1 {
		return b
	}
	b = append(b, '=')
	if l.BytesHard != -1 {
		b = strconv.AppendInt(append(b, ";byteHardLimit="...), l.BytesHard, 10)
	}
	if l.CountHard != -1 {
		b = strconv.AppendInt(append(b, ";countHardLimit="...), l.CountHard, 10)
	}
	return b
}

// quotaTarget reports whether path is a limits, stats or rates node, and of which path.
// There is no quota on the root.
func quotaTarget(path string) (target, name string, ok bool) {
	dir, name := split(path)
	if !strings.HasPrefix(dir, QuotaPath+"/") || name != LimitsName && name != StatsName && name != ratesName {
		return "", "", false
	}
	return dir[len(QuotaPath):], name, true
}

// quotaCreated registers a new limits or stats node. A stats node gets the current usage.
func (t *Tree) quotaCreated(path string, id nodeID) {
	target, name, ok := quotaTarget(path)
	if !ok {
		return
	}
	q := t.noteQuota(target, name, id)
	if name == StatsName {
		t.writeUsage(q, noLimits, t.usage(q.path))
	}
}

// noteQuota registers the limits, stats or rates node id of target. It returns nil for the
// latter.
func (t *Tree) noteQuota(target, name string, id nodeID) *quota {
	if name == ratesName {
		t.rates[strings.Clone(target)] = id
		t.ratesVersion++
		return nil
	}
	q := t.quotas[target]
	if q == nil {
		target = strings.Clone(target)
		q = &quota{path: target, statsPath: QuotaPath + target + "/" + StatsName}
		t.quotas[target] = q
	}
	if name == StatsName {
		q.statsID = id
	} else {
		q.limitsID = id
		t.readLimits(q)
	}
	return q
}

// quotaChanged applies new limits.
func (t *Tree) quotaChanged(path string) {
	target, name, ok := quotaTarget(path)
	switch {
	case ok && name == LimitsName:
		t.readLimits(t.quotas[target])
	case ok && name == ratesName:
		t.ratesVersion++
	}
}

// readLimits parses the limits; text that can't be parsed means no limit.
func (t *Tree) readLimits(q *quota) {
	q.limits, _ = parseLimits(string(t.arena.data(q.limitsID)))
}

func (t *Tree) quotaDeleted(path string) {
	target, name, ok := quotaTarget(path)
	if !ok {
		return
	}
	if name == ratesName {
		delete(t.rates, target)
		t.ratesVersion++
		return
	}
	q := t.quotas[target]
	if name == StatsName {
		q.statsID = 0
	} else {
		q.limitsID = 0
	}
	if q.limitsID == 0 && q.statsID == 0 {
		delete(t.quotas, target)
	}
}

// deepest returns the active quota of path or of its nearest ancestor that has one, or nil. It goes
// down from /zookeeper/quota, as far as there are quotas.
func (t *Tree) deepest(path string) *quota {
	if len(t.quotas) == 0 {
		return nil
	}
	at, deepest := t.find(QuotaPath), 0
	for end := 0; end < len(path); {
		start := end + 1
		end = len(path)
		if i := strings.IndexByte(path[start:], '/'); i >= 0 {
			end = start + i
		}
		if at = t.index.find(&t.arena, at, path[start:end]); at == 0 {
			break
		}
		if t.index.find(&t.arena, at, LimitsName) != 0 {
			deepest = end
		}
	}
	return t.quotas[path[:deepest]]
}

// charge adds to the usage of the quota that applies to path. Its stats node changes in
// place: no version, no zxid, no event.
func (t *Tree) charge(path string, count, bytes int64) {
	q := t.deepest(path)
	if q == nil || q.statsID == 0 || count == 0 && bytes == 0 {
		return
	}
	stats, err := parseLimits(string(t.arena.data(q.statsID)))
	usage := Usage{stats.Count + count, stats.Bytes + bytes}
	if err != nil || stats.Count == -1 || stats.Bytes == -1 {
		usage = t.usage(q.path) // a client wrote something else there
	}
	t.writeUsage(q, stats, usage)
}

// writeUsage sets the text of the stats node. It keeps hard limits in that text, which
// have no effect there.
func (t *Tree) writeUsage(q *quota, stats Limits, usage Usage) {
	stats.Count, stats.Bytes = usage.Count, usage.Bytes
	var text [96]byte
	at := digestKeyOf(q.statsPath, q.statsID)
	t.uncountNode(at)
	t.save(q.statsID)
	r := t.arena.rec(q.statsID)
	bytes := r.bytes()
	t.arena.setBlob(q.statsID, newBlob(StatsName, appendLimits(text[:0], stats)))
	t.countBelow(r.parent, 0, int64(r.bytes()-bytes))
	t.countNode(at)
}

// usage is counted while the tree changes.
func (t *Tree) usage(path string) Usage {
	t.settle()
	return t.counted(path)
}

// counted is the usage of the subtree at path; that of an absent one is zero.
func (t *Tree) counted(path string) Usage {
	top := t.find(path)
	if top == 0 {
		return Usage{}
	}
	x := t.arena.more(top)
	return Usage{1 + int64(x.descendants), int64(t.arena.rec(top).bytes()) + x.below}
}

// Quota returns the quota that applies to path: that of path or of its nearest ancestor
// with a limits node. A quota without a stats node limits nothing, because there is no
// usage to compare: ok is false.
func (t *Tree) Quota(path string) (q Quota, ok bool) {
	e := t.deepest(path)
	if e == nil || e.statsID == 0 {
		return Quota{}, false
	}
	return t.withUsage(e), true
}

// Drifts reports whether the usage that is kept for the quota of exactly this path is not that of its subtree. It
// is if a client wrote it, if the quota had no limits for a while, or if the subtree has had quotas of its own.
// A subtree with usages in it can't be counted: the count would be one of them.
func (t *Tree) Drifts(path string) bool {
	if strings.HasPrefix(QuotaPath+"/", path+"/") || strings.HasPrefix(path, QuotaPath+"/") {
		return false
	}
	q := t.quotas[path]
	return q != nil && q.limitsID != 0 && q.statsID != 0 && t.withUsage(q).Usage != t.counted(path)
}

// Drifting yields the nodes with the usage of the quotas of which Drifts reports true, in no particular order.
func (t *Tree) Drifting() iter.Seq[string] {
	return func(yield func(string) bool) {
		for path, q := range t.quotas {
			if t.Drifts(path) && !yield(q.statsPath) {
				return
			}
		}
	}
}

// withUsage returns an active quota with its usage.
func (t *Tree) withUsage(q *quota) Quota {
	stats, err := parseLimits(string(t.arena.data(q.statsID)))
	if err != nil {
		stats = noLimits
	}
	return Quota{Path: q.path, Limits: q.limits, Usage: Usage{stats.Count, stats.Bytes}}
}

// Exceeded yields the quotas whose usage exceeds a limit, in no particular order. Hard
// limits count whether or not they are enforced.
func (t *Tree) Exceeded() iter.Seq[Quota] {
	return func(yield func(Quota) bool) {
		for q := range t.Quotas() {
			if q.exceeded() && !yield(q) {
				return
			}
		}
	}
}

// Quotas yields the quotas that have a limit, in no particular order.
func (t *Tree) Quotas() iter.Seq[Quota] {
	return func(yield func(Quota) bool) {
		for _, e := range t.quotas {
			if e.limitsID == 0 || e.statsID == 0 || e.limits == noLimits {
				continue
			}
			if !yield(t.withUsage(e)) {
				return
			}
		}
	}
}

func (q *Quota) exceeded() bool {
	return q.Usage.Count > effectiveLimit(q.Limits.Count, q.Limits.CountHard) ||
		q.Usage.Bytes > effectiveLimit(q.Limits.Bytes, q.Limits.BytesHard)
}

// effectiveLimit returns the limit in effect. A hard limit overrides a soft one.
func effectiveLimit(soft, hard int64) int64 {
	switch {
	case hard >= 0:
		return hard
	case soft >= 0:
		return soft
	}
	return math.MaxInt64
}

// Rates yields the paths that have a node zkd_limits in /zookeeper/quota, and its data,
// which must not be modified. It means nothing to the tree.
func (t *Tree) Rates() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for path, id := range t.rates {
			if !yield(path, t.arena.data(id)) {
				return
			}
		}
	}
}

// RatesVersion returns a number that changes whenever Rates does.
func (t *Tree) RatesVersion() uint64 { return t.ratesVersion }

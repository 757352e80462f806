package clients

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/replica"
)

// slowLog collects the requests that took longer than zkd.slowRequestThreshold, for the
// housekeeper to log: the applier, which notes them, must not wait for the log. Requests
// that are fast enough cost a comparison.
type slowLog struct {
	threshold atomic.Int64 // time.Duration; 0 for no log

	mu       sync.Mutex
	noted    []slowRequest // since the last report
	more     int           // that had no room in noted
	reported time.Duration // when that was
}

// maxSlow is how many slow requests are logged in slowPeriod, the slowest ones. They tend to
// come together, and for one reason.
const (
	maxSlow    = 5
	slowPeriod = 10 * time.Second
)

// slowRequest is a request that took long.
type slowRequest struct {
	op       jute.OpCode
	code     jute.Code
	path     string // "" for none
	ops      int    // of a multi
	session  jute.SessionID
	remote   string
	identity string // "" for none but the address
	took     time.Duration
	stages   slowStages
	reads    int64 // answered together, as one batch; 0 for a write
}

// slowStages is where the time of a write went; all are 0 if that is not known.
type slowStages struct {
	queue  time.Duration // until it was handed to this server's log: at the leader before its evaluation, and on the way there and back
	disk   time.Duration // until it was durable here, if that was before the commit
	quorum time.Duration // from then until a quorum had it
	apply  time.Duration // from then until it was answered
}

// stagesOf returns where the time went of a request that was answered at a time.
func stagesOf(o *replica.Order, received, answered time.Duration) (s slowStages) {
	if o.Logged == 0 || o.Logged < received {
		return s
	}
	s.queue = o.Logged - received
	stored := o.Logged
	if o.Durable != 0 && o.Durable <= o.Committed {
		stored = o.Durable
	}
	s.disk, s.quorum, s.apply = stored-o.Logged, o.Committed-stored, max(0, answered-o.Committed)
	return s
}

// is reports whether a request that took so long is slow.
func (l *slowLog) is(took time.Duration) bool {
	threshold := time.Duration(l.threshold.Load())
	return threshold > 0 && took >= threshold
}

// note notes a slow request of a session. The request is still there; nothing of it is kept.
func (l *slowLog) note(session jute.SessionID, remote net.Addr, req *line.Request, r slowRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	into := len(l.noted)
	if into < maxSlow {
		l.noted = append(l.noted, slowRequest{})
	} else {
		l.more++
		into = 0
		for i := range l.noted {
			if l.noted[i].took < l.noted[into].took {
				into = i
			}
		}
		if l.noted[into].took >= r.took {
			return
		}
	}
	r.op, r.session, r.remote = req.Op, session, remote.String()
	r.path, r.ops = pathOf(req)
	r.identity = nameOf(req.Auth)
	l.noted[into] = r
}

// pathOf returns a copy of the path that a request names, or of the first one of a multi,
// and the number of operations of that.
func pathOf(req *line.Request) (path string, ops int) {
	switch req.Op {
	case jute.OpMulti, jute.OpMultiRead:
		var m jute.MultiRequest
		d := jute.NewAliasDecoder(req.Body)
		if m.Decode(&d); d.Err() == nil && len(m.Ops) > 0 {
			path, ops = m.Ops[0].Path, len(m.Ops)
		}
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData, jute.OpSetACL, jute.OpSync,
		jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL, jute.OpGetAllChildrenNumber, jute.OpAddWatch, jute.OpChildrenPage, jute.OpSubtreePage, jute.OpPast, jute.OpSubscribe:
		d := jute.NewAliasDecoder(req.Body)
		if p := d.String(); d.Err() == nil {
			path = p
		}
	}
	return strings.Clone(path), ops
}

// report logs what was noted since the last time, unless that was less than slowPeriod ago.
func (l *slowLog) report(log *zap.Logger, now time.Duration) {
	l.mu.Lock()
	if len(l.noted) == 0 || l.reported != 0 && now-l.reported < slowPeriod {
		l.mu.Unlock()
		return
	}
	l.reported = now
	noted, more := l.noted, l.more
	l.noted, l.more = nil, 0
	l.mu.Unlock()
	for i := range noted {
		log.Warn("slow request", noted[i].fields()...)
	}
	if more > 0 {
		log.Warn("more slow requests, not logged", zap.Int("requests", more))
	}
}

func (r *slowRequest) fields() []zap.Field {
	fields := []zap.Field{zap.Stringer("op", r.op), zap.String("path", r.path), zap.Duration("took", r.took)}
	if s := &r.stages; *s != (slowStages{}) {
		fields = append(fields, zap.Duration("queue", s.queue), zap.Duration("disk", s.disk), zap.Duration("quorum", s.quorum), zap.Duration("apply", s.apply))
	}
	if r.ops > 1 {
		fields = append(fields, zap.Int("operations", r.ops))
	}
	if r.reads > 1 {
		fields = append(fields, zap.Int64("answered_together", r.reads))
	}
	if r.code != 0 {
		fields = append(fields, zap.NamedError("result", r.code))
	}
	fields = append(fields, zap.Stringer("session", r.session), zap.String("remote", r.remote))
	if r.identity != "" {
		fields = append(fields, zap.String("identity", r.identity))
	}
	return fields
}

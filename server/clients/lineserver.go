package clients

import (
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/replica"
)

// lineServer is the server as its lines see it: see line.Server.
type lineServer struct{ s *shared }

func (v lineServer) Limits() line.Limits {
	live := v.s.live.Load()
	return line.Limits{Reply: live.ReplyLimit(), LongReply: live.LongReply(), Page: v.s.cfg.MaxBuffer / 2, PageNodes: 4096, Part: 1024}
}

func (v lineServer) NextSession() jute.SessionID       { return v.s.sessions.nextLocked() }
func (v lineServer) Submit(subs ...replica.Submission) { v.s.backend.Submit(subs...) }

func (v lineServer) Members() jute.Zxid { return v.s.state.Tree.MembersZxid() }

// Subscribed makes the feeder look at the feeds.
func (v lineServer) Subscribed(l *line.Line, begun bool) {
	if begun {
		v.s.feeder.add(&connOf(l).out)
	} else {
		v.s.feeder.wake()
	}
}

// Served makes the audit log's entry.
func (v lineServer) Served(l *line.Line, req *line.Request, err error) {
	if a := v.s.audit.Load(); !a.off() {
		c := connOf(l)
		c.line.waitForLocked(a.served(c.author(req.Auth), req, err))
	}
}

// ServedPart makes the entry about an operation of a multiRead.
func (v lineServer) ServedPart(l *line.Line, req *line.Request, op *jute.MultiOp, code jute.Code) {
	if a := v.s.audit.Load(); !a.off() {
		c := connOf(l)
		c.line.waitForLocked(a.servedPart(c.author(req.Auth), op, code))
	}
}

// slowTexts are what the log says of clients that are too slow.
var slowTexts = [...]string{
	line.Events: "closing connection: it does not take its watch events",
	line.Reads:  "closing connection: the replies to reads after one write are too much",
	line.Feeds:  "closing connection: it does not take the events of its feeds",
}

// Slow notes in the log that a client is too slow.
func (v lineServer) Slow(l *line.Line, what line.Output) {
	v.s.log.Warn(slowTexts[what], zap.Stringer("remote", connOf(l).socket.remote()), zap.Int("limit_bytes", line.UnreadLimit))
}

// LongReply counts a long reply, and logs it once for each connection.
func (v lineServer) LongReply(l *line.Line, req *line.Request, path string, size int, refused bool) {
	s, c := v.s, connOf(l)
	text := "a reply is longer than jute.maxbuffer: Java's clients end the connection at it, unless they set a larger jute.maxbuffer; have fewer children, or list them in pages"
	if refused {
		s.metrics.RepliesRefused.Add(1)
		text = "a reply is longer than zkd.maxReply, and is refused: zkcli and the Go client can list the children in pages; or raise zkd.maxReply here"
	} else {
		s.metrics.RepliesLong.Add(1)
	}
	s.metrics.LastLongReply.Store(int64(s.now()))
	if c.reportedLong {
		return
	}
	if more, ok := s.complaints.allow(); ok {
		c.reportedLong = true
		s.log.Warn(text, zap.Stringer("op", req.Op), zap.String("path", path), zap.Int("bytes", size),
			zap.Stringer("remote", c.socket.remote()), zap.Stringer("session", l.SessionID()), zap.Int("unlogged", more))
	}
}

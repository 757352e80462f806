package why

import (
	"strconv"
	"strings"
	"time"
)

// Facts are what a look at an ensemble showed. Servers were asked twice.
type Facts struct {
	Servers  []Server
	Complete bool          // some server has said which members there are, and all of them were asked
	Interval time.Duration // between the two times
	// Now is the wall clock of this machine at the second time, in ms since 1970.
	Now int64
}

// Server is what one server said.
type Server struct {
	Name string // host:port
	// Unreachable is the reason why it gave no answer, "" if it did.
	Unreachable string
	// NotServing means that the process answers, and finds no quorum.
	NotServing bool
	// Detail is what its admin pages say about that, "" if nobody asked them.
	Detail string
	// Unanswered are the four-letter words that it is not allowed to answer.
	Unanswered []string

	ID            int64 // of the ensemble; 0 if it did not say
	Observer      bool  // as others say, too
	Mode, Version string
	Before, After Sample
}

// Sample is one answer of a server.
type Sample struct {
	Zxid    uint64
	Metrics map[string]string // of mntr, without zk_
	// Skew is the server's clock minus that of this machine, and Doubt how wrong that may be.
	Skew, Doubt time.Duration
	Conns       []Conn
}

// Conn is a client's connection.
type Conn struct {
	Client, Session, LastOp string // Client is host:port
	Queued, Received, Sent  int64

	Established                              int64 // in ms since 1970
	TimeoutMs                                int64 // of its session
	MinLatencyMs, AvgLatencyMs, MaxLatencyMs int64
}

// Standby is the Mode of a standby, which is no member of the ensemble that it follows.
const Standby = "standby"

func (s *Server) standby() bool { return s.Mode == Standby }

// serves reports whether clients can write through the server.
func (s *Server) serves() bool {
	return s.Unreachable == "" && !s.NotServing && s.Mode != "read-only" && !s.standby()
}

// number returns a metric, and whether the server has it.
func (s Sample) number(name string) (float64, bool) {
	v, err := strconv.ParseFloat(s.Metrics[name], 64)
	return v, err == nil
}

// is reports whether a metric is there and not 0.
func (s Sample) is(name string) bool {
	v, ok := s.number(name)
	return ok && v != 0
}

// lasts returns a metric that is a duration in ms.
func (s Sample) lasts(name string) time.Duration {
	v, _ := s.number(name)
	return time.Duration(v) * time.Millisecond
}

// growth returns how much a counter has grown between the answers.
func (s *Server) growth(name string) (float64, bool) {
	before, ok1 := s.Before.number(name)
	after, ok2 := s.After.number(name)
	return after - before, ok1 && ok2 && after >= before
}

// host returns a client's address without the port.
func (c *Conn) host() string {
	if i := strings.LastIndexByte(c.Client, ':'); i >= 0 {
		return c.Client[:i]
	}
	return c.Client
}

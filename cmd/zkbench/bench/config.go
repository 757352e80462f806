package bench

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/zkd-project/zkd/client/sasl"
)

// Workload is the kind of load of a run.
type Workload string

// The workloads.
const (
	Create    Workload = "create"    // create persistent nodes
	Set       Workload = "set"       // set the data of existing nodes
	Get       Workload = "get"       // get the data of existing nodes
	Mixed     Workload = "mixed"     // gets and sets
	Exists    Workload = "exists"    // exists of existing nodes
	Children  Workload = "children"  // list the children of one node
	Ephemeral Workload = "ephemeral" // create an ephemeral node and delete it, each an operation
	Multi     Workload = "multi"     // set several nodes with each multi
	Watch     Workload = "watch"     // set one node that each connection watches
	Sessions  Workload = "sessions"  // open a session and close it
	Idle      Workload = "idle"      // hold sessions that do nothing
	Load      Workload = "load"      // fill the tree
	Outages   Workload = "outages"   // set nodes while servers come and go
)

// Config configures a run. Every field applies to all workloads unless it names some.
type Config struct {
	Workload       Workload
	Connections    int           // sessions; for Watch the watchers, for Sessions how many are opened at a time
	Window         int           // outstanding requests per connection
	ValueSize      int           // bytes of data of a node
	Keys           int           // nodes that are read and written, shared out among the connections
	Reads          float64       // Mixed: share of gets, 0 to 1
	Children       int           // Children: size of the listed node
	Batch          int           // Multi: sets in each
	Ephemerals     int           // Sessions: ephemeral nodes that each session creates
	PathLength     int           // Load: bytes of each path, without Target.Base
	Duration       time.Duration // of the measurement, unless Count is set
	Warmup         time.Duration // same load before the measurement; none for Idle and Load
	Count          int64         // operations; 0: as many as Duration allows. Load: nodes
	Rate           float64       // operations per second of all connections; 0: as many as possible
	SessionTimeout time.Duration // asked of the server
	Keep           bool          // leave the nodes of the run
	Seed           uint64        // of the choice of keys and of the values' contents

	// OnPhase is called when a phase of the run begins, by the goroutine of Run. It may
	// be nil.
	OnPhase func(Phase) `json:"-"`
}

// Defaults returns the configuration of a workload that a user changes. Most take
// five seconds, with the warm-up.
func Defaults(w Workload) Config {
	c := Config{
		Workload: w, Connections: 8, Window: 64, ValueSize: 1024, Keys: 1000, Reads: 0.9,
		Children: 100, Batch: 10, PathLength: 28, Duration: 4 * time.Second,
		Warmup: time.Second, SessionTimeout: 30 * time.Second, Seed: 1,
	}
	switch w {
	case Watch:
		c.Connections = 100
	case Idle:
		c.Connections = 1000
		c.Duration, c.Warmup = 5*time.Second, 0
	case Outages:
		c.Connections, c.Window, c.Rate, c.Warmup = 24, 1, 2000, 0
		c.Duration = time.Minute
	case Load:
		c.Count, c.ValueSize, c.Warmup = 100_000, 100, 0
	}
	return c
}

// maxRequest is the largest request that servers accept by default (jute.maxbuffer).
const maxRequest = 1048575

// ConfigError means that a configuration can't be run.
type ConfigError struct{ err error }

// Error says why.
func (e *ConfigError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *ConfigError) Unwrap() error { return e.err }

// validate returns the reason why a configuration can't be run.
func (c *Config) validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, known := workloads[c.Workload]
	bad(!known, "no workload %q", c.Workload)
	bad(c.Connections < 1, "connections: %d, want at least 1", c.Connections)
	bad(c.Window < 1, "window: %d, want at least 1", c.Window)
	bad(c.ValueSize < 0 || c.ValueSize > maxRequest-512, "value size: %d, want 0 to %d", c.ValueSize, maxRequest-512)
	bad(c.Keys < 1, "keys: %d, want at least 1", c.Keys)
	bad(c.Reads < 0 || c.Reads > 1, "share of reads: %v, want 0 to 1", c.Reads)
	bad(c.Children < 0, "children: %d, want at least 0", c.Children)
	bad(c.Batch < 1, "batch: %d, want at least 1", c.Batch)
	bad(c.Workload == Multi && c.Batch*(c.ValueSize+64) > maxRequest,
		"batch: %d values of %d bytes don't fit in a request of %d bytes", c.Batch, c.ValueSize, maxRequest)
	bad(c.Ephemerals < 0 || c.Ephemerals*(c.ValueSize+128) > 1<<30, "ephemerals: %d, out of range", c.Ephemerals)
	bad(c.Workload == Load && c.PathLength < minPathLength, "path length: %d, want at least %d", c.PathLength, minPathLength)
	bad(c.Duration <= 0 && c.Count == 0, "duration: %v, want more than 0", c.Duration)
	bad(c.Warmup < 0, "warm-up: %v, want at least 0", c.Warmup)
	bad(c.Count < 0, "count: %d, want at least 0", c.Count)
	bad(c.Rate < 0, "rate: %v, want at least 0", c.Rate)
	bad(c.SessionTimeout < 100*time.Millisecond, "session timeout: %v, want at least 100ms", c.SessionTimeout)
	if len(errs) > 0 {
		return &ConfigError{errors.Join(errs...)}
	}
	return nil
}

// Target is what a run measures.
type Target struct {
	Addrs []string // host:port of each server; connections are spread over them
	Base  string   // existing node under which the run makes its root; "" for the top
	Pids  []int    // processes on this machine that serve it; may be empty
	Security
}

// Security says how connections are secured, and who uses them.
type Security struct {
	// TLS returns the configuration for connections to a host; nil means no TLS.
	TLS func(host string) (*tls.Config, error)
	// SASL returns the mechanism of a login to a host; nil means no login.
	SASL func(host string) (sasl.Mechanism, error)
	// Auth are the identities that each session gets.
	Auth []Auth
	// From is the address of this machine from which connections come; nil means any.
	From net.IP
}

// Auth is an identity of a session.
type Auth struct {
	Scheme string
	Data   []byte
}

// addr returns the server of connection i.
func (t *Target) addr(i int) string { return t.Addrs[i%len(t.Addrs)] }

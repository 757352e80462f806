package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
)

// Trail is the audit log of a server, as its configuration asks for one. Once opened, it stays so
// until the server is closed.
type Trail struct {
	fs       vfs.FS
	log      *zap.Logger
	registry prometheus.Registerer
	fail     func(error)
	tail     *Tail // nil if nobody looks
	authors  Authors

	opened  atomic.Pointer[Log] // nil while it was never on
	on      atomic.Bool
	started atomic.Bool // an entry was written; before that, a shortage ends the start
	lacks   atomic.Pointer[error]
}

// NewTrail returns a trail that is off. fail ends the server: it was asked for to know of every
// operation, so it can't go on without.
func NewTrail(fsys vfs.FS, log *zap.Logger, registry prometheus.Registerer, fail func(error)) *Trail {
	return &Trail{fs: fsys, log: log.Named("audit"), registry: registry, fail: fail}
}

// KeepTail keeps the last entries. It is called before Open.
func (t *Trail) KeepTail() { t.tail = NewTail() }

// Tail returns the last entries, or nil if the audit log is off, or they are not kept.
func (t *Trail) Tail() *Tail {
	if t.Log() == nil {
		return nil
	}
	return t.tail
}

// Authors returns the authors of the last transactions by their zxids, or nil if the audit log is off.
func (t *Trail) Authors() map[jute.Zxid]Author {
	if t.Log() == nil {
		return nil
	}
	return t.authors.ByZxid()
}

// Log returns the audit log, or nil if it is off.
func (t *Trail) Log() *Log {
	if !t.on.Load() {
		return nil
	}
	return t.opened.Load()
}

// Switch turns the audit log on or off. One goroutine at a time may call it.
func (t *Trail) Switch(c *config.Audit) error {
	if t.opened.Load() == nil {
		if err := t.Open(c); err != nil {
			return err
		}
	}
	t.on.Store(c.Enable)
	return nil
}

// Open opens the audit log, if the configuration asks for one.
func (t *Trail) Open(c *config.Audit) error {
	if !c.Enable {
		return nil
	}
	var sink Sink = logSink{log: t.log, json: c.Format == "json"}
	if c.File != "" {
		file, err := OpenFile(FileOptions{
			FS: t.fs, Path: c.File, MaxBytes: c.MaxFileBytes, Every: c.FilePeriod, Keep: c.MaxFiles,
			Warn: func(err error) { t.log.Warn("the audit log", zap.Error(err)) },
		})
		if err != nil {
			return fmt.Errorf("zkd.audit.file: %w", err)
		}
		sink = file
	}
	t.opened.Store(Open(Options{
		Sink:     sink,
		JSON:     c.Format == "json",
		Bare:     c.File == "",
		Tail:     t.tail,
		Authors:  &t.authors,
		Shortage: t.noteShortage,
		Failed:   func(err error) { t.fail(fmt.Errorf("the audit log can't be written: %w", err)) },
		Lost:     func(line []byte) { t.log.Error("not in the audit log", zap.ByteString("entry", line)) },
	}))
	t.on.Store(true)
	t.register()
	return nil
}

// Close closes the audit log.
func (t *Trail) Close() error {
	if log := t.opened.Load(); log != nil {
		return log.Close()
	}
	return nil
}

// Start makes the entry of a start, and checks that it can be written.
func (t *Trail) Start(failed error) error {
	log := t.Log()
	if log == nil {
		return nil
	}
	e := Entry{User: SystemUser(), Operation: ServerStart}
	if failed != nil {
		e.Result = Failure
	}
	err := log.Wait(log.Put(&e), nil)
	t.started.Store(err == nil)
	return err
}

// noteShortage notes what the audit log waits for, nil for nothing, and reports whether to wait: what clients do is
// answered later.
func (t *Trail) noteShortage(err error) (again bool) {
	switch {
	case err == nil:
		t.lacks.Store(nil)
		t.log.Info("the audit log is written again")
	case !t.started.Load():
		return false
	case t.lacks.Swap(&err) == nil:
		t.log.Error("the audit log waits, and with it the answers to clients: it can't be written; trying again", zap.Error(err))
	}
	return true
}

// Lacks returns what the audit log waits for, or nil if it is written.
func (t *Trail) Lacks() error {
	if err := t.lacks.Load(); err != nil {
		return *err
	}
	return nil
}

// Stop makes the entry of a stop, before it happens.
func (t *Trail) Stop() {
	if log := t.Log(); log != nil {
		log.Put(&Entry{User: SystemUser(), Operation: ServerStop, Result: Invoked})
	}
}

func (t *Trail) register() {
	stats := func(value func(Stats) float64) func() float64 {
		return func() float64 { return value(t.opened.Load().Stats()) }
	}
	t.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "zkd_audit_entries_total", Help: "Entries of the audit log."},
			stats(func(st Stats) float64 { return float64(st.Entries) })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "zkd_audit_stalls_total", Help: "Times that a client had to wait because the audit log was written too slowly."},
			stats(func(st Stats) float64 { return float64(st.Stalls) })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "zkd_audit_waits", Help: "1 while the audit log can't be written for want of room, inodes or descriptors, so that clients get no answers."},
			func() float64 {
				if t.Lacks() != nil {
					return 1
				}
				return 0
			}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "zkd_audit_queue_bytes", Help: "Entries that wait to be written, in bytes."},
			stats(func(st Stats) float64 { return float64(st.Queued) })),
	)
}

// SystemUser returns the name of the user that runs the process.
func SystemUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// logSink writes the audit log into the server's log, whatever its level.
type logSink struct {
	log  *zap.Logger
	json bool
}

func (l logSink) Write(lines []byte, results []Result) (n int, err error) {
	for line := range bytes.Lines(lines) {
		text := bytes.TrimSuffix(line, []byte{'\n'})
		entry := zapcore.Entry{Time: time.Now(), LoggerName: l.log.Name(), Message: string(text)}
		var fields []zap.Field
		if l.json {
			entry.Message = "entry"
			fields = []zap.Field{zap.Reflect("entry", json.RawMessage(text))}
		}
		if results[0] == Failure {
			entry.Level = zap.ErrorLevel
		}
		results = results[1:]
		if err := l.log.Core().Write(entry, fields); err != nil {
			return n, err
		}
		n += len(line)
	}
	return n, nil
}

func (logSink) Close() error { return nil }

package server

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

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
)

// auditing is the audit log of a server. Once opened, it stays so until the server is closed.
type auditing struct {
	opened atomic.Pointer[audit.Log] // nil while it was never on
	on     atomic.Bool
}

// log returns the audit log, or nil if it is off.
func (a *auditing) log() *audit.Log {
	if !a.on.Load() {
		return nil
	}
	return a.opened.Load()
}

// switchAudit turns the audit log on or off. The lock of Server.configured is held.
func (s *Server) switchAudit(cfg *config.Audit) error {
	if s.audit.opened.Load() == nil {
		if err := s.openAudit(cfg); err != nil {
			return err
		}
	}
	s.audit.on.Store(cfg.Enable)
	s.clients.Audit(s.audit.log(), cfg.Reads)
	return nil
}

// openAudit opens the audit log, if the configuration asks for one. A log that can't be
// written ends the server, since it was asked for to know of every operation.
func (s *Server) openAudit(c *config.Audit) error {
	if !c.Enable {
		return nil
	}
	log := s.log.Named("audit")
	var sink audit.Sink = logSink{log: log, json: c.Format == "json"}
	if c.File != "" {
		file, err := audit.OpenFile(audit.FileOptions{
			FS: s.fs, Path: c.File, MaxBytes: c.MaxFileBytes, Every: c.FilePeriod, Keep: c.MaxFiles,
			Warn: func(err error) { log.Warn("the audit log", zap.Error(err)) },
		})
		if err != nil {
			return fmt.Errorf("zkd.audit.file: %w", err)
		}
		sink = file
	}
	s.audit.opened.Store(audit.Open(audit.Options{
		Sink:   sink,
		JSON:   c.Format == "json",
		Bare:   c.File == "",
		Failed: func(err error) { s.life.Fail(fmt.Errorf("the audit log can't be written: %w", err)) },
		Lost:   func(line []byte) { log.Error("not in the audit log", zap.ByteString("entry", line)) },
	}))
	s.audit.on.Store(true)
	s.registerAudit()
	return nil
}

// auditStart makes the entry of a start, and checks that it can be written.
func (s *Server) auditStart(failed error) error {
	log := s.audit.log()
	if log == nil {
		return nil
	}
	e := audit.Entry{User: systemUser(), Operation: audit.ServerStart}
	if failed != nil {
		e.Result = audit.Failure
	}
	return log.Wait(log.Put(&e), nil)
}

// auditStop makes the entry of a stop, before it happens.
func (s *Server) auditStop() {
	if log := s.audit.log(); log != nil {
		log.Put(&audit.Entry{User: systemUser(), Operation: audit.ServerStop, Result: audit.Invoked})
	}
}

// auditEphemerals makes the entries about the ephemerals that were deleted with a session.
// Every server makes them, as Apache's do: they are not the work of one client.
func (a *applier) auditEphemerals(id jute.SessionID, events []datatree.Event) {
	log := a.audit.log()
	if log == nil || len(events) == 0 {
		return
	}
	e := audit.Entry{Session: id, User: systemUser(), Operation: audit.DeleteEphemeral, Zxid: a.zxid}
	for i := range events {
		if e.Znode = events[i].Path; events[i].Type == jute.EventDeleted {
			log.PutLater(&e)
		}
	}
}

// auditAutopilot makes the entry of a change of the members that this server makes for itself.
func (s *Server) auditAutopilot() {
	if log := s.audit.log(); log != nil {
		log.Put(&audit.Entry{User: systemUser(), Operation: audit.Reconfig, Znode: datatree.ConfigPath})
	}
}

// systemUser returns the name of the user that runs the process.
func systemUser() string {
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

// Write implements audit.Sink.
func (l logSink) Write(lines []byte, results []audit.Result) (n int, err error) {
	for line := range bytes.Lines(lines) {
		text := bytes.TrimSuffix(line, []byte{'\n'})
		entry := zapcore.Entry{Time: time.Now(), LoggerName: l.log.Name(), Message: string(text)}
		var fields []zap.Field
		if l.json {
			entry.Message = "entry"
			fields = []zap.Field{zap.Reflect("entry", json.RawMessage(text))}
		}
		if results[0] == audit.Failure {
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

// Close implements audit.Sink.
func (logSink) Close() error { return nil }

func (s *Server) registerAudit() {
	gauge := func(name, help string, value func(audit.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(s.audit.opened.Load().Stats()) })
	}
	counter := func(name, help string, value func(audit.Stats) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return value(s.audit.opened.Load().Stats()) })
	}
	s.registry.MustRegister(
		counter("zkd_audit_entries_total", "Entries of the audit log.", func(st audit.Stats) float64 { return float64(st.Entries) }),
		counter("zkd_audit_stalls_total", "Times that a client had to wait because the audit log was written too slowly.",
			func(st audit.Stats) float64 { return float64(st.Stalls) }),
		gauge("zkd_audit_queue_bytes", "Entries that wait to be written, in bytes.", func(st audit.Stats) float64 { return float64(st.Queued) }),
	)
}

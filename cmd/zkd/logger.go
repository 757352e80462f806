package main

import (
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"

	"github.com/zkd-project/zkd/internal/console"
	"github.com/zkd-project/zkd/internal/stdio"
)

// logTo returns a logger in a format of the key zkd.logFormat; "" is the default. Its lines
// are written until they are closed. The server does not wait for them, except for those of
// the audit log.
func logTo(w io.Writer, format string, level zapcore.LevelEnabler) (*zap.Logger, *stdio.Lines) {
	config := zap.NewProductionEncoderConfig()
	config.EncodeTime = zapcore.ISO8601TimeEncoder
	var encoder zapcore.Encoder
	if format == "json" {
		encoder = zapcore.NewJSONEncoder(config)
	} else {
		config.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(config)
	}
	note := encoder.Clone()
	lines := stdio.NewLines(w, func(lost uint64, why error) []byte { return linesLost(note, lost, why) })
	core := &auditLines{
		Core:  zapcore.NewCore(lineEncoder{encoder, format != "json"}, lines, level),
		audit: zapcore.NewCore(encoder.Clone(), zapcore.AddSync(lines.Sure()), level),
	}
	return zap.New(limitRepeats(core)), lines
}

// lineEncoder escapes what would break a line of the log, or change the direction of its text. Encoders do
// a part of that for the values of fields, and nothing for messages, some of which are composed. Entries of the audit log are escaped
// when they are made.
type lineEncoder struct {
	zapcore.Encoder
	people bool // read the lines as they are, and not as JSON
}

// Clone is part of zapcore.Encoder.
func (l lineEncoder) Clone() zapcore.Encoder { return lineEncoder{l.Encoder.Clone(), l.people} }

// EncodeEntry is part of zapcore.Encoder.
func (l lineEncoder) EncodeEntry(e zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	e.Message = console.Line(e.Message)
	line, err := l.Encoder.EncodeEntry(e, fields)
	if err != nil {
		return line, err
	}
	escape := console.EscapeJSON
	if l.people {
		escape = console.Escape
	}
	if escaped := escape(line.Bytes()); len(escaped) != line.Len() {
		line.Reset()
		_, err = line.Write(escaped)
	}
	return line, err
}

// linesLost returns the line about lines that could not be written.
func linesLost(encoder zapcore.Encoder, lost uint64, why error) []byte {
	entry := zapcore.Entry{Level: zapcore.WarnLevel, Time: time.Now(), Message: "lines of the log could not be written"}
	line, err := encoder.EncodeEntry(entry, []zapcore.Field{zap.Uint64("lines", lost), zap.Error(why)})
	if err != nil {
		return nil
	}
	defer line.Free()
	return append([]byte(nil), line.Bytes()...)
}

// auditLines writes the lines of the audit log to a core that returns errors.
type auditLines struct {
	zapcore.Core
	audit zapcore.Core
}

// With is part of zapcore.Core.
func (a *auditLines) With(fields []zapcore.Field) zapcore.Core {
	return &auditLines{a.Core.With(fields), a.audit.With(fields)}
}

// Check is part of zapcore.Core. That of the embedded core would write past Write.
func (a *auditLines) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if a.Enabled(e.Level) {
		return to.AddCore(e, a)
	}
	return to
}

// Write is part of zapcore.Core.
func (a *auditLines) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.LoggerName == "audit" {
		return a.audit.Write(e, fields)
	}
	return a.Core.Write(e, fields)
}

// registerLog registers the metric of a log.
func registerLog(reg prometheus.Registerer, lines *stdio.Lines) {
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "zkd_log_lines_lost_total",
		Help: "Lines of the log that could not be written, because their reader was gone or too slow or the disk was full.",
	}, func() float64 { return float64(lines.Lost()) }))
}

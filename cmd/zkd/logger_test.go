package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestLogLinesStayLines logs texts with line ends and control sequences, as a message and as fields.
func TestLogLinesStayLines(t *testing.T) {
	const evil = "a\nFORGED\r\x1b[2J\tb\u202eDEGROF"
	for _, format := range []string{"", "json"} {
		var out bytes.Buffer
		log, lines := logTo(&out, format, zapcore.InfoLevel)
		log.Named("server").Info(evil, zap.String("text", evil), zap.Error(errors.New(evil)))
		log.With(zap.String("on", evil)).Warn(evil)
		log.Named("audit").Info("session=0x1\tuser=ann")
		lines.Close()
		text := out.String()
		if strings.Count(text, "\n") != 3 || strings.ContainsAny(text, "\r\x1b") || strings.Contains(text, "\nFORGED") {
			t.Errorf("format %q:\n%q", format, text)
		}
		if strings.Contains(text, "\u202e") || !strings.Contains(text, `\u202e`) {
			t.Errorf("a text is shown from the right to the left: %q", text)
		}
		if format == "" && !strings.Contains(text, "session=0x1\tuser=ann") {
			t.Errorf("an entry of the audit log is changed: %q", text)
		}
	}
}

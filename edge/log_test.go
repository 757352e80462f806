package edge

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestALineForAllClients: what thousands of clients have in common is a line, and another one later that counts the rest. With -v each has its own.
func TestALineForAllClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
			out.Reset()
			log := newCalm(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})))
			lose := func() {
				for i := range 100 {
					log.With("client", i).Warn("connection lost", "server", fmt.Sprint("zk", i%2))
				}
			}
			lose()
			time.Sleep(calmFor)
			lose()
			lines := strings.Count(out.String(), "\n")
			if others := strings.Count(out.String(), "others_before=49\n"); level == slog.LevelInfo && (lines != 4 || others != 2) || level == slog.LevelDebug && lines != 200 {
				t.Errorf("at level %v %d lines:\n%s", level, lines, &out)
			}
		}
	})
}

package main

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/ptytest"
)

var picture = flag.String("picture", "", "write the session of the README to this file, as SVG")

// TestPicture is the session that the README shows. docs/zkcli-session.svg is made
// by it, and must be what it shows today:
//
//	go test ./cmd/zkcli -run TestPicture -picture ../../docs/zkcli-session.svg
func TestPicture(t *testing.T) {
	server := zktest.Start(t)
	c := server.Client(t)
	createAll(t, c, "/app", "/app/config", "/app/workers", "/app/workers/w-0000000001", "/app/leader")
	s := connect(t, server.Addr(), 92, 40, "NO_COLOR=")
	s.Type("ls /a\t\t\t")
	s.shows(`^config   leader   workers$`)
	s.Type("w\t\r")
	s.n++
	s.line("CONNECTED", "")
	s.Type("get\t")
	s.shows(`^getAcl .*\n`)
	s.Type(" -\t")
	s.shows(`^--watch .*\n`)
	s.run("w /app/config")
	s.Type("set /app/con\t")
	s.line("CONNECTED", "set /app/config")
	if _, err := c.Set(t.Context(), "/app/config", []byte("x"), client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	s.shows(`NodeDataChanged path:/app/config.*\n.* set /app/config$`)
	s.Type(" \"hello world\"\r")
	s.n++
	s.line("CONNECTED", "")
	s.Type("\x12-w")
	s.shows("^" + `\(search\)` + "`-w': get -w /app/config$")
	s.Type("\r")
	s.n++
	s.line("CONNECTED", "")
	s.shows(`^hello world$`)
	s.Type("create /app/workers/")
	server.Kill()
	s.line("CONNECTING", "create /app/workers/")
	var drawn string
	s.View(func(screen *ptytest.Screen) { drawn = screen.SVG("zkcli") })
	if *picture != "" {
		if err := os.WriteFile(*picture, []byte(drawn), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	checkPicture(t, drawn)
}

// checkPicture compares what was drawn with the picture in the documentation. Only
// the server's port is another one each time.
func checkPicture(t *testing.T, drawn string) {
	port := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	shown, err := os.ReadFile("../../docs/zkcli-session.svg")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(port.ReplaceAllString(string(shown), "SERVER"), "\n")
	for i, line := range strings.Split(port.ReplaceAllString(drawn, "SERVER"), "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("docs/zkcli-session.svg is not what zkcli shows today: make it again, see TestPicture.\nLine %d is now\n%s", i+1, line)
		}
	}
}

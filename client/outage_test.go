package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/client"
)

// A client that waits for servers says so in the log, and why it must: after a
// second, and then ever more rarely.
func TestOutageIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(lockedBuilder)
		c, err := client.New("zk1,zk2", client.Options{
			Logger: slog.New(slog.NewTextHandler(out, nil)),
			Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("nobody is at home")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		time.Sleep(500 * time.Millisecond)
		if got := out.String(); got != "" {
			t.Errorf("after half a second the log has\n%s", got)
		}
		time.Sleep(time.Hour)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) < 60 || len(lines) > 70 {
			t.Errorf("%d lines in an hour, want one a minute or so", len(lines))
		}
		for _, want := range []string{"level=WARN", `msg="no server is reached; trying on"`, "zk1:2181: nobody is at home", "zk2:2181: nobody is at home"} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("the line is\n%s\nand lacks\n%s", lines[0], want)
			}
		}
	})
}

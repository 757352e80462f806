package server

import (
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// addressed is a listener that says that it listens on an address.
type addressed struct {
	net.Listener
	addr net.TCPAddr
}

func (l *addressed) Addr() net.Addr { return &l.addr }

// TestOpenRootIsRemarked checks that a server warns once of an open tree behind a public port, and
// of no other.
func TestOpenRootIsRemarked(t *testing.T) {
	for _, tc := range []struct {
		name, ip string
		root     []jute.ACL // nil: as it is in a new tree
		warns    int
		schemes  []string // of enforce.auth.schemes
	}{
		{"open to all", "0.0.0.0", nil, 1, nil},
		{"open on an address", "10.0.0.1", nil, 1, nil},
		{"open to this machine", "127.0.0.1", nil, 0, nil},
		{"open to this machine, IPv6", "::1", nil, 0, nil},
		{"for readers", "0.0.0.0", []jute.ACL{{Perms: jute.PermRead, ID: jute.WorldAnyone}}, 0, nil},
		{"for creators", "0.0.0.0", []jute.ACL{{Perms: jute.PermCreate, ID: jute.WorldAnyone}}, 1, nil},
		{"for a user", "0.0.0.0", []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: "a:b"}}}, 0, nil},
		{"open to all who have proved who they are", "0.0.0.0", nil, 0, []string{"sasl"}},
		{"open to all who claim to be somebody", "0.0.0.0", nil, 1, []string{"digest"}},
		{"open to all that have an address", "0.0.0.0", nil, 1, []string{"ip", "sasl"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := crashfs.New(1)
				if tc.root != nil {
					s := startOn(t, fs, "/data")
					s.connect(t).ok(jute.OpSetACL, &jute.SetACLRequest{Path: "/", ACL: tc.root, Version: -1})
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
				cfg := parseConfig(t, "/data")
				cfg.EnforceAuth, cfg.EnforceAuthSchemes = tc.schemes != nil, tc.schemes
				s := newTestServer(t, Options{FS: fs, Config: cfg})
				s.clientListener(tc.ip)
				if err := s.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if n := s.logged.FilterMessageSnippet("everybody who reaches the client port").Len(); n != tc.warns {
					t.Errorf("%d warnings, want %d", n, tc.warns)
				}
				if got := s.mntr(t)["open_root"]; got != strconv.Itoa(tc.warns) {
					t.Errorf("open_root is %s, want %d", got, tc.warns)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// clientListener makes the server believe that its clients connect to an IP address.
func (s *testServer) clientListener(ip string) {
	s.Server.opts.Listen = func(string, string) (net.Listener, error) {
		return &addressed{s.net, net.TCPAddr{IP: net.ParseIP(ip), Port: 2181}}, nil
	}
}

package transport

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// value returns the value of a metric with a label value.
func value(t *testing.T, reg prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				if g := m.GetGauge(); g != nil {
					return g.GetValue()
				}
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// TestStatusAndMetrics checks the status and the metrics with one peer up and one away.
func TestStatusAndMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		reg := prometheus.NewRegistry()
		a := newNode(t, net, 1, 1)
		b := newNode(t, net, 3, 3, func(o *Options) { o.Registerer = reg })
		a.tr.SetPeers([]Peer{{ID: 3, Addrs: []string{addrOf(3)}}})
		start := time.Now()
		within(t, 2*time.Second, "a link", func() bool { return linked(a, b) })
		a.send(3, 1)
		a.send(3, 1) // the gen is current, so all of this arrives
		a.tr.Send(3, 12345, nil)
		time.Sleep(time.Minute)
		s := b.tr.Peers()
		if len(s) != 2 || !s[0].Up || s[0].Gen != b.gen(1) || s[0].FramesIn < 2 || s[0].BytesIn == 0 || s[0].LastError != "" ||
			s[0].Since.Before(start) || s[0].Hello.Addr != addrOf(1) {
			t.Errorf("of the peer that is up: %+v", s)
		}
		if s[1].Up || s[1].DialFailures < 50 || !strings.Contains(s[1].LastError, "refused") || time.Since(s[1].LastErrorAt) > 2*time.Second {
			t.Errorf("of the peer that is away: %+v", s[1])
		}
		for _, tt := range []struct {
			name, label string
			atLeast     float64
		}{
			{"zkd_peer_up", "1", 1}, {"zkd_peer_up", "2", 0}, {"zkd_peer_received_bytes_total", "1", 20},
			{"zkd_peer_received_frames_total", "1", 2}, {"zkd_peer_sent_frames_total", "1", 1}, {"zkd_peer_bulk_queue_bytes", "1", 0},
			{"zkd_peer_control_queue_bytes", "1", 0}, {"zkd_peer_bulk_unread_bytes", "1", 0}, {"zkd_peer_bulk_window_bytes", "1", leastWindow},
			{"zkd_peer_links_total", "1", 1}, {"zkd_peer_dial_failures_total", "2", 50}, {"zkd_peer_refused_total", "unreachable", 50},
			{"zkd_peer_stale_messages_total", "", 0},
		} {
			if got := value(t, reg, tt.name, tt.label); got < tt.atLeast {
				t.Errorf("%s of %s: %v, want at least %v", tt.name, tt.label, got, tt.atLeast)
			}
		}
		net.reset("s1", "s3")
		within(t, 2*time.Second, "a new link", func() bool { return b.links() == 2 })
		if got := value(t, reg, "zkd_peer_link_downs_total", "broken"); got != 1 {
			t.Errorf("links that broke: %v", got)
		}
		b.close()
		if got := value(t, reg, "zkd_peer_up", "1"); got != -1 {
			t.Error("the metrics are still registered after Close")
		}
	})
}

// While a handler is slow to handle the end of a link, it gets no call for the next one.
func TestPeerUpWaitsForPeerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		a, b := newNode(t, net, 1, 1), newNode(t, net, 3, 3)
		a.onDown = func() { time.Sleep(5 * time.Second) } // b, which dials, is back earlier
		a.tr.SetPeers([]Peer{{ID: 3, Addrs: []string{addrOf(3)}}})
		within(t, 2*time.Second, "a link", func() bool { return linked(a, b) })
		net.reset("s1", "s3")
		within(t, 20*time.Second, "a new link", func() bool { return b.links() == 2 && linked(a, b) })
	})
}

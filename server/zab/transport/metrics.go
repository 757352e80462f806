package transport

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics collects the values of a transport when they are requested. It is a
// prometheus.Collector.
type metrics struct {
	t     *Transport
	stale atomic.Uint64 // messages for a link that is no longer up

	mu struct {
		sync.Mutex
		registered    bool
		refused, cuts map[string]uint64 // by cause
	}
}

func newMetrics(t *Transport) *metrics {
	m := &metrics{t: t}
	m.mu.refused, m.mu.cuts = make(map[string]uint64), make(map[string]uint64)
	return m
}

func (m *metrics) register(reg prometheus.Registerer) error {
	if reg == nil {
		return nil
	}
	if err := reg.Register(m); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.registered = true
	return nil
}

func (m *metrics) unregister(reg prometheus.Registerer) {
	m.mu.Lock()
	was := m.mu.registered
	m.mu.registered = false
	m.mu.Unlock()
	if was {
		reg.Unregister(m)
	}
}

// refuse counts a refused connection.
func (m *metrics) refuse(cause string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.refused[cause]++
}

// cut counts a link that went down.
func (m *metrics) cut(cause string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.cuts[cause]++
}

// family is a metric with one label.
type family struct {
	name, help, label string
	kind              prometheus.ValueType
}

func (f family) desc() *prometheus.Desc {
	return prometheus.NewDesc(f.name, f.help, []string{f.label}, nil)
}

var perPeer = []struct {
	family
	value func(PeerStatus) float64
}{
	{family{"zkd_peer_up", "1 if there is a link to the peer.", "peer", prometheus.GaugeValue},
		func(s PeerStatus) float64 { return float64(min(s.Gen, 1)) }},
	{family{"zkd_peer_received_bytes_total", "Bytes received from the peer, streams included.", "peer", prometheus.CounterValue},
		func(s PeerStatus) float64 { return float64(s.BytesIn) }},
	{family{"zkd_peer_sent_bytes_total", "Bytes sent to the peer, streams included.", "peer", prometheus.CounterValue},
		func(s PeerStatus) float64 { return float64(s.BytesOut) }},
	{family{"zkd_peer_received_frames_total", "Frames received on links to the peer.", "peer", prometheus.CounterValue},
		func(s PeerStatus) float64 { return float64(s.FramesIn) }},
	{family{"zkd_peer_sent_frames_total", "Frames queued on links to the peer.", "peer", prometheus.CounterValue},
		func(s PeerStatus) float64 { return float64(s.FramesOut) }},
	{family{"zkd_peer_control_queue_bytes", "Bytes that wait to be written to the peer in the control lane.", "peer", prometheus.GaugeValue},
		func(s PeerStatus) float64 { return float64(s.ControlBytes) }},
	{family{"zkd_peer_bulk_queue_bytes", "Bytes that wait to be written to the peer in the bulk lane.", "peer", prometheus.GaugeValue},
		func(s PeerStatus) float64 { return float64(s.BulkBytes) }},
	{family{"zkd_peer_bulk_unread_bytes", "Bytes of the bulk lane that are on their way to the peer.", "peer", prometheus.GaugeValue},
		func(s PeerStatus) float64 { return float64(s.UnreadBytes) }},
	{family{"zkd_peer_bulk_window_bytes", "How many bytes of the bulk lane may be on their way to the peer at the moment.", "peer", prometheus.GaugeValue},
		func(s PeerStatus) float64 { return float64(s.WindowBytes) }},
	{family{"zkd_peer_clock_ahead_seconds", "For how long at least the peer's wall clock is ahead of this server's, or behind if it is negative.", "peer", prometheus.GaugeValue},
		func(s PeerStatus) float64 { return s.ClockAhead.Seconds() }},
	{family{"zkd_peer_links_total", "How often a link to the peer came up.", "peer", prometheus.CounterValue},
		func(s PeerStatus) float64 { return float64(s.Links) }},
	{family{"zkd_peer_dial_failures_total", "Attempts to reach the peer that failed.", "peer", prometheus.CounterValue},
		func(s PeerStatus) float64 { return float64(s.DialFailures) }},
}

// certificateFamily is for the peers that have shown one.
var certificateFamily = family{"zkd_peer_certificate_not_after_seconds", "When the first of the certificates expires that the peer has shown last, as Unix time.", "peer", prometheus.GaugeValue}

var (
	refusedFamily = family{"zkd_peer_refused_total", "Connections between servers that did not come to be, by cause.", "cause", prometheus.CounterValue}
	cutFamily     = family{"zkd_peer_link_downs_total", "Links that went down, by cause.", "cause", prometheus.CounterValue}
	staleDesc     = prometheus.NewDesc("zkd_peer_stale_messages_total", "Messages dropped because their link was gone.", nil, nil)
)

// Describe lists the metrics.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range perPeer {
		ch <- f.desc()
	}
	ch <- certificateFamily.desc()
	ch <- refusedFamily.desc()
	ch <- cutFamily.desc()
	ch <- staleDesc
	if m.t.tls != nil {
		m.t.tls.Describe(ch)
	}
}

// Collect reads the metrics.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, p := range m.t.configured() {
		s := p.status()
		for _, f := range perPeer {
			ch <- prometheus.MustNewConstMetric(f.desc(), f.kind, f.value(s), p.name())
		}
		if until := s.CertificateUntil; !until.IsZero() {
			ch <- prometheus.MustNewConstMetric(certificateFamily.desc(), certificateFamily.kind, float64(until.Unix()), p.name())
		}
	}
	ch <- prometheus.MustNewConstMetric(staleDesc, prometheus.CounterValue, float64(m.stale.Load()))
	if m.t.tls != nil {
		m.t.tls.Collect(ch)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for cause, n := range m.mu.refused {
		ch <- prometheus.MustNewConstMetric(refusedFamily.desc(), refusedFamily.kind, float64(n), cause)
	}
	for cause, n := range m.mu.cuts {
		ch <- prometheus.MustNewConstMetric(cutFamily.desc(), cutFamily.kind, float64(n), cause)
	}
}

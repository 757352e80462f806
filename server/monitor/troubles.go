package monitor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/server/zab"
)

// Troubles is what a server knows to be wrong with it, for tools that explain what is wrong
// with an ensemble. Durations are 0 for what is not so.
type Troubles struct {
	Clock         time.Time     // wall clock
	FsyncPending  time.Duration // a write to the log has not ended for so long
	LogLacks      error         // why no segment of the log can be begun, which it waits for; nil if it does not wait
	DiskFull      time.Duration
	SnapshotsFail time.Duration
	SnapshotError string // of the last one, if that failed
	OpenRoot      bool   // everybody may change the tree
	// LongReply is the time since a reply was longer than clients accept, or would have been; 0 if none was.
	LongReply        time.Duration
	ExpiringSessions int // not heard of for two thirds of their timeouts; of a leader or a server alone

	// Of a leader: the voters whose acknowledgements do not count, and how long the first of
	// them is missing.
	MissingVoters []zab.SID
	VotersMissing time.Duration

	// PeerListen says where the server can't listen for others, and why; "" if it listens.
	PeerListen string

	// When the first certificate of a port expires; zero if there is none.
	ClientCertificate, QuorumCertificate time.Time
	// Why the changed TLS files of a port can't be used, nil if there is no such reason.
	ClientReload, QuorumReload error
	// UnlistedSecurePort is the port with TLS for clients that the list of members does not have; 0 if
	// there is none.
	UnlistedSecurePort int
}

// words returns what mntr shows of them.
func (t *Troubles) words() []fourletter.Metric {
	number := func(yes bool) int64 {
		if yes {
			return 1
		}
		return 0
	}
	list := []fourletter.Metric{
		fourletter.Int("clock_ms", t.Clock.UnixMilli()),
		fourletter.Int("fsync_pending_ms", t.FsyncPending.Milliseconds()),
		fourletter.Int("disk_full_ms", t.DiskFull.Milliseconds()),
		fourletter.Int("snapshots_fail_ms", t.SnapshotsFail.Milliseconds()),
		fourletter.Int("open_root", number(t.OpenRoot)),
		fourletter.Int("sessions_expiring", int64(t.ExpiringSessions)),
	}
	if t.LongReply > 0 {
		list = append(list, fourletter.Int("long_reply_ago_ms", t.LongReply.Milliseconds()))
	}
	if t.LogLacks != nil {
		list = append(list, fourletter.Metric{Name: "log_waits_for", Value: oneLine(t.LogLacks.Error())})
	}
	if t.PeerListen != "" {
		list = append(list, fourletter.Metric{Name: "peer_listen_error", Value: oneLine(t.PeerListen)})
	}
	if t.SnapshotError != "" {
		list = append(list, fourletter.Metric{Name: "snapshot_error", Value: oneLine(t.SnapshotError)})
	}
	if len(t.MissingVoters) > 0 {
		ids := make([]string, len(t.MissingVoters))
		for i, id := range t.MissingVoters {
			ids[i] = fmt.Sprint(id)
		}
		list = append(list, fourletter.Metric{Name: "voters_missing", Value: strings.Join(ids, ", ")},
			fourletter.Int("voters_missing_ms", t.VotersMissing.Milliseconds()))
	}
	for name, at := range map[string]time.Time{"client": t.ClientCertificate, "quorum": t.QuorumCertificate} {
		if !at.IsZero() {
			list = append(list, fourletter.Int(name+"_certificate_until_ms", at.UnixMilli()))
		}
	}
	for name, err := range map[string]error{"client": t.ClientReload, "quorum": t.QuorumReload} {
		if err != nil {
			list = append(list, fourletter.Metric{Name: name + "_certificate_reload_error", Value: oneLine(err.Error())})
		}
	}
	if t.UnlistedSecurePort > 0 {
		list = append(list, fourletter.Int("secure_port_unlisted", int64(t.UnlistedSecurePort)))
	}
	slices.SortFunc(list, func(a, b fourletter.Metric) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// oneLine returns the beginning of a text without line breaks and tabs.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 500)]
}

package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// Troubles is what a server knows to be wrong with it, for tools that explain what is wrong
// with an ensemble. Durations are 0 for what is not so.
type Troubles struct {
	Clock         time.Time     // wall clock
	ClockJump     time.Duration // by which it was last set at once; 0 if it was not
	ClockJumpAgo  time.Duration
	FsyncPending  time.Duration // a write to the log has not ended for so long
	LogLacks      error         // why no segment of the log can be begun, which it waits for; nil if it does not wait
	DiskFull      time.Duration
	DiskLacks     string // "bytes" or "inodes"; "" if the disk is not full
	MemoryShort   time.Duration
	SnapshotsFail time.Duration
	SnapshotError string // of the last one, if that failed
	OpenRoot      bool   // everybody may change the tree
	// LongReply is the time since a reply was longer than clients accept, or would have been; 0 if none was.
	LongReply        time.Duration
	BrokenRequest    string // the last request that it could not evaluate, because of a bug; "" for none
	ExpiringSessions int    // not heard of for two thirds of their timeouts; of a leader or a server alone

	// RetiredSince is since when the ensemble serves no client, because an operator has retired it; 0 if it does.
	RetiredSince jute.Zxid

	// Of a leader: the voters whose acknowledgements do not count, and how long the first of
	// them is missing.
	MissingVoters []zab.SID
	VotersMissing time.Duration

	// AuditLacks is what the audit log waits for, which holds up the answers to clients; nil if it does not wait.
	AuditLacks error
	// Accept is why no connection of a client can be accepted; nil if they can.
	Accept error

	// PeerListen says where the server can't listen for others, and why; "" if it listens.
	PeerListen string

	// When the first certificate of a port expires; zero if there is none.
	ClientCertificate, QuorumCertificate time.Time
	// The same of its revocation lists.
	ClientRevocations, QuorumRevocations time.Time
	// The same of other servers, as they have shown them to this one.
	PeerCertificates []PeerCertificate
	// Why the changed TLS files of a port can't be used, nil if there is no such reason.
	ClientReload, QuorumReload error
	Standby                    Standby // of a copy

	// UnlistedSecurePort is the port with TLS for clients that the list of members does not have; 0 if
	// there is none.
	UnlistedSecurePort int
}

// PeerCertificate is when the first of the certificates of another server expires, zero if it has shown none, and why there is
// no link with it, if a certificate is the cause.
type PeerCertificate struct {
	ID    zab.SID
	Until time.Time
	Error string
}

// trouble is a line of mntr about Troubles. A new one is a field of Troubles, with its line where
// the server fills it, and a row of the table.
type trouble struct {
	name string
	text func(*Troubles) string // "" hides the line
}

// troubles are in the order of mntr.
var troubles = []trouble{
	{"accept_error", func(t *Troubles) string { return errorText(t.Accept) }},
	{"audit_waits_for", func(t *Troubles) string { return errorText(t.AuditLacks) }},
	{"broken_request", func(t *Troubles) string { return oneLine(t.BrokenRequest) }},
	{"client_certificate_reload_error", func(t *Troubles) string { return errorText(t.ClientReload) }},
	{"client_certificate_until_ms", func(t *Troubles) string { return timeText(t.ClientCertificate) }},
	{"client_revocation_list_until_ms", func(t *Troubles) string { return timeText(t.ClientRevocations) }},
	{"clock_jump_ago_ms", func(t *Troubles) string {
		if t.ClockJump == 0 {
			return ""
		}
		return millis(t.ClockJumpAgo)
	}},
	{"clock_jump_ms", func(t *Troubles) string {
		if t.ClockJump == 0 {
			return ""
		}
		return millis(t.ClockJump)
	}},
	{"clock_ms", func(t *Troubles) string { return strconv.FormatInt(t.Clock.UnixMilli(), 10) }},
	{"disk_full_ms", func(t *Troubles) string { return millis(t.DiskFull) }},
	{"disk_lacks", func(t *Troubles) string { return t.DiskLacks }},
	{"fsync_pending_ms", func(t *Troubles) string { return millis(t.FsyncPending) }},
	{"log_waits_for", func(t *Troubles) string { return errorText(t.LogLacks) }},
	{"long_reply_ago_ms", func(t *Troubles) string {
		if t.LongReply <= 0 {
			return ""
		}
		return millis(t.LongReply)
	}},
	{"memory_short_ms", func(t *Troubles) string { return millis(t.MemoryShort) }},
	{"open_root", func(t *Troubles) string {
		if t.OpenRoot {
			return "1"
		}
		return "0"
	}},
	{"peer_certificate_errors", func(t *Troubles) string {
		return peersText(t, func(p *PeerCertificate) string { return p.Error })
	}},
	{"peer_certificates_until_ms", func(t *Troubles) string {
		return peersText(t, func(p *PeerCertificate) string { return timeText(p.Until) })
	}},
	{"peer_listen_error", func(t *Troubles) string { return oneLine(t.PeerListen) }},
	{"quorum_certificate_reload_error", func(t *Troubles) string { return errorText(t.QuorumReload) }},
	{"quorum_certificate_until_ms", func(t *Troubles) string { return timeText(t.QuorumCertificate) }},
	{"quorum_revocation_list_until_ms", func(t *Troubles) string { return timeText(t.QuorumRevocations) }},
	{"retired_since", func(t *Troubles) string {
		if t.RetiredSince == 0 {
			return ""
		}
		return t.RetiredSince.String()
	}},
	{"secure_port_unlisted", func(t *Troubles) string {
		if t.UnlistedSecurePort <= 0 {
			return ""
		}
		return strconv.Itoa(t.UnlistedSecurePort)
	}},
	{"sessions_expiring", func(t *Troubles) string { return strconv.Itoa(t.ExpiringSessions) }},
	{"snapshot_error", func(t *Troubles) string { return oneLine(t.SnapshotError) }},
	{"snapshots_fail_ms", func(t *Troubles) string { return millis(t.SnapshotsFail) }},
	{"standby_behind_ms", func(t *Troubles) string {
		if t.Standby.Behind == 0 {
			return ""
		}
		return millis(t.Standby.Behind)
	}},
	{"standby_fetches", func(t *Troubles) string {
		if !t.Standby.Fetches {
			return ""
		}
		return t.Standby.progress()
	}},
	{"standby_from", func(t *Troubles) string { return t.Standby.From }},
	{"standby_of", func(t *Troubles) string { return t.Standby.Of }},
	{"standby_problem", func(t *Troubles) string { return oneLine(t.Standby.Problem) }},
	{"standby_silent_ms", func(t *Troubles) string {
		if t.Standby.Silent == 0 {
			return ""
		}
		return millis(t.Standby.Silent)
	}},
	{"standby_since_ms", func(t *Troubles) string {
		if t.Standby.Of == "" {
			return ""
		}
		return millis(t.Standby.Since)
	}},
	{"voters_missing", func(t *Troubles) string {
		ids := make([]string, len(t.MissingVoters))
		for i, id := range t.MissingVoters {
			ids[i] = fmt.Sprint(id)
		}
		return strings.Join(ids, ", ")
	}},
	{"voters_missing_ms", func(t *Troubles) string {
		if len(t.MissingVoters) == 0 {
			return ""
		}
		return millis(t.VotersMissing)
	}},
}

// peersText returns what there is to say of other servers: "2=TEXT; 3=TEXT".
func peersText(t *Troubles, of func(*PeerCertificate) string) string {
	var list []string
	for i := range t.PeerCertificates {
		if text := of(&t.PeerCertificates[i]); text != "" {
			list = append(list, fmt.Sprintf("%d=%s", t.PeerCertificates[i].ID, strings.ReplaceAll(text, ";", ",")))
		}
	}
	return oneLine(strings.Join(list, "; "))
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// timeText returns a time in ms since the Unix epoch, "" for none.
func timeText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return strconv.FormatInt(at.UnixMilli(), 10)
}

// errorText returns the beginning of an error, "" for none.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return oneLine(err.Error())
}

// oneLine returns the beginning of a text without line breaks and tabs.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 500)]
}

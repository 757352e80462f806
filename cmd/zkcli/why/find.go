package why

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/expiry"
)

// Severity says how bad a finding is.
type Severity int

// The severities, the worst first.
const (
	Broken Severity = iota // clients are not served, or not as they should be
	Danger                 // it works, and may break soon, or with the next failure
	Notice                 // somebody should know
)

// String returns the word for s.
func (s Severity) String() string { return [...]string{"broken", "danger", "notice"}[s] }

// MarshalText writes the word.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is something that is wrong.
type Finding struct {
	ID       string   `json:"id"` // the anchor in docs/why.md
	Severity Severity `json:"severity"`
	Servers  []string `json:"servers"`
	What     string   `json:"what"` // a sentence
	// Since is for how long it has been so, 0 if nobody knows.
	Since time.Duration `json:"sinceNs,omitempty"`
	Do    string        `json:"do"` // sentences
}

// Limits above which something is remarkable.
const (
	slowFsync      = 50 * time.Millisecond // mean of a sync of the log; a disk fit for it needs less than 10 ms
	stuckFsync     = time.Second
	clockSkew      = 500 * time.Millisecond
	manyWatches    = 1_000_000   // on one server
	busyRequests   = 500         // per second, from one address
	busyConnects   = 20          // connections per second, of one server
	counterNearEnd = 0xF000_0000 // of 0xFFFF_FFFF
	// zkd renews its epoch from 0xFFFF0000 on. A counter beyond this means that it can't.
	counterNotRenewed = 0xFFFF_8000
	certificateUrgent = 7 * 24 * time.Hour
	fewFiles          = 0.9 // of the limit of open files
	longReplyOld      = time.Hour
	clockJumpOld      = time.Hour
	muchMemory        = 85 // percent of what nothing may exceed
	standbyLag        = 10 * time.Second
)

// Find returns what is wrong, the worst first.
func Find(f Facts) []Finding {
	l := &look{Facts: f}
	for _, check := range []func(){
		l.quorum, l.leaders, l.retired, l.voters, l.unreachable, l.each(l.deaf), l.each(l.logs), l.each(l.audits), l.each(l.disks),
		l.each(l.slowDisks), l.each(l.snapshots), l.each(l.pasts), l.slowFollowers, l.each(l.jumps), l.clocks, l.counters,
		l.each(l.certificates), l.peerCertificates, l.each(l.revocations), l.each(l.reloads), l.each(l.securePorts), l.sessions,
		l.each(l.files), l.each(l.memory), l.each(l.broken), l.versions, l.each(l.edges), l.standbys, l.each(l.lists), l.clients,
		l.each(l.watches), l.each(l.replies), l.root, l.blind,
	} {
		check()
	}
	slices.SortStableFunc(l.found, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	return l.found
}

// look is a look at some facts.
type look struct {
	Facts
	found []Finding
	named map[string]bool // servers that a finding already reports as down
}

// each returns a check of all servers that serve, one after the other.
func (l *look) each(check func(s *Server)) func() {
	return func() {
		for _, s := range l.serving() {
			check(s)
		}
	}
}

func (l *look) add(f Finding) { l.found = append(l.found, f) }

func (l *look) serving() (list []*Server) {
	for i := range l.Servers {
		if l.Servers[i].serves() {
			list = append(list, &l.Servers[i])
		}
	}
	return list
}

func (l *look) leader() *Server {
	for _, s := range l.serving() {
		if s.Mode == "leader" || s.Mode == "standalone" {
			return s
		}
	}
	return nil
}

// away marks servers as mentioned.
func (l *look) away(s *Server) {
	if l.named == nil {
		l.named = make(map[string]bool)
	}
	l.named[s.Name] = true
}

// state says what is the matter with a server that does not serve.
func state(s *Server) string {
	switch {
	case s.Unreachable != "":
		return s.Name + " can't be reached (" + s.Unreachable + ")"
	case s.Detail != "":
		return s.Name + " runs, and finds no quorum: " + s.Detail
	}
	return s.Name + " runs, and finds no quorum"
}

func (l *look) quorum() {
	member := func(s Server) bool { return !s.standby() }
	if len(l.serving()) > 0 || !slices.ContainsFunc(l.Servers, member) {
		return
	}
	f := Finding{ID: "no-quorum", Severity: Broken}
	var states []string
	running, voters := 0, 0
	for i := range l.Servers {
		s := &l.Servers[i]
		if s.standby() {
			continue
		}
		l.away(s)
		f.Servers = append(f.Servers, s.Name)
		states = append(states, state(s))
		if s.Observer {
			continue
		}
		if voters++; s.Unreachable == "" {
			running++
		}
	}
	f.What = "No server that was asked serves clients: " + strings.Join(states, "; ") + "."
	switch {
	case running == 0:
		f.Do = "Start the servers, or look whether their client ports can be reached from here. A majority of them must run."
	case 2*running <= voters:
		f.Do = fmt.Sprintf("Only %d of %d voters run, and more than half are needed. Start those that can't be reached; their logs say why they ended.", running, voters)
	case !l.Complete:
		f.Do = fmt.Sprintf("%d of the %d servers that were asked run. Servers without a quorum do not tell which other members there are: name all of them, as in -server zk1,zk2,zk3. A majority of the voters must run.", running, voters)
	default:
		f.Do = "Enough servers run, and they do not find each other. Look at the ports between them (2888 and 3888 by default), at the secret or the certificates, and at the lines of their logs about elections."
	}
	l.add(f)
}

func (l *look) leaders() {
	f := Finding{ID: "two-leaders", Severity: Broken}
	for _, s := range l.serving() {
		if s.Mode == "leader" {
			f.Servers = append(f.Servers, s.Name)
		}
	}
	if len(f.Servers) < 2 {
		return
	}
	f.What = strings.Join(f.Servers, " and ") + " say that they lead."
	f.Do = "Ask again: the lead may have moved between the answers. If it stays so, these servers are of different ensembles: compare their server.N lines."
	l.add(f)
}

func (l *look) voters() {
	leader := l.leader()
	if leader == nil || leader.Mode != "leader" {
		return
	}
	size, ok1 := leader.After.number("quorum_size")
	followers, ok2 := leader.After.number("synced_followers")
	missing := int(size - 1 - followers)
	if !ok1 || !ok2 || missing <= 0 {
		return
	}
	f := Finding{ID: "voter-missing", Severity: Danger, Since: leader.After.lasts("voters_missing_ms")}
	who := ""
	for id := range strings.SplitSeq(leader.After.Metrics["voters_missing"], ", ") {
		if id == "" {
			continue
		}
		name := "server " + id
		for i := range l.Servers {
			if s := &l.Servers[i]; fmt.Sprint(s.ID) == id {
				l.away(s)
				f.Servers = append(f.Servers, s.Name)
				if name += " (" + s.Name + ")"; !s.serves() {
					name = "server " + id + ": " + state(s)
				}
			}
		}
		who += "; " + name
	}
	f.What = fmt.Sprintf("The leader %s misses %d of %d voters%s.", leader.Name, missing, int(size), who)
	f.Do = "Start the server, or look at its log and at the ports between it and the leader. If it is not to come, take it out of the members: zkcli member remove. "
	if left := int(size)/2 - missing; left > 0 {
		f.Do += fmt.Sprintf("Until then %d further failures are tolerated.", left)
	} else {
		f.Do += "Until then no further failure is tolerated: do not restart another server."
	}
	l.add(f)
}

func (l *look) unreachable() {
	if len(l.serving()) == 0 {
		return
	}
	for i := range l.Servers {
		s := &l.Servers[i]
		switch {
		case s.serves() || s.standby() || l.named[s.Name]:
		case s.Unreachable != "":
			l.add(Finding{ID: "unreachable", Severity: Danger, Servers: []string{s.Name},
				What: state(s) + ", while others serve.",
				Do:   "If it should run, start it and look at its log. If it runs, its client port can't be reached from here: look at clientPortAddress, firewalls and TLS."})
		default:
			l.add(Finding{ID: "not-serving", Severity: Danger, Servers: []string{s.Name},
				What: state(s) + ", while others serve.",
				Do:   "It may be starting, or receive a snapshot: its log says so. If it stays so, it does not reach the leader: look at the ports between servers."})
		}
	}
}

// deaf finds servers that the others can't dial. One that serves nobody says so in its log and in readyz.
func (l *look) deaf(s *Server) {
	text := s.After.Metrics["peer_listen_error"]
	if text == "" {
		return
	}
	l.add(Finding{ID: "peers-cant-connect", Severity: Danger, Servers: []string{s.Name},
		What: fmt.Sprintf("%s can't listen for the other servers (%s): it is linked only with those of a lower id, which it dials itself.", s.Name, text),
		Do:   "Free the port, which ss -ltnp names the owner of, or correct the address in the server's line; too many open files: raise LimitNOFILE. The server tries again by itself."})
}

func (l *look) disks(s *Server) {
	full, refuses := s.After.is("disk_full"), s.After.is("writes_refused")
	if !full && !refuses {
		return
	}
	f := Finding{ID: "full-disk", Severity: Danger, Servers: []string{s.Name}, Since: s.After.lasts("disk_full_ms"),
		What: "The disk of the log of " + s.Name + " is full.",
		Do:   "Make room on the disk of dataLogDir, or delete nodes with zkcli: deletes are accepted. Writes are taken again by themselves."}
	switch {
	case full && refuses:
		f.Severity = Broken
		f.What = "The disk of the log of " + s.Name + " is full, and the server refuses writes."
	case refuses:
		f.Severity = Broken
		f.What = s.Name + " refuses writes, because the voters whose disks have room are no quorum."
	}
	if full && s.After.Metrics["disk_lacks"] == "inodes" {
		f.What = strings.Replace(f.What, "is full", "has too few inodes left", 1)
		f.Do = "Something makes very many files on the disk of dataLogDir: df -i shows it. Remove them, or give the log a disk of its own. Writes are taken again by themselves."
	}
	l.add(f)
}

// logs finds logs that wait for what they need to continue.
func (l *look) logs(s *Server) {
	waits := s.After.Metrics["log_waits_for"]
	if waits == "" && !s.After.is("log_waits") {
		return
	}
	so := "the server acknowledges nothing"
	if s.standby() {
		so = "nothing more of the copy gets onto the disk"
	}
	f := Finding{ID: "log-waits", Severity: Danger, Servers: []string{s.Name}, Since: s.After.lasts("fsync_pending_ms"),
		What: fmt.Sprintf("The log of %s waits, as it can't begin its next segment (%s): %s.", s.Name, cmp.Or(waits, "the server's log says why"), so),
		Do:   "No space left: make room on the disk of dataLogDir; df -i tells whether it lacks inodes. Too many open files: raise LimitNOFILE for the next start, and end clients. The server tries again each second; a restart brings no room."}
	if s.Mode == "standalone" {
		f.Severity = Broken
	}
	l.add(f)
}

// audits finds audit logs that wait.
func (l *look) audits(s *Server) {
	if text := s.After.Metrics["audit_waits_for"]; text != "" {
		l.add(Finding{ID: "audit-waits", Severity: Broken, Servers: []string{s.Name},
			What: fmt.Sprintf("The audit log of %s can't be written (%s): clients of this server get no answers to what has an entry there.", s.Name, text),
			Do:   "Make room on the disk of zkd.audit.file; df -i tells whether it lacks inodes. Too many open files: raise LimitNOFILE. The server tries again each second, and loses no entry."})
	}
}

func (l *look) slowDisks(s *Server) {
	if s.After.is("log_waits") {
		return
	}
	f := Finding{ID: "slow-disk", Severity: Danger, Servers: []string{s.Name},
		Do: "Look what else uses the disk of dataLogDir (iostat -x 1), and give the log a disk to itself with fast fsync. While one follower is slow, writes wait for the others only; a slow leader slows every write: zkcli member transfer-leader moves the lead."}
	if pending := s.After.lasts("fsync_pending_ms"); pending > stuckFsync {
		f.What = fmt.Sprintf("The disk of %s has not ended a write to the log for %s.", s.Name, span(pending))
		f.Since = pending
		l.add(f)
		return
	}
	n, ok1 := s.growth("cnt_fsynctime")
	sum, ok2 := s.growth("sum_fsynctime")
	when := "now"
	if !ok1 || !ok2 || n < 3 {
		n, _ = s.After.number("cnt_fsynctime")
		sum, _ = s.After.number("sum_fsynctime")
		when = "on average since its start"
		if n < 20 {
			return
		}
	}
	if mean := time.Duration(sum / n * float64(time.Millisecond)); mean > slowFsync {
		longest, _ := s.After.number("max_fsynctime")
		f.What = fmt.Sprintf("The disk of %s is slow: a sync of the log takes %s %s, and took %s at most.", s.Name, span(mean), when, span(time.Duration(longest)*time.Millisecond))
		l.add(f)
	}
}

func (l *look) snapshots(s *Server) {
	lasts := s.After.lasts("snapshots_fail_ms")
	if lasts == 0 {
		return
	}
	l.add(Finding{ID: "snapshot-fails", Severity: Danger, Servers: []string{s.Name}, Since: lasts,
		What: fmt.Sprintf("%s can't write snapshots: %s.", s.Name, cmp.Or(s.After.Metrics["snapshot_error"], "its log says why")),
		Do:   "Look at room and permissions of dataDir. The log has everything, but grows until a snapshot succeeds, and the next start takes longer."})
}

// retired finds an ensemble that an operator has retired.
func (l *look) retired() {
	f := Finding{ID: "retired", Severity: Broken,
		Do: "Promote the standbys, if that is not done yet, and stop these servers then. To have this ensemble serve again: zkcli member retire --end, unless a standby has been promoted."}
	for _, s := range l.serving() {
		if since := s.After.Metrics["retired_since"]; since != "" {
			f.Servers = append(f.Servers, s.Name)
			f.What = fmt.Sprintf("An operator has retired the ensemble, at zxid %s: clients are sent away, nothing is written, and no session expires.", since)
		}
	}
	if f.What != "" {
		l.add(f)
	}
}

// pasts finds servers that keep less of the past than they are told to.
func (l *look) pasts(s *Server) {
	if !s.After.is("past_cut") {
		return
	}
	age, _ := s.After.number("past_seconds")
	bytes, _ := s.After.number("past_bytes")
	wanted, _ := s.After.number("past_wanted_seconds")
	const kib = 1024
	f := Finding{ID: "short-past", Severity: Notice, Servers: []string{s.Name},
		What: fmt.Sprintf("The past of %s goes back %s, and zkd.historyHours wants %s: zkd.historyKb has no room for more.", s.Name, span(time.Duration(age)*time.Second), span(time.Duration(wanted)*time.Second)),
		Do:   "Raise zkd.historyKb, or lower zkd.historyHours: both can change while the server runs. What is gone is gone; zkcli backup follow keeps a past without end elsewhere."}
	if age >= 1 {
		f.Do = strings.Replace(f.Do, "zkd.historyKb,", fmt.Sprintf("zkd.historyKb to about %.0f (it needs %.0f for what there is),", math.Ceil(bytes*wanted/age/kib), math.Ceil(bytes/kib)), 1)
	}
	l.add(f)
}

func (l *look) slowFollowers() {
	leader := l.leader()
	if leader == nil || leader.Before.Zxid == 0 {
		return
	}
	for _, s := range l.serving() {
		at, was := s.After.Zxid, leader.Before.Zxid
		if s == leader || at == 0 || at >= was {
			continue
		}
		behind := "in an earlier epoch than"
		if at>>32 == was>>32 {
			behind = fmt.Sprintf("%d transactions behind", leader.After.Zxid-at)
		}
		l.add(Finding{ID: "slow-follower", Severity: Danger, Servers: []string{s.Name},
			What: fmt.Sprintf("%s is %s the leader: it does not have now what the leader had %s ago.", s.Name, behind, span(l.Interval)),
			Do:   "Its clients read old data. Look at its processor, its disk and the line to the leader; zkcli top shows whether its clients overload it."})
	}
}

func (l *look) clocks() {
	type clock struct {
		s           *Server
		skew, doubt time.Duration
	}
	var list []clock
	for _, s := range l.serving() {
		if _, ok := s.After.number("clock_ms"); ok {
			list = append(list, clock{s, s.After.Skew, s.After.Doubt})
		}
	}
	if len(list) < 2 {
		return
	}
	slices.SortFunc(list, func(a, b clock) int { return cmp.Compare(a.skew, b.skew) })
	middle := list[(len(list)-1)/2]
	for _, c := range list {
		off := c.skew - middle.skew
		if off.Abs() <= clockSkew+c.doubt+middle.doubt {
			continue
		}
		way := "ahead of"
		if off < 0 {
			way = "behind"
		}
		l.add(Finding{ID: "clock-skew", Severity: Notice, Servers: []string{c.s.Name},
			What: fmt.Sprintf("The clock of %s is %s %s that of %s.", c.s.Name, span(off.Abs()), way, middle.s.Name),
			Do:   "Run chrony or another NTP client on all servers. Order and sessions do not depend on the clocks, but times of nodes, TTLs, tokens and certificates do."})
	}
}

// jumps finds clocks that were set.
func (l *look) jumps(s *Server) {
	by := s.After.lasts("clock_jump_ms")
	if ago := s.After.lasts("clock_jump_ago_ms"); by != 0 && ago < clockJumpOld {
		way := "ahead"
		if by < 0 {
			way = "back"
		}
		l.add(Finding{ID: "clock-skew", Severity: Notice, Servers: []string{s.Name},
			What: fmt.Sprintf("The clock of %s was set %s by %s, %s ago.", s.Name, way, span(by.Abs()), span(ago)),
			Do:   "Look what sets it: a time server that disagrees, a virtual machine that was moved, or somebody. Order, sessions and elections do not depend on it, but times of nodes, TTLs, tokens and certificates do."})
	}
}

func (l *look) counters() {
	s := l.leader()
	if s == nil {
		return
	}
	counter := s.After.Zxid & 0xFFFF_FFFF
	_, ours := s.After.number("clock_ms")
	if counter < counterNearEnd || ours && counter < counterNotRenewed {
		return
	}
	f := Finding{ID: "zxid-end", Severity: Danger, Servers: []string{s.Name},
		What: fmt.Sprintf("The counter of transactions of this epoch is at 0x%x of 0xffffffff.", counter),
		Do:   "At its end this server's ensemble elects a leader again. Choose the moment yourself: restart the leader when a pause does no harm."}
	if ours {
		f.What += " The leader should have begun another epoch."
		f.Do = "A leader needs a quorum's promise for that. Look at the other findings and at the leader's log; transfer-leader helps, too."
	}
	l.add(f)
}

func (l *look) certificates(s *Server) {
	for _, port := range []string{"client", "quorum", "upstream"} {
		until, ok := s.After.number(port + "_certificate_until_ms")
		if !ok {
			continue
		}
		left := time.Duration(int64(until)-l.Now) * time.Millisecond
		f := Finding{ID: "certificate", Severity: Notice, Servers: []string{s.Name},
			What: fmt.Sprintf("A certificate of %s for its %s port expires in %s.", s.Name, port, span(left)),
			Do:   "Put a new certificate into the file: it is read again without a restart. zkd_tls_certificate_not_after_seconds in the metrics says which one it is."}
		switch {
		case left > expiry.Certificate:
			continue
		case left <= 0:
			f.Severity, f.Since = Broken, -left
			f.What = fmt.Sprintf("A certificate of %s for its %s port has expired.", s.Name, port)
		case left < certificateUrgent:
			f.Severity = Danger
		}
		l.add(f)
	}
}

// peerCertificates finds certificates of servers that are not asked, or say nothing of theirs, by what the others have seen, and
// links that fail because of a certificate.
func (l *look) peerCertificates() {
	told := make(map[string]bool) // servers that say when theirs expire, or of which others have said it
	for _, s := range l.serving() {
		if _, ok := s.After.number("quorum_certificate_until_ms"); ok {
			told[fmt.Sprint(s.ID)] = true
		}
	}
	linkless := make(map[string]bool)
	for _, s := range l.serving() {
		for id, text := range perPeer(s.After.Metrics["peer_certificates_until_ms"]) {
			until, err := strconv.ParseInt(text, 10, 64)
			left := time.Duration(until-l.Now) * time.Millisecond
			if told[id] || err != nil || left > expiry.Certificate {
				continue
			}
			told[id] = true
			f := Finding{ID: "certificate", Severity: Danger, Servers: []string{s.Name},
				What: fmt.Sprintf("The certificate that server %s has shown to %s expires in %s.", id, s.Name, span(left)),
				Do:   "Put a new certificate into the file of that server: it is read again without a restart. When it has expired, the links that are there stay, and no other one comes to be."}
			if left <= 0 {
				f.Severity, f.Since = Broken, -left
				f.What = fmt.Sprintf("The certificate that server %s has shown to %s has expired.", id, s.Name)
			}
			l.add(f)
		}
		for id, text := range perPeer(s.After.Metrics["peer_certificate_errors"]) {
			if linkless[id] {
				continue // another server has said it
			}
			linkless[id] = true
			l.add(Finding{ID: "certificate", Severity: Danger, Servers: []string{s.Name},
				What: fmt.Sprintf("%s has no link with server %s because of a certificate: %s.", s.Name, id, strings.TrimSuffix(text, ".")),
				Do:   "Put a certificate into the file of the server that the text is about that is valid, is of an authority that the others trust, and names the server. It is read again without a restart."})
		}
	}
}

// perPeer yields the ids and texts of "2=TEXT; 3=TEXT".
func perPeer(list string) iter.Seq2[string, string] {
	return func(yield func(id, text string) bool) {
		for one := range strings.SplitSeq(list, "; ") {
			if id, text, ok := strings.Cut(one, "="); ok && !yield(id, text) {
				return
			}
		}
	}
}

// revocations finds revocation lists that are, or soon will be, out of date.
func (l *look) revocations(s *Server) {
	for _, port := range []string{"client", "quorum"} {
		until, ok := s.After.number(port + "_revocation_list_until_ms")
		left := time.Duration(int64(until)-l.Now) * time.Millisecond
		if !ok || left > expiry.RevocationList {
			continue
		}
		f := Finding{ID: "certificate", Severity: Danger, Servers: []string{s.Name},
			What: fmt.Sprintf("A revocation list of %s for its %s port is out of date in %s.", s.Name, port, span(left)),
			Do:   "Put a new list into the file: it is read again without a restart. Without a valid list, the certificates of its issuer are refused."}
		if left <= 0 {
			f.Severity, f.Since = Broken, -left
			f.What = fmt.Sprintf("A revocation list of %s for its %s port is out of date: new connections with certificates of its issuer are refused.", s.Name, port)
		}
		l.add(f)
	}
}

// reloads finds changed certificates that can't be used.
func (l *look) reloads(s *Server) {
	for _, port := range []string{"client", "quorum"} {
		if reason := s.After.Metrics[port+"_certificate_reload_error"]; reason != "" {
			l.add(Finding{ID: "certificate-reload", Severity: Danger, Servers: []string{s.Name},
				What: fmt.Sprintf("The changed TLS files of %s for its %s port can't be used: %s.", s.Name, port, strings.TrimSuffix(reason, ".")),
				Do:   "The server keeps using what it had, until that expires, and does not start with these files. Put right files in place, key and certificate together: they are read again without a restart."})
		}
	}
}

// securePorts finds ports with TLS that clients do not find in the list of members.
func (l *look) securePorts(s *Server) {
	if port := s.After.Metrics["secure_port_unlisted"]; port != "" {
		l.add(Finding{ID: "secure-port", Severity: Notice, Servers: []string{s.Name},
			What: fmt.Sprintf("%s takes clients with TLS at port %s, and its line in the list of members does not have that port.", s.Name, port),
			Do:   "Clients and tools that find the members by that list do not find the port. Write it as the second one after the address: server.N=HOST:2888:3888;CLIENTPORT;SECUREPORT, in the files of all servers or by a reconfig."})
	}
}

// memory finds servers near the limit of their memory.
func (l *look) memory(s *Server) {
	used, _ := s.After.number("memory_used_percent")
	full, short := s.After.is("tree_full"), s.After.is("memory_short")
	if used < muchMemory && !full {
		return
	}
	limit, _ := s.After.number("memory_limit_bytes")
	f := Finding{ID: "memory", Severity: Danger, Servers: []string{s.Name}, Since: s.After.lasts("memory_short_ms"),
		What: fmt.Sprintf("%s uses %.0f %% of what its data may take of %.0f MiB of memory. At 100 %% writes that need more are refused on all servers.", s.Name, used, limit/(1<<20)),
		Do:   "Give all servers more memory (the limit of the container or unit, zkd.memoryLimit), delete data (zkcli du shows where it is), or limit who writes by quotas. Deletes and sets of shorter data are accepted always."}
	switch {
	case full:
		f.Severity = Broken
		f.What = s.Name + " refuses writes that need more memory, since a member can't hold a larger tree."
	case short:
		f.What = s.Name + " is short of memory: writes that need more are refused on all servers."
	}
	l.add(f)
}

// broken finds servers that could not evaluate a request.
func (l *look) broken(s *Server) {
	if n, _ := s.After.number("requests_broken"); n > 0 {
		l.add(Finding{ID: "broken-request", Severity: Danger, Servers: []string{s.Name},
			What: fmt.Sprintf("%s could not evaluate %.0f requests, by a fault of zkd, and refused them with SystemError. The last one was %s.", s.Name, n, s.After.Metrics["broken_request"]),
			Do:   "Nothing was done of them, and the service goes on. Report the line \"a request can't be evaluated\" of its log."})
	}
}

func (l *look) sessions() {
	s := l.leader()
	if s == nil {
		return
	}
	late, _ := s.After.number("sessions_expiring")
	all, _ := s.After.number("global_sessions")
	if late == 0 {
		return
	}
	f := Finding{ID: "sessions-expiring", Severity: Notice, Servers: []string{s.Name},
		What: fmt.Sprintf("%d of %d sessions are about to expire: their clients were not heard of for two thirds of their timeouts.", int(late), int(all)),
		Do:   "A few are clients that ended without a word. Many at once are a network or a machine that is gone, or paused clients: their ephemeral nodes will go. The word dump at the leader lists them."}
	if late > 10 && late > all/10 {
		f.Severity = Danger
	}
	l.add(f)
}

func (l *look) files(s *Server) {
	if text := s.After.Metrics["accept_error"]; text != "" {
		l.add(Finding{ID: "open-files", Severity: Broken, Servers: []string{s.Name},
			What: fmt.Sprintf("%s can't accept connections: %s.", s.Name, text),
			Do:   "Raise the limit of the process (LimitNOFILE in the unit) or of the machine (fs.file-max), or end what has so many files open. Clients that are connected continue; the server tries again by itself."})
		return
	}
	open, _ := s.After.number("open_file_descriptor_count")
	limit, _ := s.After.number("max_file_descriptor_count")
	if limit > 0 && open > fewFiles*limit {
		l.add(Finding{ID: "open-files", Severity: Danger, Servers: []string{s.Name},
			What: fmt.Sprintf("%s has %d of the %d open files that it may have.", s.Name, int(open), int(limit)),
			Do:   "Raise the limit (LimitNOFILE in the unit), or have fewer connections: each needs one."})
	}
}

func (l *look) versions() {
	byVersion := make(map[string][]string)
	for _, s := range l.serving() {
		if s.Version != "" {
			byVersion[s.Version] = append(byVersion[s.Version], s.Name)
		}
	}
	if len(byVersion) < 2 {
		return
	}
	f := Finding{ID: "version-skew", Severity: Notice,
		Do: "During a rolling upgrade that is as it should be. Otherwise finish it: new features wait for the oldest server."}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(byVersion)) {
		parts = append(parts, v+" on "+strings.Join(byVersion[v], ", "))
		f.Servers = append(f.Servers, byVersion[v]...)
	}
	f.What = "The servers run different versions: " + strings.Join(parts, "; ") + "."
	l.add(f)
}

// edges finds edges whose clients are not served as they should be.
func (l *look) edges(s *Server) {
	waiting, _ := s.After.number("edge_waiting")
	plain, _ := s.After.number("edge_plain")
	clients, _ := s.After.number("edge_clients")
	most, isEdge := s.After.number("edge_clients_most")
	if !isEdge {
		return
	}
	name := []string{s.Name}
	if before, _ := s.Before.number("edge_waiting"); before > 0 && waiting > 0 {
		l.add(Finding{ID: "edge", Severity: Broken, Servers: name,
			What: fmt.Sprintf("%.0f clients of the edge %s wait for a server.", waiting, s.Name),
			Do:   "zkd status " + s.Name + " has the last error. Ask the servers themselves, too: they may have no quorum."})
	}
	if clients+waiting >= most {
		l.add(Finding{ID: "edge", Severity: Broken, Servers: name,
			What: fmt.Sprintf("The edge %s has as many clients as it may have, %.0f, and refuses others.", s.Name, most),
			Do:   "Raise edge.maxClients, or find out which program opens so many sessions: the word cons lists them."})
	}
	if away, _ := s.After.number("edge_away"); away > 0 {
		age, _ := s.After.number("edge_stale_age_ms")
		l.add(Finding{ID: "edge", Severity: Broken, Servers: name,
			What: fmt.Sprintf("The edge %s reaches no server, and shows read-only sessions what it knew %.0f s ago.", s.Name, age/1000),
			Do:   "zkd status " + s.Name + " has the last error, and says for how much longer. Ask the servers themselves, too: they may have no quorum."})
	}
	if plain > 0 {
		l.add(Finding{ID: "edge", Severity: Notice, Servers: name,
			What: fmt.Sprintf("%.0f clients of the edge %s lose their connection when it loses its own: their server offers no exactly-once sessions.", plain, s.Name),
			Do:   "Run zkd on all servers, without local sessions. Until then there is nothing to do."})
	}
}

func (l *look) lists(s *Server) {
	if text := s.After.Metrics["members_error"]; text != "" {
		l.add(Finding{ID: "member-list", Severity: Danger, Servers: []string{s.Name},
			What: fmt.Sprintf("%s can't follow the last change of the members: %s.", s.Name, text),
			Do:   "Let the server's user write its configuration file and the directory of that file, or free the port; the server tries again by itself."})
	} else if s.After.is("member_list_differs") {
		l.add(Finding{ID: "member-list", Severity: Danger, Servers: []string{s.Name},
			What: fmt.Sprintf("The configuration file of %s has the members %s; those of the ensemble are %s.", s.Name, s.After.Metrics["members_of_file"], s.After.Metrics["members"]),
			Do:   "Give all servers the same server.N lines, or let zkcli member change them."})
	}
}

func (l *look) clients() {
	seconds := l.Interval.Seconds()
	if seconds <= 0 {
		return
	}
	requests, connects := make(map[string]float64), make(map[string]int)
	lastOp := make(map[string]string)
	var total float64
	for _, s := range l.serving() {
		before := make(map[string]int64)
		for _, c := range s.Before.Conns {
			before[c.Client+c.Session] = c.Received
		}
		for _, c := range s.After.Conns {
			was, known := before[c.Client+c.Session]
			if !known {
				connects[c.host()]++
			}
			if n := float64(c.Received-was) / seconds; n > 0 && c.Session != "" {
				requests[c.host()] += n
				total += n
				lastOp[c.host()] = c.LastOp
			}
		}
	}
	for _, host := range slices.Sorted(maps.Keys(requests)) {
		if n := requests[host]; n > busyRequests && n > total/2 && len(requests) > 1 {
			l.add(Finding{ID: "looping-client", Severity: Notice, Servers: []string{host},
				What: fmt.Sprintf("Clients at %s send %.0f of the %.0f requests per second that all clients send; the last one was %s.", host, n, total, lastOp[host]),
				Do:   "Look whether that program asks in a loop instead of a watch; zkcli top shows its sessions and the nodes that change. A limit for its address keeps the others safe: see docs/limits.md."})
		}
	}
	for _, s := range l.serving() {
		n, ok := s.growth("connection_request_count")
		if rate := n / seconds; !ok || rate < busyConnects {
			continue
		}
		who := ""
		for host, n := range connects {
			if who == "" || n > connects[who] || n == connects[who] && host < who {
				who = host
			}
		}
		f := Finding{ID: "looping-client", Severity: Notice, Servers: []string{s.Name},
			What: fmt.Sprintf("Clients open %.0f connections per second at %s", n/seconds, s.Name),
			Do:   "A program connects for each request, or fails and tries again at once: its log says which. connection_throttle_tokens bounds the rate."}
		if who != "" {
			f.What += ", many of them from " + who
		}
		f.What += "."
		l.add(f)
	}
}

func (l *look) watches(s *Server) {
	n, _ := s.After.number("watch_count")
	if n < manyWatches {
		return
	}
	l.add(Finding{ID: "many-watches", Severity: Notice, Servers: []string{s.Name},
		What: fmt.Sprintf("%s keeps %.1f million watches.", s.Name, n/1e6),
		Do:   "Each costs memory, and a change of a node with many of them has to tell all. The word wchs counts them, wchc says which session has which. One persistent recursive watch replaces many; a limit of watches per identity is possible."})
}

// replies finds lists that are too long for clients.
func (l *look) replies(s *Server) {
	if _, ok := s.After.number("long_reply_ago_ms"); !ok || s.After.lasts("long_reply_ago_ms") > longReplyOld {
		return
	}
	long, _ := s.After.number("replies_long")
	refused, _ := s.After.number("replies_refused")
	f := Finding{ID: "long-list", Severity: Notice, Servers: []string{s.Name},
		What: fmt.Sprintf("%s has sent %.0f replies that are longer than jute.maxbuffer, the last one %s ago: lists of very many children.", s.Name, long, span(s.After.lasts("long_reply_ago_ms"))),
		Do:   "Java's clients end the connection at such a reply, connect again and ask again, unless they set a larger jute.maxbuffer. The log of the server names the nodes. Raise it in these clients, or have fewer children; zkcli and the Go client can list them in pages."}
	if refused > 0 {
		f.Severity = Danger
		f.What = fmt.Sprintf("%s has refused %.0f replies that would have been longer than zkd.maxReply, and has sent %.0f that are longer than jute.maxbuffer; the last one was %s ago.", s.Name, refused, long, span(s.After.lasts("long_reply_ago_ms")))
		f.Do = "A client whose list is refused can't work. The log of the server names the nodes. Remove zkd.maxReply, or raise it: it can change while the server runs. Or have fewer children."
	}
	l.add(f)
}

func (l *look) root() {
	f := Finding{ID: "open-root", Severity: Notice}
	for _, s := range l.serving() {
		if s.After.is("open_root") {
			f.Servers = append(f.Servers, s.Name)
		}
	}
	if len(f.Servers) == 0 {
		return
	}
	f.What = "Everybody who reaches " + strings.Join(f.Servers, ", ") + " may change the tree: the ACL of / lets anyone create, write and delete, and the port has no TLS."
	f.Do = "Set an ACL on / (zkcli setAcl / digest:…:cdrwa,world:anyone:r), or let only your own network reach the port: see docs/security.md."
	l.add(f)
}

func (l *look) blind() {
	for i := range l.Servers {
		if s := &l.Servers[i]; len(s.Unanswered) > 0 && (s.serves() || s.standby()) {
			l.add(Finding{ID: "blind", Severity: Notice, Servers: []string{s.Name},
				What: fmt.Sprintf("%s does not answer %s, so a part of this look is missing.", s.Name, strings.Join(s.Unanswered, ", ")),
				Do:   "Add the words to 4lw.commands.whitelist."})
		}
	}
}

// span writes a duration as people say it.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Millisecond).String()
}

// Text returns the findings as paragraphs. Neighbours with the same remedy share one, as of a setting that each
// server has.
func Text(found []Finding) string {
	var text strings.Builder
	for i, f := range found {
		text.WriteString(strings.ToUpper(f.Severity.String()) + ": " + f.What)
		if f.Since > 0 {
			text.WriteString(" For " + span(f.Since) + ".")
		}
		text.WriteString("\n")
		if i+1 < len(found) && found[i+1].ID == f.ID && found[i+1].Do == f.Do {
			continue
		}
		text.WriteString("  " + f.Do + "\n  See docs/why.md#" + f.ID + "\n\n")
	}
	return text.String()
}

// ids are those that findings can have.
var ids = []string{
	"no-quorum", "two-leaders", "retired", "voter-missing", "unreachable", "not-serving", "peers-cant-connect", "log-waits", "audit-waits", "full-disk", "slow-disk", "snapshot-fails", "short-past", "slow-follower", "clock-skew",
	"zxid-end", "certificate", "certificate-reload", "secure-port", "sessions-expiring", "open-files", "memory", "broken-request", "version-skew", "edge", "standby", "member-list",
	"looping-client", "many-watches", "long-list", "open-root", "blind",
}

// CheckIDs returns an error if one of the names is not that of a finding.
func CheckIDs(names []string) error {
	for _, name := range names {
		if !slices.Contains(ids, name) {
			return fmt.Errorf("there is no finding %q: they are %s", name, strings.Join(ids, ", "))
		}
	}
	return nil
}

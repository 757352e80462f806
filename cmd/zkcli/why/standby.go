package why

import (
	"fmt"
	"strings"
	"time"
)

// standbys finds standbys that do not have what their ensemble has.
func (l *look) standbys() {
	for i := range l.Servers {
		s := &l.Servers[i]
		m := s.After.Metrics
		of, from := m["standby_of"], m["standby_from"]
		if !s.standby() || of == "" {
			continue
		}
		l.logs(s)
		seconds, _ := s.After.number("standby_lag_seconds")
		lag, behind := time.Duration(seconds*float64(time.Second)), s.After.lasts("standby_behind_ms")
		f := Finding{ID: "standby", Severity: Danger, Servers: []string{s.Name}}
		age := fmt.Sprintf("what it has is of %s ago", span(lag))
		if entries, _ := s.After.number("standby_lag_entries"); entries > 0 {
			bytes, _ := s.After.number("standby_lag_bytes")
			age += fmt.Sprintf(", and it lacks %.0f entries, %.0f bytes", entries, bytes)
		}
		switch {
		case s.After.Zxid == 0:
			age = "it has no copy yet"
		case lag == 0:
			age = "it has no copy that it knows to be whole"
		}
		fetched, silent := m["standby_fetches"], s.After.lasts("standby_silent_ms")
		switch {
		case from != "" && lag < standbyLag && silent == 0, from == "" && m["standby_problem"] == "" && fetched == "":
			continue
		case silent > 0:
			f.Since = silent
			f.What = fmt.Sprintf("%s is a standby of %s, and has heard nothing of %s, which it follows: %s.", s.Name, of, from, age)
			f.Do = "That server hangs, or the line is cut without an end of the connection. After 20 s it asks another server of --of. If the ensemble is lost, see docs/sites.md for how standbys take its place."
		case behind >= standbyLag:
			f.What = fmt.Sprintf("%s is a standby of %s, and %s. It follows %s, which is a standby itself and does not have more.", s.Name, of, age, from)
			f.Do = "Ask that one: zkcli why shows why it does not follow."
		case from != "":
			f.What = fmt.Sprintf("%s is a standby of %s, follows %s, and is behind: %s.", s.Name, of, from, age)
			f.Do = "The line, --rate-kb or the disk of the standby lets less through than the ensemble writes. zkd_standby_entries_total shows whether it gets on; wait if it catches up after a loss of the line."
		case fetched != "":
			f.Severity = Notice
			f.What = fmt.Sprintf("%s is a standby of %s, and gets a whole state, %s: %s.", s.Name, of, fetched, age)
			f.Do = "Wait: it follows when the state is there."
			if s.After.Zxid != 0 {
				f.Do = "No server has the log after its copy any more. Wait: it follows when the state is there, and serves the older copy meanwhile. If it comes to this often, have the servers keep more of their log (zkd.historyHours), or the standby away for less."
			}
		default:
			f.Since = s.After.lasts("standby_since_ms")
			f.What = fmt.Sprintf("%s is a standby of %s, and follows none of them, %s: %s.", s.Name, of, age, strings.TrimSuffix(m["standby_problem"], "."))
			f.Do = "See whether these servers run, and whether their admin.serverPort can be reached from here. It tries again by itself. If the ensemble is lost, see docs/sites.md for how standbys take its place."
			if strings.Contains(m["standby_problem"], "no space left") {
				f.Do = "Make room on the disk of its dataDir, which has a state twice while it is got. It tries again by itself, and serves the copy that it has meanwhile."
			}
			if s.After.is("standby_refused") {
				f.Do = "The servers refuse it, and it tries again by itself. Mend what they say: the user of --auth-file must have all permissions on /, and the servers of --of must be those of the ensemble that was copied; another one is followed into another directory. A changed --auth-file needs a restart of the standby."
			}
		}
		l.add(f)
	}
}

// Standbys says of each standby that follows how it does.
func Standbys(f Facts) (lines []string) {
	for i := range f.Servers {
		s := &f.Servers[i]
		if from := s.After.Metrics["standby_from"]; s.standby() && from != "" && s.After.Metrics["standby_silent_ms"] == "" {
			lag, _ := s.After.number("standby_lag_seconds")
			lines = append(lines, fmt.Sprintf("%s is a standby of %s: it follows %s, and what it has is of %s ago.", s.Name, s.After.Metrics["standby_of"], from, span(time.Duration(lag*float64(time.Second)))))
		}
	}
	return lines
}

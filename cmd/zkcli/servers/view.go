package servers

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/why"
	"github.com/zkd-project/zkd/internal/ask"
)

// View is what a server reports about itself. A new figure is a field and a row of the table figures:
// JSON has it then, and each table of servers can have a column for it.
type View struct {
	Server    string `json:"server"`
	Reachable bool   `json:"reachable"`
	Mode      string `json:"mode,omitempty"`
	Version   string `json:"version,omitempty"`
	Zxid      string `json:"zxid,omitempty"`
	// Lag is how many transactions the server is behind the leader, or behind the most
	// advanced of the servers. It is nil if the epochs differ.
	Lag         *int64  `json:"lag"`
	LatencyMin  float64 `json:"latencyMinMs"`
	LatencyAvg  float64 `json:"latencyAvgMs"`
	LatencyMax  float64 `json:"latencyMaxMs"`
	Connections int64   `json:"connections"`
	Sessions    *int64  `json:"sessions"` // of the ensemble; nil if mntr does not say
	Watches     *int64  `json:"watches"`
	Nodes       int64   `json:"nodes"`
	Outstanding int64   `json:"outstanding"`
	Received    int64   `json:"received"` // packets, since the start
	Sent        int64   `json:"sent"`
	Problem     string  `json:"problem,omitempty"`

	// Err is why there is no state to show; nil if there is one.
	Err error `json:"-"`
	// Silent means that the server takes connections, and does not answer srvr.
	Silent bool `json:"-"`
	// Unanswered are the words that the server is configured not to answer.
	Unanswered []string `json:"-"`
	// Srvr and Mntr are the fields of the two words by their names, those of mntr without zk_.
	Srvr map[string]string `json:"-"`
	Mntr map[string]string `json:"-"`
	// Voters is the number of voters, SyncedFollowers and NonVoting how many followers with and without
	// a vote a leader counts; nil if mntr does not say.
	Voters          *int64 `json:"-"`
	SyncedFollowers *int64 `json:"-"`
	NonVoting       *int64 `json:"-"`
	// Members and FileMembers are the members of the ensemble, and those of the server's configuration file.
	// ListDiffers is not 0 if that matters.
	Members     string `json:"-"`
	FileMembers string `json:"-"`
	ListDiffers int64  `json:"-"`
	// Disk, Memory and Drain describe a problem with these, and a move of clients to other servers, or are "".
	Disk   string `json:"-"`
	Memory string `json:"-"`
	Drain  string `json:"-"`
	// Standby is how a standby follows its ensemble, or "".
	Standby string `json:"standby,omitempty"`
	// Trouble is what an edge says is wrong with it, or "".
	Trouble string `json:"-"`
	// Joiners are the servers that a leader brings up to date, by their ids.
	Joiners map[int64]Joiner `json:"-"`
	// Skew is the server's clock minus that of this machine, and Doubt how wrong that may be.
	Skew, Doubt time.Duration `json:"-"`
	// Conns are the connections, and Uses what clients did: see LookClosely.
	Conns []Conn `json:"-"`
	Uses  []Use  `json:"-"`
}

// figures are the fields that srvr and mntr fill, by their names there. A heading is that of the
// figure's column in tables.
var figures = []struct {
	word, name, heading string
	field               func(v *View) any // *string, *int64, or **int64 if nil means unknown
}{
	{"srvr", "Zookeeper version", "", func(v *View) any { return &v.Version }},
	{"srvr", "Mode", "MODE", func(v *View) any { return &v.Mode }},
	{"srvr", "Zxid", "ZXID", func(v *View) any { return &v.Zxid }},
	{"srvr", "Received", "", func(v *View) any { return &v.Received }},
	{"srvr", "Sent", "", func(v *View) any { return &v.Sent }},
	{"srvr", "Connections", "CONNS", func(v *View) any { return &v.Connections }},
	{"srvr", "Outstanding", "OUTSTANDING", func(v *View) any { return &v.Outstanding }},
	{"srvr", "Node count", "NODES", func(v *View) any { return &v.Nodes }},
	{"srvr", "Standby", "", func(v *View) any { return &v.Standby }},
	{"srvr", "Disk", "", func(v *View) any { return &v.Disk }},
	{"srvr", "Memory", "", func(v *View) any { return &v.Memory }},
	{"srvr", "Drain", "", func(v *View) any { return &v.Drain }},
	{"srvr", "Trouble", "", func(v *View) any { return &v.Trouble }},
	{"mntr", "watch_count", "WATCHES", func(v *View) any { return &v.Watches }},
	{"mntr", "global_sessions", "SESSIONS", func(v *View) any { return &v.Sessions }},
	{"mntr", "quorum_size", "", func(v *View) any { return &v.Voters }},
	{"mntr", "synced_followers", "", func(v *View) any { return &v.SyncedFollowers }},
	{"mntr", "synced_non_voting_followers", "", func(v *View) any { return &v.NonVoting }},
	{"mntr", "member_list_differs", "", func(v *View) any { return &v.ListDiffers }},
	{"mntr", "members", "", func(v *View) any { return &v.Members }},
	{"mntr", "members_of_file", "", func(v *View) any { return &v.FileMembers }},
}

// composed are columns that are not one figure.
var composed = map[string]func(v *View) string{
	"SERVER":  func(v *View) string { return v.Server },
	"VERSION": func(v *View) string { version, _, _ := strings.Cut(v.Version, "-"); return version },
	"LAG":     func(v *View) string { return cell(&v.Lag) },
	"LATENCY": func(v *View) string { return fmt.Sprintf("%g/%g/%g", v.LatencyMin, v.LatencyAvg, v.LatencyMax) },
}

// Cell returns the text of a column.
func (v *View) Cell(heading string) string {
	if text, ok := composed[heading]; ok {
		return text(v)
	}
	for _, f := range figures {
		if f.heading == heading {
			return cell(f.field(v))
		}
	}
	panic("no column " + heading)
}

func cell(field any) string {
	switch field := field.(type) {
	case *string:
		return *field
	case *int64:
		return strconv.FormatInt(*field, 10)
	case **int64:
		if *field != nil {
			return strconv.FormatInt(**field, 10)
		}
	}
	return "?"
}

// read reads the answer to a word but srvr, which was asked for at a time and took some.
func (v *View) read(word, text string, asked time.Time, took time.Duration) {
	switch word {
	case "mntr":
		v.readMntr(text)
		if ms, err := strconv.ParseInt(v.Mntr["clock_ms"], 10, 64); err == nil {
			v.Skew, v.Doubt = time.UnixMilli(ms).Sub(asked.Add(took/2)), took/2
		}
	case "cons":
		v.Conns = readCons(text)
	case "topc":
		v.Uses = readTop(text)
	}
}

func (v *View) readSrvr(text string) {
	v.Srvr = ask.Fields(text, ": ")
	v.readFigures("srvr", v.Srvr)
	v.Version, _, _ = strings.Cut(v.Version, ",")
	if v.Standby != "" {
		v.Mode = StandbyMode // for clients it is read-only
	}
	fmt.Sscanf(v.Srvr["Latency min/avg/max"], "%g/%g/%g", &v.LatencyMin, &v.LatencyAvg, &v.LatencyMax)
	v.readJoiners()
}

func (v *View) readMntr(text string) {
	v.Mntr = make(map[string]string)
	for key, value := range ask.Fields(text, "\t") {
		if name, ok := strings.CutPrefix(key, "zk_"); ok {
			v.Mntr[name] = value
		}
	}
	v.readFigures("mntr", v.Mntr)
}

// readFigures reads the figures of a word. What is missing or not a number stays as it is.
func (v *View) readFigures(word string, values map[string]string) {
	for _, f := range figures {
		value, ok := values[f.name]
		if f.word != word || !ok {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		switch field := f.field(v).(type) {
		case *string:
			*field = value
		case *int64:
			*field = n
		case **int64:
			if err == nil {
				*field = &n
			}
		}
	}
}

// LastZxid returns Zxid as a number, or 0.
func (v *View) LastZxid() (z client.Zxid) {
	fmt.Sscanf(v.Zxid, "0x%x", &z)
	return z
}

// StandbyMode is the Mode of a standby.
const StandbyMode = why.Standby

// Serves reports whether the server takes reads and writes of clients.
func (v *View) Serves() bool { return v.Mode != "" && v.Mode != "read-only" && v.Mode != StandbyMode }

// Counted returns how many of its voters a leader counts, itself included, and how many there are; 0 and 0 of a
// server that does not say.
func (v *View) Counted() (counted, voters int64) {
	if v.Mode != "leader" || v.Voters == nil || *v.Voters == 0 {
		return 0, 0
	}
	if v.SyncedFollowers != nil {
		counted = *v.SyncedFollowers
	}
	return 1 + counted, *v.Voters
}

// Joiner is a server that gets a snapshot, or else the log.
type Joiner struct {
	Snapshot   bool
	Sent, Size int64 // bytes of the snapshot; both 0 before it is sent
	LogLeft    int64 // bytes of the log that the server does not have yet
}

// String says what the server does.
func (j Joiner) String() string {
	const mib = 1 << 20
	switch {
	case j.Snapshot && j.Size > 0:
		return fmt.Sprintf("receives a snapshot: %.1f of %.1f MiB, %d %%", float64(j.Sent)/mib, float64(j.Size)/mib, 100*j.Sent/j.Size)
	case j.Snapshot:
		return "waits for a snapshot"
	}
	return fmt.Sprintf("receives the log: %.1f MiB to go", float64(j.LogLeft)/mib)
}

// readJoiners reads lines such as
//
//	Joiner 4: snapshot 1048576/4194304
//	Joiner 5: log 3145728 left
func (v *View) readJoiners() {
	for name, value := range v.Srvr {
		var id int64
		var j Joiner
		if n, _ := fmt.Sscanf(name, "Joiner %d", &id); n == 0 {
			continue
		}
		if n, _ := fmt.Sscanf(value, "snapshot %d/%d", &j.Sent, &j.Size); n == 2 {
			j.Snapshot = true
		} else if n, _ := fmt.Sscanf(value, "log %d left", &j.LogLeft); n < 1 {
			continue
		}
		if v.Joiners == nil {
			v.Joiners = make(map[int64]Joiner)
		}
		v.Joiners[id] = j
	}
}

// measureLag compares the zxids of the servers with that of the leader, or with the
// highest one.
func measureLag(views []View) {
	var head client.Zxid
	for _, v := range views {
		if v.Mode == "leader" {
			head = v.LastZxid()
			break
		}
		head = max(head, v.LastZxid())
	}
	for i := range views {
		v := &views[i]
		if v.Zxid != "" && v.LastZxid().Epoch() == head.Epoch() {
			// The servers answer at different moments, so one may be ahead of the leader.
			lag := max(0, int64(head-v.LastZxid()))
			v.Lag = &lag
		}
	}
}

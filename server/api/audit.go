package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// AuditTail has the last entries of the audit log, each with a number that grows by one.
type AuditTail interface {
	// After returns at most some entries after a number, in JSON, and the number of the first.
	After(number uint64, most int) (first uint64, lines [][]byte)
	// Last returns the number of the last entry, and a channel that is closed with the next one.
	Last() (number uint64, more <-chan struct{})
}

// AuditList is a part of the audit log.
type AuditList struct {
	Entries []AuditEntry `json:"entries" doc:"the oldest first"`
	Missed  int64        `json:"missed" doc:"how many entries before these, and after the one asked for, are forgotten"`
	More    bool         `json:"more" doc:"there are entries after these: ask for those after the last number"`
}

// AuditEntry is an operation that was done or refused.
type AuditEntry struct {
	Number    int64    `json:"number" doc:"it grows by one with each entry, from the start of the server on"`
	Time      string   `json:"time"`
	Session   string   `json:"session,omitempty"`
	User      string   `json:"user,omitempty" doc:"of the server, if that acts for itself"`
	Users     []string `json:"users,omitempty"`
	IP        string   `json:"ip,omitempty"`
	Via       string   `json:"via,omitempty" doc:"the door by which the client came, if that is no port for clients"`
	Operation string   `json:"operation"`
	Scheme    string   `json:"scheme,omitempty"`
	Znode     string   `json:"znode,omitempty"`
	ZnodeType string   `json:"znode_type,omitempty"`
	ACL       []string `json:"acl,omitempty"`
	Key       string   `json:"key,omitempty"`
	Value     string   `json:"value,omitempty"`
	Zxid      string   `json:"zxid,omitempty"`
	Error     string   `json:"error,omitempty"`
	Result    string   `json:"result" enum:"success failure invoked"`
}

const (
	// auditPage is how many entries are sent at a time.
	auditPage = 256
	// auditStreams is how many may follow the audit log.
	auditStreams = 16
	// auditLasts is for how long an answer follows it. Then the caller comes again, and is asked for its permission again.
	auditLasts = 5 * time.Minute
	// auditIdle is the time after which an answer without entries shows that it lives.
	auditIdle = 15 * time.Second
)

// auditOperations returns the endpoints about the audit log.
func auditOperations() []endpoint {
	after := param{in: "query", name: "after", pattern: "^[0-9]{1,18}$", doc: "The entries wanted come after this number."}
	return []endpoint{
		{method: http.MethodGet, path: "/v1/audit", doc: "The last entries of this server's audit log, at most 1024. Long fields are cut.", serve: (*call).getAudit,
			params: []param{after, {in: "query", name: "limit", least: 1, most: auditPage, doc: "The largest number of entries; without after it is for the last ones."}}, refuses: []int{404},
			answers: []answer{{status: 200, doc: "Entries.", content: inJSON[AuditList]()}}},
		{method: http.MethodGet, path: "/v1/audit/follow", doc: "Entries as they come, each as the data of an event whose id is its number. It ends after five minutes: ask again with Last-Event-ID.", serve: (*call).followAudit,
			params: []param{after, {in: "header", name: "Last-Event-ID", pattern: after.pattern, doc: "Instead of after."}}, refuses: []int{404},
			answers: []answer{{status: 200, doc: "Server-sent events; one of the kind missed tells how many entries are forgotten.", content: []content{{"text/event-stream", nil}}}}},
	}
}

// audit returns the tail, for callers who may see it.
func (c *call) audit() (AuditTail, error) {
	if err := c.mayOperate(); err != nil {
		return nil, err
	}
	if c.Audit != nil {
		if t := c.Audit(); t != nil {
			return t, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "the audit log is off: set audit.enable=true")
}

// entriesOf decodes lines.
func entriesOf(first uint64, lines [][]byte) (list []AuditEntry, err error) {
	list = make([]AuditEntry, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal(line, &list[i]); err != nil {
			return nil, err
		}
		list[i].Number = int64(first) + int64(i)
	}
	return list, nil
}

func (c *call) getAudit() error {
	t, err := c.audit()
	if err != nil {
		return err
	}
	most := int(c.number("limit"))
	if most == 0 {
		most = auditPage
	}
	last, _ := t.Last()
	after := uint64(c.number("after"))
	if c.arg("after") == "" || after > last { // or the number is of before the server's start
		after = last - min(last, uint64(most))
	}
	first, lines := t.After(after, most)
	out := AuditList{Missed: int64(first - after - 1), More: first+uint64(len(lines)) <= last}
	if out.Entries, err = entriesOf(first, lines); err != nil {
		return err
	}
	return c.answer(http.StatusOK, out)
}

func (c *call) followAudit() error {
	t, err := c.audit()
	if err != nil {
		return err
	}
	host := c.caller.From.Addr().String()
	displaced := make(chan struct{})
	place := c.streams.Take(auditStreams, c.r, []string{host}, func() { close(displaced) })
	if place == nil {
		return refuse(http.StatusTooManyRequests, "%d others follow the audit log", auditStreams)
	}
	defer c.streams.Leave(place)
	after, _ := t.Last()
	for _, name := range []string{"after", "Last-Event-ID"} {
		if text := c.arg(name); text != "" {
			after, _ = strconv.ParseUint(text, 10, 64) // it was checked
		}
	}
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.begun = true
	out := http.NewResponseController(c.w)
	defer out.SetWriteDeadline(time.Time{}) // for the next answer on the connection
	end := time.NewTimer(auditLasts)
	defer end.Stop()
	beat := time.NewTicker(auditIdle)
	defer beat.Stop()
	send := func(text []byte) error {
		out.SetWriteDeadline(time.Now().Add(auditIdle)) // not supported by a recorder of tests
		if _, err := c.w.Write(text); err != nil {
			return err
		}
		return out.Flush()
	}
	ready := make(chan struct{})
	close(ready)
	for text := []byte(": entries follow\n\n"); ; text = nil {
		last, more := t.Last() // before After, so that none is missed
		if after > last {
			after = 0 // the number is of before the server's start
		}
		first, lines := t.After(after, auditPage)
		if missed := first - after - 1; missed > 0 && len(lines) > 0 {
			text = fmt.Appendf(text, "event: missed\ndata: %d\n\n", missed)
		}
		for i, line := range lines {
			after = first + uint64(i)
			text = fmt.Appendf(text, "id: %d\ndata: {\"number\":%d,%s\n\n", after, after, line[1:]) // it is an object, and not empty
		}
		if len(text) > 0 {
			if err := send(text); err != nil {
				return nil // the caller is gone
			}
		}
		if len(lines) > 0 {
			more = ready
		}
		select {
		case <-more:
		case <-beat.C:
			if err := send([]byte(":\n\n")); err != nil {
				return nil
			}
		case <-end.C:
			return nil
		case <-displaced:
			return nil
		case <-c.r.Context().Done():
			return nil
		}
	}
}

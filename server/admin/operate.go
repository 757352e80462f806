package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// snapshot takes a snapshot and sends it, or with ?streaming=false only says where it ends.
func (h *handler) snapshot(q query, w http.ResponseWriter, r *http.Request) (object, int, string) {
	if !h.Snapshots {
		return nil, http.StatusServiceUnavailable, "Snapshot command is disabled"
	}
	if !h.mayTakeSnapshot(time.Now()) {
		return nil, http.StatusTooManyRequests, "Snapshot command is rate limited"
	}
	s, err := q.TakeSnapshot(r.Context())
	if err != nil {
		return nil, http.StatusInternalServerError, "Snapshot command failed: " + err.Error()
	}
	defer s.Close()
	w.Header().Set("last_zxid", "0x"+strconv.FormatInt(s.Zxid, 16))
	w.Header().Set("snapshot_size", strconv.FormatInt(s.Size, 10))
	if r.URL.Query().Get("streaming") == "false" {
		return nil, http.StatusOK, ""
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(s.Size, 10))
	if _, err := io.Copy(w, s); err != nil {
		panic(http.ErrAbortHandler) // the client must not take what it has for all
	}
	return nil, 0, ""
}

// mayTakeSnapshot reports whether the last snapshot was long enough ago, and if so counts
// this one.
func (h *handler) mayTakeSnapshot(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.mu.snapshot.IsZero() && now.Sub(h.mu.snapshot) < h.SnapshotInterval {
		return false
	}
	h.mu.snapshot = now
	return true
}

// whyNoRestore is the answer to restore. Apache's server replaces its tree by the one of the
// request while it runs: other servers and the clients of its sessions do not know of it, and
// zxids go back. No care of an operator can make that safe in an ensemble.
const whyNoRestore = "Restore command is disabled: a running server does not replace its data. " +
	"Stop the servers and put back a copy of their directories (Backup in docs/operations.md), or load a part with zkcli import"

func (h *handler) restore(query, http.ResponseWriter, *http.Request) (object, int, string) {
	return nil, http.StatusServiceUnavailable, whyNoRestore
}

// shed ends a part of the connections: {"percentage": 20}.
func (h *handler) shed(q query, _ http.ResponseWriter, r *http.Request) (object, int, string) {
	var body struct {
		Percentage *int `json:"percentage"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 4096)).Decode(&body); err != nil || body.Percentage == nil {
		return nil, http.StatusBadRequest, `The body must be an object such as {"percentage": 20}`
	}
	percent := *body.Percentage
	if percent < 0 || percent > 100 {
		return nil, http.StatusBadRequest, fmt.Sprintf("The percentage must be between 0 and 100, and is %d", percent)
	}
	shed := 0
	if percent > 0 {
		shed = q.ShedConnections(percent)
	}
	return object{{"connections_shed", shed}, {"percentage_requested", percent}}, http.StatusOK, ""
}

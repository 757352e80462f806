package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/shadow"
)

// recordFormat is the first line of a record.
type recordFormat struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Secrets bool   `json:"secrets"`
}

const recordName = "zkd-record"

// step is what happened on a connection: a line of a record.
type step struct {
	At    int64         `json:"at"` // ms since the begin
	Conn  shadow.ConnID `json:"conn"`
	Do    string        `json:"do"`
	Frame []byte        `json:"frame,omitempty"`
	// Hidden means that the frame lacks its secret.
	Hidden bool `json:"hidden,omitempty"`
}

// What a step does. The frame of an answer is the header alone, but for that of a connect.
const (
	doOpen    = "open"
	doRequest = "request"
	doAnswer  = "answer"
	doClose   = "close"
)

// Recorder is a Tap that writes down what clients ask, for Replay. Passwords of sessions and
// the data of logins are left out, unless it is told otherwise. Data of znodes is in it.
type Recorder struct {
	start   time.Time
	secrets bool
	mu      struct {
		sync.Mutex
		w     *bufio.Writer
		conns map[shadow.ConnID]*recorded
		err   error
	}
}

// recorded is a connection of which a record is made.
type recorded struct {
	client, server      shadow.Splitter
	connects, connected bool
}

// NewRecorder returns a Recorder that writes to w.
func NewRecorder(w io.Writer, secrets bool) *Recorder {
	r := &Recorder{start: time.Now(), secrets: secrets}
	r.mu.w, r.mu.conns = bufio.NewWriterSize(w, 1<<20), map[shadow.ConnID]*recorded{}
	r.writeLocked(recordFormat{recordName, 1, secrets})
	return r
}

// Close writes what is left, and returns the first error.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.mu.err, r.mu.w.Flush())
}

func (r *Recorder) writeLocked(line any) {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = r.mu.w.Write(append(text, '\n'))
	}
	if r.mu.err == nil {
		r.mu.err = err
	}
}

func (r *Recorder) stepLocked(id shadow.ConnID, do string, frame []byte, hidden bool) {
	r.writeLocked(step{time.Since(r.start).Milliseconds(), id, do, frame, hidden})
}

// Open implements Tap.
func (r *Recorder) Open(id shadow.ConnID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.conns[id] = new(recorded)
	r.stepLocked(id, doOpen, nil, false)
}

// FromClient implements Tap.
func (r *Recorder) FromClient(id shadow.ConnID, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.mu.conns[id]
	if c == nil {
		return
	}
	c.client.Write(p)
	for {
		frame, ok, err := c.client.Next()
		if err != nil {
			r.endLocked(id) // it is no client
			return
		}
		if !ok {
			return
		}
		hidden := false
		if !r.secrets {
			frame, hidden = hide(frame, !c.connects)
		}
		c.connects = true
		r.stepLocked(id, doRequest, frame, hidden)
	}
}

// hide returns a request without its secret.
func hide(frame []byte, connects bool) ([]byte, bool) {
	d := jute.NewAliasDecoder(frame)
	if connects {
		var r jute.ConnectRequest
		if r.Decode(&d); d.Err() != nil {
			return nil, true
		}
		r.Password = make([]byte, jute.PasswordLen)
		return r.Append(nil), false // a replay has its own
	}
	var h jute.RequestHeader
	h.Decode(&d)
	if d.Err() == nil && (h.Type == jute.OpAuth || h.Type == jute.OpSASL) {
		return frame[:8], true
	}
	return frame, false
}

// FromServer implements Tap.
func (r *Recorder) FromServer(id shadow.ConnID, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.mu.conns[id]
	if c == nil || !c.connects {
		return
	}
	c.server.Write(p)
	for {
		frame, ok, err := c.server.Next()
		if err != nil {
			r.endLocked(id)
			return
		}
		if !ok {
			return
		}
		const header = 16
		switch {
		case c.connected:
			frame = frame[:min(len(frame), header)]
		case !r.secrets:
			frame = hideConnected(frame)
		}
		c.connected = true
		r.stepLocked(id, doAnswer, frame, false)
	}
}

// hideConnected returns the answer to a connect request without the password.
func hideConnected(frame []byte) []byte {
	var r jute.ConnectResponse
	d := jute.NewAliasDecoder(frame)
	if r.Decode(&d); d.Err() != nil {
		return nil
	}
	r.Password = make([]byte, jute.PasswordLen)
	return r.Append(nil)
}

// Closed implements Tap.
func (r *Recorder) Closed(id shadow.ConnID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(id)
}

func (r *Recorder) endLocked(id shadow.ConnID) {
	if r.mu.conns[id] != nil {
		delete(r.mu.conns, id)
		r.stepLocked(id, doClose, nil, false)
	}
}

// readSteps reads a record.
func readSteps(from io.Reader, each func(step) error) error {
	d := json.NewDecoder(from)
	var f recordFormat
	if err := d.Decode(&f); err != nil || f.Format != recordName || f.Version != 1 {
		return errors.New("this is no record that zkcli record has made")
	}
	for n := 1; ; n++ {
		var s step
		switch err := d.Decode(&s); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("step %d of the record: %w", n, err)
		}
		if err := each(s); err != nil {
			return err
		}
	}
}

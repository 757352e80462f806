package testserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/cmd/zkd/local"
	"github.com/zkd-project/zkd/jute"
)

// State is what there is, as JSON.
type State struct {
	ConnectString string   `json:"connectString"`
	Control       string   `json:"control"` // the URL of the orders
	Leader        int      `json:"leader"`  // or that which serves alone; 0 for none
	Servers       []Server `json:"servers"`
}

// Server is one of them.
type Server struct {
	ID       int      `json:"id"`
	Address  string   `json:"address"`
	Running  bool     `json:"running"`
	Sessions []string `json:"sessions"` // that are connected to it, 0x…
	Log      string   `json:"log"`
}

// Options describe a Control.
type Options struct {
	Ensemble *local.Ensemble
	Proxies  []*Proxy // in front of the servers, in their order
	Control  string   // its own URL
	// Super is the proof of the super user, as user:password of the scheme digest.
	Super string
}

// Control carries out orders.
type Control struct {
	http.Handler
	o Options
}

// NewControl returns a Control.
func NewControl(o Options) *Control {
	c := &Control{o: o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { c.answer(w, r, nil) })
	for pattern, do := range map[string]func(*http.Request) error{
		"POST /servers/{id}/{order}": c.server,
		"POST /sessions/{id}/expire": c.expire,
		"POST /sessions/{id}/drop":   c.drop,
		"POST /sessions/drop":        c.dropAll,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			c.answer(w, r, do(r))
		})
	}
	c.Handler = mux
	return c
}

// refusal is an error of the caller.
type refusal struct {
	status int
	error
}

func refuse(status int, format string, args ...any) error {
	return refusal{status, fmt.Errorf(format, args...)}
}

// answer sends the state, or the error.
func (c *Control) answer(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		status := http.StatusInternalServerError
		if refused, ok := errors.AsType[refusal](err); ok {
			status = refused.status
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c.State(r.Context()))
}

// State returns what there is.
func (c *Control) State(ctx context.Context) State {
	s := State{Control: c.o.Control, Leader: c.o.Ensemble.Leader(ctx)}
	var addrs []string
	for i, server := range c.o.Ensemble.Servers() {
		addrs = append(addrs, c.o.Proxies[i].Addr())
		view := Server{ID: server.ID, Address: c.o.Proxies[i].Addr(), Running: c.o.Ensemble.Pid(server.ID) != 0, Sessions: []string{}, Log: server.Log}
		for _, id := range c.o.Proxies[i].Sessions() {
			view.Sessions = append(view.Sessions, id.String())
		}
		s.Servers = append(s.Servers, view)
	}
	s.ConnectString = strings.Join(addrs, ",")
	return s
}

// orders are those for a server.
var orders = map[string]func(ctx context.Context, e *local.Ensemble, id int) error{
	"kill":   ends(syscall.SIGKILL),
	"stop":   ends(syscall.SIGTERM),
	"pause":  func(_ context.Context, e *local.Ensemble, id int) error { return e.Signal(id, syscall.SIGSTOP) },
	"resume": func(_ context.Context, e *local.Ensemble, id int) error { return e.Signal(id, syscall.SIGCONT) },
	"start": func(ctx context.Context, e *local.Ensemble, id int) error {
		if err := e.Start(id); err != nil {
			return err
		}
		return e.AwaitServing(ctx, id)
	},
}

func ends(by syscall.Signal) func(context.Context, *local.Ensemble, int) error {
	return func(_ context.Context, e *local.Ensemble, id int) error { e.Stop(id, by); return nil }
}

// server carries out an order for a server, or for that which leads.
func (c *Control) server(r *http.Request) error {
	e := c.o.Ensemble
	id, err := strconv.Atoi(r.PathValue("id"))
	if r.PathValue("id") == "leader" {
		if id = e.Leader(r.Context()); id == 0 {
			return refuse(http.StatusConflict, "no server leads")
		}
	} else if err != nil || e.Server(id) == nil {
		return refuse(http.StatusNotFound, "no server %q: want 1 to %d, or leader", r.PathValue("id"), len(e.Servers()))
	}
	name := r.PathValue("order")
	order := orders[name]
	if order == nil {
		return refuse(http.StatusNotFound, "no order %q: want one of %s", name, strings.Join(slices.Sorted(maps.Keys(orders)), ", "))
	}
	if name != "start" && e.Pid(id) == 0 {
		return refuse(http.StatusConflict, "server %d does not run", id)
	}
	return order(r.Context(), e, id)
}

// session returns the session that a request names.
func session(r *http.Request) (jute.SessionID, error) {
	id, err := strconv.ParseUint(strings.TrimPrefix(r.PathValue("id"), "0x"), 16, 64)
	if err != nil {
		return 0, refuse(http.StatusNotFound, "%q is no session's id, such as 0x1a224c4fc2a0028", r.PathValue("id"))
	}
	return jute.SessionID(id), nil
}

// expire ends a session as if it had expired, which its client is told when it connects again.
func (c *Control) expire(r *http.Request) error {
	id, err := session(r)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(r.Context(), time.Minute)
	defer stop()
	failed := refuse(http.StatusConflict, "no server runs")
	for _, s := range c.o.Ensemble.Servers() {
		if c.o.Ensemble.Pid(s.ID) == 0 {
			continue
		}
		if err = c.end(ctx, s.Admin, id); err == nil {
			return nil
		}
		failed = err
	}
	return failed
}

// end has a server end a session.
func (c *Control) end(ctx context.Context, admin string, id jute.SessionID) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://"+admin+"/v1/sessions/"+id.String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "digest "+c.o.Super)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusNotFound:
		return refuse(http.StatusNotFound, "no session %v", id)
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s: %s: %s", admin, resp.Status, text)
	}
	return nil
}

// drop closes the connection of a session, which lives on.
func (c *Control) drop(r *http.Request) error {
	id, err := session(r)
	if err != nil {
		return err
	}
	if c.dropped(func(have jute.SessionID) bool { return have == id }) == 0 {
		return refuse(http.StatusNotFound, "no connection of session %v", id)
	}
	return nil
}

// dropAll closes all connections.
func (c *Control) dropAll(*http.Request) error {
	c.dropped(func(jute.SessionID) bool { return true })
	return nil
}

func (c *Control) dropped(match func(jute.SessionID) bool) (n int) {
	for _, p := range c.o.Proxies {
		n += p.Drop(match)
	}
	return n
}

package admin

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/server/fair"
	"github.com/zkd-project/zkd/server/show"
)

// Options configure a Handler.
type Options struct {
	// Server returns the server, for one request.
	Server func() Server
	// URL is the path of the commands. Default "/commands".
	URL string
	// Configuration is the text of the configuration file, without secrets.
	Configuration string
	// Authorize decides whether the sender of a request may change something, or have all data. It
	// may block. If not, it returns an HTTP status and the reason. Otherwise may says whether that
	// still holds, which is asked whenever data is sent.
	Authorize func(context.Context, Claim) (may func() bool, status int, problem string)
	// Snapshots reports whether the command snapshot is allowed, and the least time between two
	// of them.
	Snapshots func() (allowed bool, interval time.Duration)
}

// Claim is what the sender of a request shows of itself.
type Claim struct {
	Scheme, Data string // as of addAuth; empty if there is none
	From         netip.Addr
	Certificates []*x509.Certificate // verified, the sender's first; none without TLS
}

// Handler returns the pages.
func Handler(o Options) http.Handler {
	if o.URL == "" {
		o.URL = "/commands"
	}
	h := &handler{Options: o, table: commands(), byName: make(map[string]command)}
	for _, c := range h.table {
		for _, name := range append([]string{c.name}, c.aliases...) {
			h.byName[name] = c
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.overview)
	mux.HandleFunc("GET "+o.URL, h.index)
	mux.HandleFunc("GET "+o.URL+"/{$}", h.index)
	mux.HandleFunc("GET "+o.URL+"/{name}", h.command)
	mux.HandleFunc("POST "+o.URL+"/{name}", h.command)
	mux.HandleFunc("GET /v1/feed", h.feed)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) { h.health(w, r, show.Live) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { h.health(w, r, show.Ready) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { h.health(w, r, show.Live|show.Ready) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodTrace {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

type handler struct {
	Options
	streams fair.Places[*http.Request] // of the log and of feeds
	table   []command
	byName  map[string]command

	mu struct {
		sync.Mutex
		snapshot time.Time // when the last one was allowed
	}
}

// index lists the commands, as Apache's server does.
func (h *handler) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	for _, c := range h.table {
		fmt.Fprintf(w, "<a href=\"%s/%s\">%s</a>\n<br/>\n", h.URL, c.name, c.name)
	}
	for _, page := range []string{"/livez", "/readyz", "/healthz?verbose"} {
		fmt.Fprintf(w, "<a href=\"%s\">%s</a>\n<br/>\n", page, page)
	}
}

// notServing is the error of a command that needs a server in service, Apache's words.
const notServing = "This ZooKeeper instance is not currently serving requests"

func (h *handler) command(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	c, known := h.byName[name]
	status, problem := http.StatusOK, ""
	var answer object
	q := query{Server: h.Server(), config: h.Configuration, args: r.URL.Query()}
	switch {
	case !known:
		problem = "Unknown command: " + name
	case (r.Method == http.MethodPost) != c.posted:
		status, problem = http.StatusMethodNotAllowed, "The method "+r.Method+" is not that of this command"
	case !c.anytime && !q.Server.Serving():
		problem = notServing
	default:
		if c.changes {
			q.may, status, problem = h.authorize(r)
		}
		switch {
		case problem != "":
		case c.serve != nil:
			if answer, status, problem = c.serve(h, q, w, r); status == 0 {
				return // it has answered
			}
		default:
			q.View = q.Server.View()
			answer = c.run(q)
		}
	}
	if known {
		name = c.name
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(appendJSON(nil, finish(answer, name, problem), 0), '\n'))
}

// finish adds the fields that each answer has.
func finish(answer object, name, problem string) object {
	if slices.ContainsFunc(answer, func(f field) bool { return f.name == "error" }) {
		return append(answer, field{"command", name})
	}
	var err any
	if problem != "" {
		err = problem
	}
	return append(answer, field{"command", name}, field{"error", err})
}

// authorize checks the header by which a client authenticates: a scheme, a blank, and what
// it would send with addAuth.
func (h *handler) authorize(r *http.Request) (may func() bool, status int, problem string) {
	if r.Header.Get("Authorization") == "" {
		return nil, http.StatusUnauthorized, "Auth info is missing for the command"
	}
	return h.Authorize(r.Context(), claimOf(r))
}

// claimOf returns what the sender of a request shows of itself.
func claimOf(r *http.Request) Claim {
	scheme, data, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	c := Claim{Scheme: scheme, Data: data, From: from.Addr().Unmap()}
	if r.TLS != nil {
		c.Certificates = r.TLS.PeerCertificates
	}
	return c
}

func split(addr string) (host string, port int) {
	host, p, _ := net.SplitHostPort(addr)
	port, _ = strconv.Atoi(p)
	return host, port
}

func hostOf(addrs []string) string {
	if len(addrs) == 0 {
		return ""
	}
	host, _ := split(addrs[0])
	return host
}

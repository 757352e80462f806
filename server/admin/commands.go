package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/show"
)

// Server is what the commands need of a server.
type Server interface {
	show.Source
	// Health returns the checks of livez and readyz. It waits for no lock that a stuck part may hold.
	Health() []show.Check
	// TakeSnapshot writes a snapshot of all that is applied now, and opens it.
	TakeSnapshot(ctx context.Context) (Snapshot, error)
	// FollowLog returns a stream of what is committed after a zxid, encoded as an archive is, if
	// the history of the server has the name of, or of is empty. Otherwise it returns an HTTP
	// status and the reason.
	FollowLog(after int64, of string) (s LogStream, status int, problem string)
	// LogLeft says what such a stream would have until now.
	LogLeft(after int64, of string) (l copies.Left, status int, problem string)
	// Feed returns a stream of changes of znodes. If there is none it returns an HTTP status and
	// the reason.
	Feed(ctx context.Context, r FeedRequest) (f Feed, status int, problem error)
	// ShedConnections ends a part of the connections of clients, so that they go to other
	// servers. It returns how many.
	ShedConnections(percent int) int
}

// Snapshot is a snapshot that was taken.
type Snapshot struct {
	io.ReadCloser
	Zxid, Size int64
}

// LogStream is a stream of the log.
type LogStream interface {
	// Next returns the next bytes. It blocks until there are some; when there is nothing new, that
	// takes about a second. The error is io.EOF when the server stops.
	Next(ctx context.Context) ([]byte, error)
	Close() error
}

// command is a row of the table of commands.
type command struct {
	name    string
	aliases []string
	// changes means that the command changes something.
	changes bool
	// anytime means that the command is answered also while the server does not serve.
	anytime bool
	run     func(q query) object
	// posted means that the request has the method POST.
	posted bool
	// serve, in place of run, is for commands that need the request. A status of 0 means
	// that it has written the answer.
	serve func(h *handler, q query, w http.ResponseWriter, r *http.Request) (answer object, status int, problem string)
}

// query is a request for a command.
type query struct {
	Server
	*show.View             // of a command with run
	config     string      // the text of the configuration file
	may        func() bool // of a command that changes something: whether its sender may have more
	args       url.Values  // of the URL
}

// commands returns the table, by name.
func commands() []command {
	return []command{
		{name: "configuration", aliases: []string{"conf", "config"}, run: query.configuration},
		{name: "connection_stat_reset", aliases: []string{"crst"}, changes: true, run: func(q query) object { q.ResetConnectionStats(); return nil }},
		{name: "connections", aliases: []string{"cons"}, run: func(q query) object { return q.connections(true) }},
		{name: "dirs", run: query.dirs},
		{name: "dump", run: query.dump},
		{name: "environment", aliases: []string{"env", "envi"}, anytime: true, run: query.environment},
		{name: "get_trace_mask", aliases: []string{"gtmk"}, anytime: true, run: func(q query) object { return object{{"tracemask", q.TraceMask}} }},
		{name: "hash", run: query.hash},
		{name: "initial_configuration", aliases: []string{"icfg"}, run: func(q query) object { return object{{"initial_configuration", q.config}} }},
		{name: "is_read_only", aliases: []string{"isro"}, run: func(q query) object { return object{{"read_only", q.View.ReadOnly}} }},
		{name: "last_snapshot", aliases: []string{"lsnp"}, run: query.lastSnapshot},
		{name: "leader", aliases: []string{"lead"}, run: query.leader},
		{name: "log", changes: true, serve: (*handler).log},
		{name: "monitor", aliases: []string{"mntr"}, anytime: true, run: query.monitor},
		{name: "observer_connection_stat_reset", aliases: []string{"orst"}, changes: true, run: func(query) object { return nil }}, // nothing is counted by observer
		{name: "observers", aliases: []string{"obsr"}, run: query.observers},
		{name: "restore", aliases: []string{"rest"}, changes: true, posted: true, serve: (*handler).restore},
		{name: "ruok", run: func(query) object { return nil }},
		{name: "server_stats", aliases: []string{"srvr"}, run: query.serverStats},
		{name: "set_trace_mask", aliases: []string{"stmk"}, changes: true, anytime: true, run: query.setTraceMask},
		{name: "shed_connections", aliases: []string{"shed"}, changes: true, posted: true, serve: (*handler).shed},
		{name: "snapshot", aliases: []string{"snap"}, changes: true, serve: (*handler).snapshot},
		{name: "stat_reset", aliases: []string{"srst"}, changes: true, run: func(q query) object { q.ResetServerStats(); return nil }},
		{name: "stats", aliases: []string{"stat"}, run: func(q query) object { return append(q.serverStats(), q.connections(false)...) }},
		{name: "top", aliases: []string{"topc"}, run: query.top},
		{name: "voting_view", run: query.votingView},
		{name: "watch_summary", aliases: []string{"wchs"}, run: query.watchSummary},
		{name: "watches", aliases: []string{"wchc"}, run: query.watches},
		{name: "watches_by_path", aliases: []string{"wchp"}, run: query.watchesByPath},
		{name: "zabstate", anytime: true, run: query.zabState},
	}
}

func (q query) configuration() object {
	s := q.Settings()
	o := object{
		{"client_port", s.ClientPort}, {"data_dir", s.DataDir}, {"data_log_dir", s.DataLogDir}, {"tick_time", s.TickTimeMs},
		{"max_client_cnxns", s.MaxClientCnxns}, {"min_session_timeout", s.MinSessionTimeoutMs}, {"max_session_timeout", s.MaxSessionTimeoutMs},
		{"server_id", s.ServerID}, {"client_port_listen_backlog", s.ListenBacklog},
	}
	if p := s.Quorum; p != nil {
		peerType := 0
		if p.Observer {
			peerType = 1
		}
		o = append(o, object{
			{"init_limit", p.InitLimit}, {"sync_limit", p.SyncLimit}, {"election_alg", p.ElectionAlg},
			{"election_port", p.ElectionPort}, {"quorum_port", p.QuorumPort}, {"peer_type", peerType},
		}...)
	}
	return o
}

// connections lists the connections, in full or only their traffic.
func (q query) connections(full bool) object {
	var plain, secure list
	for _, c := range q.Conns() {
		if c.Secure {
			secure = append(secure, connection(c, full))
		} else {
			plain = append(plain, connection(c, full))
		}
	}
	return object{{"connections", plain}, {"secure_connections", secure}}
}

// top shows the clients that did most: by session, address or identity (by), ordered by
// requests, bytes or watches (order); as many as n. Totals are of the connections there are,
// and of what addresses and identities did by connections that have ended.
func (q query) top() object {
	by, order := cmp.Or(q.args.Get("by"), "address"), cmp.Or(q.args.Get("order"), "requests")
	n, err := strconv.Atoi(cmp.Or(q.args.Get("n"), "20"))
	name := map[string]func(u *show.ClientUse) string{
		"session":  func(u *show.ClientUse) string { return "0x" + strconv.FormatUint(uint64(u.Session), 16) },
		"address":  func(u *show.ClientUse) string { return u.Address },
		"identity": func(u *show.ClientUse) string { return u.Identity },
	}[by]
	amount := map[string]func(u *show.ClientUse) int64{
		"requests": func(u *show.ClientUse) int64 { return u.Requests },
		"bytes":    func(u *show.ClientUse) int64 { return u.BytesIn + u.BytesOut },
		"watches":  func(u *show.ClientUse) int64 { return u.Watches },
	}[order]
	if name == nil || amount == nil || err != nil || n < 0 {
		return object{{"error", "by is session, address or identity; order is requests, bytes or watches; n is a number"}}
	}
	sums := make(map[string]*show.ClientUse)
	for _, u := range q.Clients() {
		if by == "session" && u.Session == 0 {
			continue
		}
		sum := sums[name(&u)]
		if sum == nil {
			sum = &show.ClientUse{}
			sums[name(&u)] = sum
		}
		sum.Add(&u)
	}
	names := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(amount(sums[b]), amount(sums[a])), cmp.Compare(a, b))
	})
	var rows list
	for _, key := range names[:min(n, len(names))] {
		u := sums[key]
		rows = append(rows, object{
			{by, key}, {"connections", u.Connections}, {"requests", u.Requests}, {"replies", u.Replies},
			{"bytes_in", u.BytesIn}, {"bytes_out", u.BytesOut}, {"watches", u.Watches},
		})
	}
	return object{{"by", by}, {"order", order}, {"top", rows}}
}

func connection(c show.Connection, full bool) object {
	interest := 0
	if c.Reading {
		interest |= 1
	}
	if c.Writing {
		interest |= 4
	}
	o := object{
		{"remote_socket_address", fourletter.SocketAddress(c.Remote)}, {"interest_ops", interest}, {"outstanding_requests", c.Queued},
		{"packets_received", c.Received}, {"packets_sent", c.Sent},
	}
	if c.Edge != "" {
		o = append(o, object{{"user", c.User}, {"edge", c.Edge}}...)
	}
	if !full || c.Session == 0 {
		return o
	}
	return append(o, object{
		{"session_id", c.Session}, {"last_operation", c.LastOp}, {"established", c.Established.UnixMilli()}, {"session_timeout", c.TimeoutMs},
		{"last_cxid", c.LastCxid}, // also if it is negative, unlike in cons
		{"last_zxid", c.LastZxid}, {"last_response_time", c.LastReplyMs}, {"last_latency", c.LastLatencyMs},
		{"min_latency", c.MinLatencyMs}, {"avg_latency", c.AvgLatencyMs}, {"max_latency", c.MaxLatencyMs},
	}...)
}

func (q query) dirs() object {
	size := q.DirSizes()
	return object{{"datadir_size", size.Data}, {"logdir_size", size.Log}}
}

func (q query) dump() object {
	expiries, owners := object{}, object{}
	for _, b := range q.AllSessions().Buckets {
		expiries = append(expiries, field{strconv.FormatInt(b.Expires.UnixMilli(), 10), listOf(b.Sessions, asIs)})
	}
	for _, e := range q.Ephemerals() {
		owners = append(owners, field{strconv.FormatInt(e.Session, 10), listOf(e.Paths, asIs)})
	}
	return object{{"expiry_time_to_session_ids", expiries}, {"session_id_to_ephemeral_paths", owners}}
}

func asIs[T any](v T) any { return v }

func (q query) environment() (o object) {
	for _, e := range q.Environment() {
		o = append(o, field{e.Key, e.Value})
	}
	return o
}

func (q query) hash() object {
	return object{{"digests", listOf(q.Digests(), func(d show.Digest) any {
		return object{{"zxid", d.Zxid}, {"digest", d.Value}, {"digest_version", 2}}
	})}}
}

func (q query) lastSnapshot() object {
	s := q.LastSnapshot()
	return object{{"zxid", strconv.FormatInt(s.Zxid, 16)}, {"timestamp", max(s.At.Unix(), 0)}}
}

func (q query) leader() object {
	p := q.Peer()
	if p == nil {
		return object{{"error", "server is not initialized"}}
	}
	o := object{{"is_leader", p.Leads}}
	if p.Leader >= 0 {
		o = append(o, object{{"leader_id", p.Leader}, {"leader_ip", hostOf(p.Member(p.Leader).Quorum)}}...)
	}
	return o
}

// monitor shows the keys of mntr.
func (q query) monitor() object {
	o := object{{"version", q.Version}}
	if q.Server.Serving() {
		o = append(o, field{"server_state", q.Mode()})
		if state := q.PeerState(); state != "" {
			o = append(o, field{"peer_state", state})
		}
		if id := q.ObserverMaster(); id != 0 {
			o = append(o, field{"observer_master_id", id})
		}
	}
	for _, m := range q.Words() {
		o = append(o, field{m.Name, number(m.Value)})
	}
	return o
}

// number returns text as a number of JSON, if it is one.
func number(text string) any {
	if json.Valid([]byte(text)) {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return json.Number(text)
		}
	}
	return text
}

func (q query) observers() object {
	p := cmp.Or(q.Peer(), &show.Peer{})
	return object{{"synced_observers", len(p.Observers)}, {"observers", listOf(p.Observers, func(o show.Observer) any {
		waiting := 0
		if o.Queued > 0 {
			waiting = 1 // frames wait as one text
		}
		return object{{"remote_socket_address", "/" + o.Remote}, {"sid", o.ID}, {"established", o.Since.UnixMilli()},
			{"queued_packets", waiting}, {"queued_packets_size", o.Queued}, {"packets_received", o.Received}, {"packets_sent", o.Sent},
			{"requests", o.Requests}, {"last_zxid", o.Zxid}}
	})}}
}

func (q query) serverStats() object {
	size := q.DirSizes()
	metrics := make(map[string]any)
	for _, m := range q.Words() {
		metrics[m.Name] = number(m.Value)
	}
	sizes := func(what string) object {
		var o object
		for _, which := range []string{"last", "min", "max"} {
			o = append(o, field{which + "_buffer_size", cmp.Or(metrics[which+"_"+what+"_size"], any(-1))})
		}
		return o
	}
	o := object{{"version", q.Version}, {"read_only", q.View.ReadOnly}, {"server_stats", object{
		{"packets_sent", q.PacketsSent.Load()}, {"packets_received", q.PacketsReceived.Load()}, {"fsync_threshold_exceed_count", cmp.Or(metrics["fsync_threshold_exceed_count"], any(0))},
		{"client_response_stats", sizes("client_response")},
		{"data_dir_size", size.Data}, {"log_dir_size", size.Log}, {"provider_null", false}, {"server_state", q.Mode()},
		{"last_processed_zxid", q.Zxid}, {"outstanding_requests", q.WaitingRequests},
		{"avg_latency", q.Latency.Avg}, {"max_latency", q.Latency.Max}, {"min_latency", q.Latency.Min},
		{"num_alive_client_connections", q.View.Connections}, {"uptime", metrics["uptime"]},
		{"auth_failed_count", cmp.Or(metrics["auth_failed_count"], any(0))}, {"non_mtlsremote_conn_count", cmp.Or(metrics["non_mtls_remote_conn_count"], any(0))},
		{"non_mtlslocal_conn_count", cmp.Or(metrics["non_mtls_local_conn_count"], any(0))},
	}}, {"client_response", sizes("client_response")}}
	if p := q.LeaderProposals(); p != nil {
		o = append(o, field{"proposal_stats", object{{"last_buffer_size", p.Last.Load()}, {"min_buffer_size", p.Least.Load()}, {"max_buffer_size", p.Most.Load()}}})
	}
	return append(o, field{"node_count", q.Tree.Nodes})
}

func (q query) setTraceMask() object {
	mask, err := strconv.ParseInt(q.args.Get("traceMask"), 10, 64)
	if err != nil {
		return object{{"error", "setTraceMask requires long traceMask argument"}}
	}
	q.SetTraceMask(mask)
	return object{{"tracemask", mask}}
}

func (q query) votingView() object {
	p := cmp.Or(q.Peer(), &show.Peer{})
	view := object{}
	for _, m := range p.Members {
		if m.Observer {
			continue
		}
		view = append(view, field{strconv.FormatInt(m.ID, 10), object{
			{"server_addresses", listOf(m.Quorum, asIs)}, {"election_addresses", listOf(m.Election, asIs)},
			{"client_address", m.Client}, {"learner_type", "participant"},
		}})
	}
	return object{{"current_config", view}}
}

func (q query) watchSummary() object {
	n := q.WatchCount()
	return object{{"num_connections", n.Connections}, {"num_paths", n.Paths}, {"num_total_watches", n.Watches}}
}

func (q query) watches() object {
	o := object{}
	for _, w := range q.WatchesBySession() {
		o = append(o, field{strconv.FormatInt(w.Session, 10), listOf(w.Paths, asIs)})
	}
	return object{{"session_id_to_watched_paths", o}}
}

func (q query) watchesByPath() object {
	o := object{}
	for _, w := range q.WatchesByPath() {
		o = append(o, field{w.Path, listOf(w.Sessions, asIs)})
	}
	return object{{"path_to_session_ids", o}}
}

func (q query) zabState() object {
	p := q.Peer()
	if p == nil {
		return object{{"voting", false}, {"zabstate", ""}}
	}
	self := p.Member(p.ID)
	zxid := uint64(q.Zxid)
	return object{
		{"myid", p.ID}, {"is_leader", p.Leads},
		{"quorum_address", addresses(self.Quorum)}, {"election_address", addresses(self.Election)}, {"client_address", self.Client},
		{"voting", p.Voter}, {"last_zxid", "0x" + strconv.FormatUint(zxid, 16)},
		{"zab_epoch", zxid >> 32}, {"zab_counter", zxid & 0xffffffff}, {"zabstate", p.Activity},
	}
}

// addresses shows the addresses of this server, as Apache's server does. All count as reachable: it
// listens there.
func addresses(list []string) object {
	one := ""
	if len(list) > 0 {
		one = list[0]
	}
	var wildcards []string
	hosts, ports := make(map[string]bool), make(map[int]bool)
	for _, a := range list {
		host, port := split(a)
		if !ports[port] {
			wildcards = append(wildcards, "0.0.0.0:"+strconv.Itoa(port))
		}
		hosts[host], ports[port] = true, true
	}
	return object{
		{"empty", len(list) == 0}, {"all_addresses", listOf(list, asIs)}, {"wildcard_addresses", listOf(wildcards, asIs)},
		{"all_ports", listOf(slices.Sorted(maps.Keys(ports)), asIs)}, {"all_host_strings", listOf(slices.Sorted(maps.Keys(hosts)), asIs)},
		{"reachable_address", one}, {"all_reachable_addresses", listOf(list, asIs)}, {"all_reachable_addresses_or_all", listOf(list, asIs)},
		{"reachable_or_one", one}, {"one", one},
	}
}

package api

import (
	"math"
	"net/http"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// Parameters that several endpoints have.
var (
	byZxid = param{in: "header", name: "X-Zxid", refuses: []int{409}, pattern: "^(0x)?[0-9a-fA-F]{1,15}$",
		doc: "The last zxid that the caller has seen, in hex. The answer is not older; the server waits for that if need be."}
	bySession = param{in: "header", name: "X-Session", refuses: []int{410}, pattern: "^[A-Za-z0-9_-]*$", doc: "The token of a session, to which the request belongs."}
	ifMatch   = param{in: "header", name: "If-Match", refuses: []int{412}, pattern: `^(\*|"[0-9]{1,9}")$`, doc: "The version that the node must have, as its ETag; * or none is any version."}
	byRange   = param{in: "header", name: "Range", doc: "A part of the data, such as bytes=0-1023."}
	byKey     = param{in: "header", name: "Idempotency-Key", refuses: []int{409, 422}, pattern: `^"?[0-9]{1,10}"?$`,
		doc: "In an exactly-once session, the number of the write. Repeated with the same key, at any server, it is done once, and has the first answer. Keys rise from 1 to 1073741823; one that is lower than the last one is refused."}
	how = param{in: "query", name: "consistency", choices: []string{"session", "local", "linearizable"},
		doc: "What a read shows: session (the default), what this server has, and not less than X-Zxid or the session has seen; local, what this server has; linearizable, all that was written before the request, anywhere."}
)

func showing(names ...string) param {
	return param{in: "query", name: "show", choices: names, doc: "What is shown of each node, with what comes before it in this list."}
}

// rows limits a list.
var rows = param{in: "query", name: "limit", least: 1, most: mostRows, doc: "The largest number of rows."}

func (a *api) table() []endpoint {
	data := []content{{bytesType, nil}, {textType, nil}, inJSON[Node]()[0]}
	node := inJSON[Node]()
	etagged := []string{"ETag"}
	reads := func(more ...param) []param { return append([]param{how, byZxid, bySession}, more...) }
	past := func(of []param) []param { return append(of, moment...) }
	writes := func(more ...param) []param { return append([]param{bySession, byKey}, more...) }
	return append(append(operations(), pastOperations()...), []endpoint{
		{method: http.MethodGet, path: "/v1/nodes/{path}", doc: "The data of a node.", params: past(reads(byRange)), serve: (*call).getNode,
			answers: []answer{{status: 200, doc: "The data, and the Stat in headers.", headers: etagged, stat: true, content: data},
				{status: 206, doc: "The part that Range asks for.", headers: []string{"ETag", "Content-Range"}, stat: true, content: data[:2]}},
			refuses: []int{404, 406, 416}},
		{method: http.MethodHead, path: "/v1/nodes/{path}", doc: "The Stat of a node.", params: reads(), serve: (*call).headNode,
			answers: []answer{{status: 200, doc: "The Stat in headers.", headers: etagged, stat: true}},
			refuses: []int{404}},
		{method: http.MethodPut, path: "/v1/nodes/{path}", doc: "Replace the data of a node.", writes: true, params: writes(ifMatch), body: []content{{bytesType, nil}}, serve: (*call).setNode,
			answers: []answer{{status: 200, doc: "The node as it is now.", headers: etagged, stat: true, content: node}},
			refuses: []int{404}},
		{method: http.MethodPost, path: "/v1/nodes/{path}", doc: "Create a node.", writes: true, body: []content{{bytesType, nil}}, serve: (*call).createNode,
			params: writes(
				param{in: "query", name: "mode", choices: modes, doc: "The kind of node, persistent by default. An ephemeral needs a session; to a sequential one the server adds a number."},
				param{in: "query", name: "ttl", least: 1, most: jute.MaxTTL, doc: "With a mode that has a TTL: after how many ms without a change the node is deleted if it has no children."},
				param{in: "query", name: "acl", many: true, doc: "An entry of the ACL, as scheme:id:perms, such as world:anyone:r; by default world:anyone:cdrwa."}),
			answers: []answer{{status: 201, doc: "The node that was created.", headers: []string{"ETag", "Location"}, stat: true, content: node}},
			refuses: []int{404, 409}},
		{method: http.MethodDelete, path: "/v1/nodes/{path}", doc: "Delete a node, which has no children.", writes: true, params: writes(ifMatch), serve: (*call).deleteNode,
			answers: []answer{{status: 204, doc: "It is deleted."}},
			refuses: []int{404, 409}},
		{method: http.MethodGet, path: "/v1/children/{path}", doc: "Children of a node, in pages.", serve: (*call).getChildren,
			params: past(reads(
				param{in: "query", name: "after", doc: "The names wanted come after this one, which need not exist."},
				param{in: "query", name: "limit", least: 0, most: 4096, doc: "The largest number of children; 0 leaves it to the server."},
				showing(shows[:3]...))),
			answers: []answer{{status: 200, doc: "A page.", content: inJSON[Children]()}},
			refuses: []int{404}},
		{method: http.MethodGet, path: "/v1/subtree/{path}", doc: "A node and all nodes below it, as they were at one zxid.", params: past(reads(showing(shows[1:]...))), serve: (*call).getSubtree,
			answers: []answer{{status: 200, doc: "A node in each line, parents before their children.", content: []content{{linesType, inJSON[Child]()[0].record}}}},
			refuses: []int{404}},
		{method: http.MethodGet, path: "/v1/search/{path}", doc: "The nodes of a subtree whose names and data match regular expressions.", serve: (*call).search,
			params: reads(rows,
				param{in: "query", name: "name", doc: "A regular expression (RE2) for a part of the name, which is the last one of the path."},
				param{in: "query", name: "data", doc: "One for a part of the data."}),
			answers: []answer{{status: 200, doc: "A line for each node that was found, and one about the progress from time to time; that is the last one, too.",
				content: []content{{linesType, inJSON[Found]()[0].record}}}},
			refuses: []int{404}},
		{method: http.MethodGet, path: "/v1/acl/{path}", doc: "The ACL of a node.", params: reads(), serve: (*call).getACL,
			answers: []answer{{status: 200, doc: "The ACL. Its ETag is the aversion.", headers: etagged, content: inJSON[ACLList]()}},
			refuses: []int{404}},
		{method: http.MethodPut, path: "/v1/acl/{path}", doc: "Replace the ACL of a node.", writes: true, params: writes(ifMatch), body: inJSON[ACLList](), serve: (*call).setACL,
			answers: []answer{{status: 200, doc: "The node as it is now.", headers: etagged, content: node}},
			refuses: []int{404}},
		{method: http.MethodPost, path: "/v1/multi", doc: "Do several operations, or none of them.", writes: true, params: writes(), body: inJSON[Ops](), serve: (*call).multi,
			answers: []answer{{status: 200, doc: "All were done.", content: inJSON[Results]()}},
			refuses: []int{404, 409, 412}},
		{method: http.MethodPost, path: "/v1/sessions", doc: "Open a session, which owns the ephemerals that are created with its token.", serve: (*call).openSession,
			params: []param{{in: "query", name: "timeout", least: 0, most: math.MaxInt32, doc: "The timeout wanted, in ms. The server bounds it, and the answer has the one that holds."},
				{in: "query", name: "exactly", choices: []string{"once"}, doc: "Each write of the session needs an Idempotency-Key, and is done exactly once."}},
			answers: []answer{{status: 201, doc: "The session.", headers: []string{"Location"}, content: inJSON[Session]()}}},
		{method: http.MethodGet, path: "/v1/sessions", doc: "The sessions of the ensemble, and the local ones of this server.", serve: (*call).sessions,
			params:  []param{rows, {in: "query", name: "after", pattern: "^(0x)?[0-9a-fA-F]{1,16}$", doc: "The sessions wanted come after this id."}},
			answers: []answer{{status: 200, doc: "Sessions.", content: inJSON[SessionList]()}}},
		{method: http.MethodGet, path: "/v1/sessions/{id}", doc: "A session with its ephemerals.", params: reads(), serve: (*call).getSession,
			answers: []answer{{status: 200, doc: "The session.", content: inJSON[Session]()}}},
		{method: http.MethodPost, path: "/v1/sessions/{id}/touch", doc: "Keep a session, as each request with its token does.", params: writes(), serve: (*call).touchSession,
			answers: []answer{{status: 204, doc: "It is there."}}},
		{method: http.MethodDelete, path: "/v1/sessions/{id}", doc: "Close a session. Its ephemerals are deleted. An operator ends those of others, without X-Session.", params: writes(dryRun), serve: (*call).closeSession,
			answers: []answer{{status: 204, doc: "It is closed."}, {status: 200, doc: "The session of another client has ended, or would.", content: inJSON[Ended]()}}, refuses: []int{404}},
		{method: http.MethodGet, path: "/v1/whoami", doc: "The identities of the caller.", params: writes(), serve: (*call).whoAmI,
			answers: []answer{{status: 200, doc: "The identities.", content: inJSON[Identities]()}}},
		{method: http.MethodGet, path: "/v1/overview", doc: "This server at a glance.", serve: (*call).overview,
			answers: []answer{{status: 200, doc: "Figures and checks.", content: inJSON[Overview]()}}},
		{method: http.MethodGet, path: "/v1/members", doc: "The servers of the ensemble.", serve: (*call).members,
			answers: []answer{{status: 200, doc: "The members, and on the leader how far they are.", content: inJSON[Members]()}}},
		{method: http.MethodGet, path: "/v1/connections", doc: "The connections of this server.", serve: (*call).connections, params: []param{rows},
			answers: []answer{{status: 200, doc: "Connections.", content: inJSON[ConnectionList]()}}},
		{method: http.MethodGet, path: "/v1/watches", doc: "The watches of data at this server.", serve: (*call).watches,
			params: []param{rows, {in: "query", name: "after", doc: "The paths wanted come after this one."},
				{in: "query", name: "path", doc: "Only the watches of this node."}},
			answers: []answer{{status: 200, doc: "Watches by path.", content: inJSON[WatchList]()}}},
		{method: http.MethodGet, path: "/v1/quotas", doc: "What the quotas of each namespace come to.", serve: (*call).quotas,
			answers: []answer{{status: 200, doc: "Quotas.", content: inJSON[QuotaList]()}}},
		{method: http.MethodGet, path: "/v1/limits", doc: "The rules that limit clients, and how often they were exceeded.", serve: (*call).limits,
			answers: []answer{{status: 200, doc: "Limits.", content: inJSON[LimitList]()}}},
		{method: http.MethodGet, path: "/v1/coordination", doc: "What nodes are to programs: locks, elections, queues and others, with the holders and those that wait, and the sessions that wait for each other.", serve: (*call).getCoordination,
			params: reads(param{in: "query", name: "path", many: true, doc: "The path of a node, such as that of a lock. It comes from 1 to 256 times."},
				param{in: "query", name: "without", many: true, doc: "The name of a place that is left out: what the objects become when its node is deleted."}),
			answers: []answer{{status: 200, doc: "The objects.", content: inJSON[Coordination]()}}},
		{method: http.MethodGet, path: "/v1/ensemble", doc: "How the members of the ensemble are, and what is wrong. It needs no identity, like the four-letter words by which members are asked.", serve: (*call).getEnsemble,
			answers: []answer{{status: 200, doc: "The members, not older than some seconds.", content: inJSON[Ensemble]()}}, refuses: []int{404}},
		{method: http.MethodGet, path: "/v1/feed", doc: "Changes of a node and of those below it, as they happen.", serve: (*call).feed,
			params: []param{
				{in: "query", name: "path", doc: "The node, / by default."},
				{in: "query", name: "after", pattern: byZxid.pattern, doc: "The zxid, in hex, after which the changes come; by default the present one."},
				{in: "query", name: "follow", choices: []string{"true", "false"}, doc: "false: the answer ends with the last change that there is."},
				{in: "query", name: "data", choices: []string{"true", "false"}, doc: "With the data of the nodes, in base64."},
				{in: "header", name: "Last-Event-ID", pattern: byZxid.pattern, doc: "Instead of after."}},
			answers: []answer{{status: 200, doc: "Server-sent events.", content: []content{{"text/event-stream", nil}}}},
			refuses: []int{410}},
		{method: http.MethodGet, path: "/v1/openapi.json", doc: "This description.", serve: (*call).describe,
			answers: []answer{{status: 200, doc: "OpenAPI 3.1.", content: []content{{jsonType, nil}}}}},
	}...)
}

// always are the statuses of problems that each endpoint has.
var always = []int{400, 401, 403, 429, 500, 501, 503}

// describe sends the description.
func (c *call) describe() error {
	c.w.Header().Set("Content-Type", jsonType)
	_, _ = c.w.Write(c.description)
	return nil
}

// feed has the changes sent.
func (c *call) feed() error {
	r := c.r.Clone(c.r.Context())
	r.Header.Del("Authorization")
	if c.caller.Scheme != "" {
		r.Header.Set("Authorization", c.caller.Scheme+" "+c.caller.Data)
	}
	out := &feedAnswer{ResponseWriter: c.w}
	c.Feed.ServeHTTP(out, r)
	if out.refused == nil {
		return nil
	}
	out.refused.Detail = strings.TrimSpace(out.refused.Detail)
	out.refused.Oldest = c.w.Header().Get(oldestHeader)
	c.w.Header().Del(oldestHeader)
	return out.refused
}

// oldestHeader is the header in which the handler of feeds tells the oldest zxid.
const oldestHeader = "X-Oldest-Zxid"

// feedAnswer makes a problem of a feed that is refused in words.
type feedAnswer struct {
	http.ResponseWriter
	refused *Problem
}

func (f *feedAnswer) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		f.refused = refuse(status, "")
		return
	}
	f.ResponseWriter.WriteHeader(status)
}

func (f *feedAnswer) Write(text []byte) (int, error) {
	if f.refused != nil {
		f.refused.Detail += string(text)
		return len(text), nil
	}
	return f.ResponseWriter.Write(text)
}

// Unwrap has http.ResponseController find the connection.
func (f *feedAnswer) Unwrap() http.ResponseWriter { return f.ResponseWriter }

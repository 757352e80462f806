package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
)

// The media types of data.
const (
	bytesType = "application/octet-stream"
	textType  = "text/plain"
	jsonType  = "application/json"
)

// statHeaders are those that show a Stat, as http.Header has them.
var statHeaders = [...]string{"X-Stat-Czxid", "X-Stat-Mzxid", "X-Stat-Pzxid", "X-Stat-Ctime", "X-Stat-Mtime", "X-Stat-Version", "X-Stat-Cversion", "X-Stat-Aversion",
	"X-Stat-Ephemeral-Owner", "X-Stat-Data-Length", "X-Stat-Num-Children"}

// setStat sets the headers that show a Stat.
func (c *call) setStat(s *jute.Stat) {
	h := c.w.Header()
	h.Set("ETag", etag(s.Version))
	number := func(n int32) string { return strconv.Itoa(int(n)) }
	values := [len(statHeaders)]string{s.Czxid.String(), s.Mzxid.String(), s.Pzxid.String(), strconv.FormatInt(s.Ctime, 10), strconv.FormatInt(s.Mtime, 10),
		number(s.Version), number(s.Cversion), number(s.Aversion), s.EphemeralOwner.String(), number(s.DataLength), number(s.NumChildren)}
	for i, name := range statHeaders {
		h[name] = values[i : i+1 : i+1]
	}
}

// etag is the ETag of a version.
func etag(version int32) string { return `"` + strconv.Itoa(int(version)) + `"` }

// version returns the version that If-Match asks for, -1 for any.
func (c *call) version() int32 {
	n, err := strconv.ParseInt(strings.Trim(c.arg("If-Match"), `"`), 10, 32)
	if err != nil { // there is none, or *
		return -1
	}
	return int32(n)
}

// getNode sends the data of a node.
func (c *call) getNode() error {
	if c.looksBack() {
		n, data, err := c.formerNode()
		if err != nil {
			return err
		}
		return c.sendNode(&n, data)
	}
	var got jute.GetDataResponse
	zxid, err := c.read(jute.OpGetData, &jute.PathWatchRequest{Path: c.path}, &got)
	if err != nil {
		return err
	}
	c.zxid(zxid)
	c.setStat(&got.Stat)
	return c.sendNode(&Node{Path: c.path, Zxid: zxid.String(), Stat: show.StatOf(&got.Stat), Data: &got.Data}, got.Data)
}

// sendNode sends the data of a node as the caller likes it, or the node in JSON.
func (c *call) sendNode(n *Node, data []byte) error {
	types := []string{bytesType, textType, jsonType}
	if !utf8.Valid(data) {
		types = []string{bytesType, jsonType}
	}
	switch t := accepted(c.r.Header.Get("Accept"), types...); t {
	case "":
		return refuse(http.StatusNotAcceptable, "the data can be had as %s", strings.Join(types, ", "))
	case jsonType:
		return c.answer(http.StatusOK, n)
	case textType:
		c.w.Header().Set("Content-Type", t+"; charset=utf-8")
	default:
		c.w.Header().Set("Content-Type", t)
	}
	return c.sendPart(data)
}

// sendPart sends data, or the range of it that is asked for.
func (c *call) sendPart(data []byte) error {
	h, status := c.w.Header(), http.StatusOK
	h.Set("Accept-Ranges", "bytes")
	if from, to, ok := rangeOf(c.r.Header.Get("Range"), len(data)); ok && c.r.Header.Get("If-Range") == "" {
		if from >= to {
			h.Set("Content-Range", "bytes */"+strconv.Itoa(len(data)))
			return refuse(http.StatusRequestedRangeNotSatisfiable, "there are %d bytes", len(data))
		}
		h.Set("Content-Range", "bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(to-1)+"/"+strconv.Itoa(len(data)))
		data, status = data[from:to], http.StatusPartialContent
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(data)
	return nil
}

// rangeOf returns the part of so many bytes that a header Range asks for: an empty one if there are none there. It returns false
// for a header that asks for several parts, or can't be read, which has no effect.
func rangeOf(header string, length int) (from, to int, ok bool) {
	text, ok := strings.CutPrefix(header, "bytes=")
	first, last, found := strings.Cut(strings.TrimSpace(text), "-")
	if !ok || !found {
		return 0, 0, false
	}
	a, errA := strconv.ParseUint(first, 10, 31)
	b, errB := strconv.ParseUint(last, 10, 31)
	switch {
	case first == "" && errB == nil:
		return max(0, length-int(b)), length, true
	case errA == nil && last == "":
		return min(int(a), length), length, true
	case errA == nil && errB == nil && a <= b:
		return min(int(a), length), min(int(b)+1, length), true
	}
	return 0, 0, false
}

// headNode tells of a node without its data.
func (c *call) headNode() error {
	var s jute.Stat
	zxid, err := c.read(jute.OpExists, &jute.PathWatchRequest{Path: c.path}, &s)
	if err != nil {
		return err
	}
	c.zxid(zxid)
	c.setStat(&s)
	c.w.Header().Set("Content-Type", bytesType)
	c.w.Header().Set("Content-Length", strconv.Itoa(int(s.DataLength)))
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// setNode replaces the data of a node.
func (c *call) setNode() error {
	data, err := c.body()
	if err != nil {
		return err
	}
	var s jute.Stat
	zxid, err := c.send(jute.OpSetData, &jute.SetDataRequest{Path: c.path, Data: data, Version: c.version()}, &s)
	if err != nil {
		return err
	}
	c.zxid(zxid)
	c.setStat(&s)
	return c.answer(http.StatusOK, Node{Path: c.path, Zxid: zxid.String(), Stat: show.StatOf(&s)})
}

func (c *call) createNode() error {
	data, err := c.body()
	if err != nil {
		return err
	}
	var list []ACL
	for _, text := range c.args["acl"] {
		a, err := parseACL(text)
		if err != nil {
			return refuse(http.StatusBadRequest, "%v", err)
		}
		list = append(list, a)
	}
	op, err := (&Op{Op: "create", Path: c.path, Data: data, Mode: c.arg("mode"), TTL: c.number("ttl"), ACL: list}).encode()
	if err != nil {
		return err
	}
	var made jute.Create2Response
	zxid, err := c.send(op.Type, single{op}, &made)
	if err != nil {
		return err
	}
	c.zxid(zxid)
	c.setStat(&made.Stat)
	c.w.Header().Set("Location", (&url.URL{Path: Prefix + "nodes" + made.Path}).EscapedPath())
	return c.answer(http.StatusCreated, Node{Path: made.Path, Zxid: zxid.String(), Stat: show.StatOf(&made.Stat)})
}

func (c *call) deleteNode() error {
	zxid, err := c.send(jute.OpDelete, &jute.DeleteRequest{Path: c.path, Version: c.version()}, nil)
	if err != nil {
		return err
	}
	c.zxid(zxid)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// shows are what lists have of their nodes, by their numbers in the protocol.
var shows = []string{"names", "stats", "data", "acls"}

// getChildren lists children of a node.
func (c *call) getChildren() error {
	if c.looksBack() {
		out, err := c.formerChildren()
		if err != nil {
			return err
		}
		return c.answer(http.StatusOK, out)
	}
	q := jute.ChildrenPageRequest{Path: c.path, After: c.arg("after"), Limit: int32(c.number("limit")), Show: showOf(c.arg("show"))}
	var page jute.ChildrenPageResponse
	if _, err := c.read(jute.OpChildrenPage, &q, &page); err != nil {
		return err
	}
	out := Children{Path: c.path, Zxid: page.Zxid.String(), Stat: show.StatOf(&page.Stat), Children: []Child{}, More: page.More}
	for _, name := range page.Names {
		out.Children = append(out.Children, Child{Name: name})
	}
	for i := range page.Children {
		out.Children = append(out.Children, childOf(&page.Children[i], q.Show))
	}
	c.zxid(page.Zxid)
	return c.answer(http.StatusOK, out)
}

// showOf returns the number of what a list shows.
func showOf(name string) int32 {
	for i, s := range shows {
		if s == name {
			return int32(i)
		}
	}
	return 0
}

// childOf returns how a child is shown.
func childOf(p *jute.PageChild, shown int32) Child {
	ch := Child{Name: p.Name}
	if p.Err != 0 {
		ch.Error = codes[p.Err].name
	}
	if p.Err != jute.ErrNoAuth {
		ch.Stat = show.StatOf(&p.Stat)
		if shown >= jute.ShowData && p.Err == 0 {
			ch.Data = &p.Data
		}
	}
	return ch
}

// getACL sends the ACL of a node.
func (c *call) getACL() error {
	var got jute.GetACLResponse
	zxid, err := c.read(jute.OpGetACL, &jute.PathRequest{Path: c.path}, &got)
	if err != nil {
		return err
	}
	c.zxid(zxid)
	c.w.Header().Set("ETag", etag(got.Stat.Aversion))
	return c.answer(http.StatusOK, ACLList{c.path, zxid.String(), show.StatOf(&got.Stat), shownACL(got.ACL)})
}

// setACL replaces the ACL of a node.
func (c *call) setACL() error {
	var list ACLList
	if err := c.record(&list); err != nil {
		return err
	}
	acl, err := acls(list.ACL)
	if err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	var s jute.Stat
	zxid, err := c.send(jute.OpSetACL, &jute.SetACLRequest{Path: c.path, ACL: acl, Version: c.version()}, &s)
	if err != nil {
		return err
	}
	c.zxid(zxid)
	c.w.Header().Set("ETag", etag(s.Aversion))
	return c.answer(http.StatusOK, Node{Path: c.path, Zxid: zxid.String(), Stat: show.StatOf(&s)})
}

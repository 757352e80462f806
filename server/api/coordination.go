package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/coordination"
)

// Coordination is what nodes are recognised as.
type Coordination struct {
	Zxid    string                `json:"zxid" doc:"of the oldest state that this shows: the objects are read one after the other"`
	Objects []coordination.Object `json:"objects" doc:"one for each path"`
	Cycles  [][]coordination.Wait `json:"cycles" doc:"sessions that wait for each other across these objects: deadlocks"`
}

const (
	maxObjects = 256
	// objectNodes is how many nodes of an object are read. Nobody looks at more.
	objectNodes = 500
)

// getCoordination tells what nodes are: locks, elections, queues.
func (c *call) getCoordination() error {
	paths := c.args["path"]
	if len(paths) == 0 || len(paths) > maxObjects {
		return refuse(http.StatusBadRequest, "path comes from 1 to %d times", maxObjects)
	}
	out := Coordination{Cycles: [][]coordination.Wait{}}
	var oldest jute.Zxid
	for _, path := range paths {
		d, zxid, err := c.directory(path, c.args["without"])
		code, failed := err.(jute.Code)
		switch {
		case failed && codes[code].name != "": // there, or allowed, is another matter for each
			out.Objects = append(out.Objects, coordination.Object{Path: path, Kind: coordination.Unknown, By: []string{}, Places: []coordination.Place{}, Error: codes[code].name})
			continue
		case err != nil:
			return err
		}
		if oldest == 0 || zxid < oldest {
			oldest = zxid
		}
		out.Objects = append(out.Objects, coordination.Recognise(d))
	}
	out.Cycles = append(out.Cycles, coordination.Cycles(out.Objects)...)
	out.Zxid = oldest.String()
	c.zxid(oldest)
	return c.answer(http.StatusOK, out)
}

// directory reads a node with what may be an object below it, and leaves out the nodes without.
func (c *call) directory(path string, without []string) (*coordination.Directory, jute.Zxid, error) {
	d := &coordination.Directory{Path: path}
	var got jute.GetDataResponse
	zxid, err := c.read(jute.OpGetData, &jute.PathWatchRequest{Path: path}, &got)
	if err != nil {
		return nil, 0, err
	}
	d.Data = got.Data
	if d.Nodes, d.More, err = c.nodes(path, "", without); err != nil {
		return nil, 0, err
	}
	for _, name := range coordination.Inner(d.Nodes) {
		nodes, more, err := c.nodes(strings.TrimSuffix(path, "/")+"/"+name, name+"/", without)
		if err == jute.ErrNoNode { // it has gone meanwhile
			continue
		} else if err != nil {
			return nil, 0, err
		}
		if d.Below == nil {
			d.Below = make(map[string][]coordination.Node)
		}
		d.Below[name], d.More = nodes, d.More || more
	}
	return d, zxid, nil
}

// nodes reads children with their data, but for those that without names with the prefix. They are the first ones in the order of their names.
func (c *call) nodes(path, prefix string, without []string) (list []coordination.Node, more bool, err error) {
	var page jute.ChildrenPageResponse
	if _, err := c.read(jute.OpChildrenPage, &jute.ChildrenPageRequest{Path: path, Limit: objectNodes, Show: jute.ShowData}, &page); err != nil {
		return nil, false, err
	}
	list = make([]coordination.Node, 0, len(page.Children))
	for i := range page.Children {
		ch := &page.Children[i]
		if slices.Contains(without, prefix+ch.Name) {
			continue
		}
		list = append(list, coordination.Node{Name: ch.Name, Stat: ch.Stat, Data: ch.Data})
	}
	return list, page.More, nil
}

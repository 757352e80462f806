package console

import (
	"context"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// listing is a list of the names of a node's children in order. Servers that have no pages send all of it: it is kept, so
// that a million children are not sent again for each page of them.
type listing struct {
	path  string
	stat  jute.Stat // of the node, when it was listed
	names []string
}

// mostOfAPage is the largest page of servers that have none.
const mostOfAPage = 4096

// page returns a page of a node's children.
func (c *Console) page(ctx context.Context, zk *client.Client, q *jute.ChildrenPageRequest) (*jute.ChildrenPageResponse, error) {
	if err := zk.WaitConnected(ctx); err != nil {
		return nil, err
	}
	if c.features()&jute.FeaturePaging == 0 {
		return c.build(ctx, zk, q)
	}
	got, err := zk.ChildrenPage(ctx, q.Path, client.PageOptions{After: q.After, Limit: int(q.Limit), Stats: q.Show >= jute.ShowStats, Data: q.Show >= jute.ShowData})
	r := &jute.ChildrenPageResponse{Zxid: got.Zxid, Stat: got.Stat, More: got.More}
	for i := range got.Children {
		if q.Show == jute.ShowNames {
			r.Names = append(r.Names, got.Children[i].Name)
		} else {
			r.Children = append(r.Children, childOf(&got.Children[i]))
		}
	}
	return r, err
}

// build makes a page of a list and of reads of the children. They show no single state.
func (c *Console) build(ctx context.Context, zk *client.Client, q *jute.ChildrenPageRequest) (*jute.ChildrenPageResponse, error) {
	stat, names, err := c.list(ctx, zk, q.Path)
	if err != nil {
		return nil, err
	}
	r := &jute.ChildrenPageResponse{Stat: stat, Zxid: zk.Status().LastZxid}
	at, found := slices.BinarySearch(names, q.After)
	if found {
		at++
	}
	names = names[at:]
	most := int(q.Limit)
	if most <= 0 || most > mostOfAPage {
		most = mostOfAPage
	}
	if r.More = len(names) > most; r.More {
		names = names[:most]
	}
	if q.Show == jute.ShowNames {
		r.Names = names
		return r, nil
	}
	r.Children, err = children(ctx, zk, q.Path, names, q.Show >= jute.ShowData)
	return r, err
}

// list returns the names of a node's children in order.
func (c *Console) list(ctx context.Context, zk *client.Client, path string) (jute.Stat, []string, error) {
	node, err := zk.Exists(ctx, path)
	if err != nil {
		return jute.Stat{}, nil, err
	}
	c.mu.Lock()
	l := c.listed
	c.mu.Unlock()
	if node.Exists && l.path == path && l.stat.Czxid == node.Stat.Czxid && l.stat.Pzxid == node.Stat.Pzxid && l.stat.Aversion == node.Stat.Aversion {
		return node.Stat, l.names, nil
	}
	got, err := zk.Children(ctx, path)
	if err != nil {
		return jute.Stat{}, nil, err
	}
	slices.Sort(got.Names)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = listing{path, got.Stat, got.Names}
	return got.Stat, got.Names, nil
}

// children reads the children of a node together. Those that have gone are left out.
func children(ctx context.Context, zk *client.Client, path string, names []string, data bool) ([]jute.PageChild, error) {
	if path == "/" {
		path = ""
	}
	ask := zk.Async()
	var stats []*client.Future[client.Presence]
	var nodes []*client.Future[client.Node]
	for _, name := range names {
		if data {
			nodes = append(nodes, ask.Get(path+"/"+name))
		} else {
			stats = append(stats, ask.Exists(path+"/"+name))
		}
	}
	var list []jute.PageChild
	for i, name := range names {
		ch, there := client.Child{Name: name}, true
		if data {
			got, err := nodes[i].Wait(ctx)
			ch.Stat, ch.Data, ch.Err = got.Stat, got.Data, err
		} else {
			got, err := stats[i].Wait(ctx)
			ch.Stat, ch.Err, there = got.Stat, err, got.Exists || err != nil
		}
		p := childOf(&ch)
		switch p.Err {
		case 0:
			if ch.Err != nil { // of the connection, or the end of ctx
				return nil, ch.Err
			}
		case jute.ErrNoNode:
			there = false
		case jute.ErrNoAuth:
		default:
			return nil, ch.Err
		}
		if there {
			list = append(list, p)
		}
	}
	return list, nil
}

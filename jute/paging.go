package jute

// What a ChildrenPageRequest or a SubtreePageRequest asks for, besides names.
const (
	ShowNames int32 = iota
	ShowStats
	ShowData // and stats
	ShowACLs // and all that; of a subtree
)

// ChildrenPageRequest is the body of childrenPage, an operation of FeaturePaging.
type ChildrenPageRequest struct {
	Path  string
	After string // the names wanted come after this one; all do after ""
	Limit int32  // the largest number of children; 0 leaves it to the server
	Show  int32
}

func (r *ChildrenPageRequest) Append(b []byte) []byte {
	b = AppendString(AppendString(b, r.Path), r.After)
	return AppendInt32(AppendInt32(b, r.Limit), r.Show)
}

func (r *ChildrenPageRequest) Decode(d *Decoder) {
	r.Path, r.After = d.notNull(), d.notNull()
	r.Limit, r.Show = d.Int32(), d.Int32()
}

// ChildrenPageResponse is the response of childrenPage. The children are in the byte order of
// their names.
type ChildrenPageResponse struct {
	Zxid     Zxid        // of the state that the page shows
	Stat     Stat        // of the node
	Names    []string    // with ShowNames
	Children []PageChild // otherwise
	More     bool        // there are children after these
}

// PageChild is a child in a ChildrenPageResponse.
type PageChild struct {
	Name string
	// Err is ErrNoAuth if the child may not be read: Stat and Data are zero. It is
	// ErrMarshalling if its data is too long for a page: Data is null.
	Err  Code
	Stat Stat
	Data []byte // null without ShowData
}

func (r *ChildrenPageResponse) Append(b []byte) []byte {
	b = AppendStrings(r.Stat.Append(AppendInt64(b, r.Zxid)), r.Names)
	b = AppendInt32(b, int32(len(r.Children)))
	for i := range r.Children {
		b = r.Children[i].Append(b)
	}
	return AppendBool(b, r.More)
}

func (r *ChildrenPageResponse) Decode(d *Decoder) {
	r.Zxid = Zxid(d.Int64())
	r.Stat.Decode(d)
	r.Names = d.Strings()
	if n, _ := d.Count(minPageChild); n > 0 {
		r.Children = make([]PageChild, n)
	}
	for i := range r.Children {
		r.Children[i].Decode(d)
	}
	r.More = d.Bool()
}

// minPageChild is the least length of a PageChild.
const minPageChild = 4 + 4 + 68 + 4

func (c *PageChild) Append(b []byte) []byte {
	b = AppendInt32(AppendString(b, c.Name), c.Err)
	return AppendBuffer(c.Stat.Append(b), c.Data)
}

func (c *PageChild) Decode(d *Decoder) {
	c.Name, c.Err = d.String(), Code(d.Int32())
	c.Stat.Decode(d)
	c.Data = d.Buffer()
}

// SubtreePageRequest is the body of subtreePage, an operation of FeaturePaging.
type SubtreePageRequest struct {
	Path string
	View int64 // of the page before; 0 begins
	Show int32 // ShowStats, ShowData or ShowACLs; with ShowNames there are no nodes, and the view ends
}

func (r *SubtreePageRequest) Append(b []byte) []byte {
	return AppendInt32(AppendInt64(AppendString(b, r.Path), r.View), r.Show)
}

func (r *SubtreePageRequest) Decode(d *Decoder) {
	r.Path, r.View, r.Show = d.notNull(), d.Int64(), d.Int32()
}

// SubtreePageResponse is the response of subtreePage: some of the nodes of a subtree, parents
// before their children, and these in the byte order of their names. The names are the paths below the root
// of the subtree, which has "".
type SubtreePageResponse struct {
	Zxid  Zxid  // of the state, which all pages of a view show
	View  int64 // for the next page; 0 if this is the last one
	Nodes []SubtreeNode
}

// SubtreeNode is a node in a SubtreePageResponse.
type SubtreeNode struct {
	PageChild
	ACL []ACL // with ShowACLs, unless it may not be read; with the hashes of digests hidden as by getACL
}

// minSubtreeNode is the least length of a SubtreeNode.
const minSubtreeNode = minPageChild + 4

func (n *SubtreeNode) Append(b []byte) []byte { return AppendACLs(n.PageChild.Append(b), n.ACL) }

func (n *SubtreeNode) Decode(d *Decoder) {
	n.PageChild.Decode(d)
	n.ACL = d.ACLs()
}

func (r *SubtreePageResponse) Append(b []byte) []byte {
	b = AppendInt32(AppendInt64(AppendInt64(b, r.Zxid), r.View), int32(len(r.Nodes)))
	for i := range r.Nodes {
		b = r.Nodes[i].Append(b)
	}
	return b
}

func (r *SubtreePageResponse) Decode(d *Decoder) {
	r.Zxid, r.View = Zxid(d.Int64()), d.Int64()
	if n, _ := d.Count(minSubtreeNode); n > 0 {
		r.Nodes = make([]SubtreeNode, n)
	}
	for i := range r.Nodes {
		r.Nodes[i].Decode(d)
	}
}

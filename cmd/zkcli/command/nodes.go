package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/treediff"
)

// nodeDoc is a node in the JSON of tree and find.
type nodeDoc struct {
	Path       string       `json:"path"`
	Depth      int          `json:"depth"`
	Kind       subtree.Kind `json:"kind"`
	Sequential bool         `json:"sequential,omitempty"`
	Owner      string       `json:"owner,omitempty"` // session of an ephemeral
	Bytes      int32        `json:"bytes"`
	Children   int32        `json:"children"`
	Data       *string      `json:"data,omitempty"`
	Encoding   string       `json:"encoding,omitempty"` // of data
	Stat       *Stat        `json:"stat"`
}

// describeNode returns the document of a node of the subtree at root.
func describeNode(root string, n subtree.Node, data bool) nodeDoc {
	d := nodeDoc{
		Path: treediff.Join(root, n.Path), Depth: treediff.Depth(n.Path), Kind: n.Kind(), Sequential: treediff.Sequential(n.Path),
		Bytes: n.Stat.DataLength, Children: n.Stat.NumChildren, Stat: NewStat(n.Stat),
	}
	if d.Kind == subtree.Ephemeral {
		d.Owner = n.Stat.EphemeralOwner.String()
	}
	if data {
		var doc nodeData
		doc.set(n.Data)
		d.Data, d.Encoding = doc.Data, doc.Encoding
	}
	return d
}

var nodeHeading = []string{"PATH", "BYTES", "CHILDREN", "CREATED", "CHANGED", "VERSION", "KIND"}

func nodeRow(path string, n subtree.Node) []string {
	return []string{
		path, strconv.Itoa(int(n.Stat.DataLength)), strconv.Itoa(int(n.Stat.NumChildren)),
		tableTime(n.Stat.Ctime), tableTime(n.Stat.Mtime), strconv.Itoa(int(n.Stat.Version)), kindText(n),
	}
}

func tableTime(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05Z") }

// kindText names the kind of a node and, of an ephemeral, its owner.
func kindText(n subtree.Node) string {
	kind := n.Kind()
	words := []string{string(kind)}
	if kind == subtree.Ephemeral {
		words = append(words, n.Stat.EphemeralOwner.String())
	}
	if treediff.Sequential(n.Path) {
		words = append(words, "sequential")
	}
	return strings.Join(words, " ")
}

// shortData is data on one line: text in quotes, or its beginning in hex.
func shortData(data []byte) string {
	const most = 60
	if data == nil {
		return "null"
	}
	if !utf8.Valid(data) {
		return fmt.Sprintf("%#x", data[:min(len(data), most/2)]) + dots(len(data) > most/2)
	}
	text := []rune(string(data))
	return strconv.Quote(string(text[:min(len(text), most)])) + dots(len(text) > most)
}

func dots(more bool) string {
	if more {
		return "…"
	}
	return ""
}

// printer writes the parts of a long result in the selected form, some at a time. A table is
// written at the end, so that its columns align.
type printer struct {
	c    *Call
	buf  bytes.Buffer
	rows [][]string
}

// printed is one part of a result.
type printed struct {
	text string // a line for people
	raw  string // a line for programs
	data any
	row  []string // of the table
}

func (c *Call) printer(heading ...string) *printer { return &printer{c: c, rows: [][]string{heading}} }

// print adds a part.
func (p *printer) print(x printed) error {
	switch p.c.Options.Format {
	case FormatTable:
		p.rows = append(p.rows, x.row)
		return nil
	case FormatJSON:
		e := json.NewEncoder(&p.buf)
		e.SetEscapeHTML(false)
		if err := e.Encode(x.data); err != nil {
			return fmt.Errorf("encode the result: %w", err)
		}
	case FormatRaw:
		p.buf.WriteString(x.raw + "\n")
	default:
		p.buf.WriteString(x.text + "\n")
	}
	if p.buf.Len() < 1<<15 {
		return nil
	}
	return p.flush()
}

// flush writes the parts so far, except for a table.
func (p *printer) flush() error {
	if p.buf.Len() == 0 {
		return nil
	}
	err := p.c.App.write(p.buf.Bytes())
	p.buf.Reset()
	return err
}

// end writes the rest.
func (p *printer) end() error {
	if p.c.Options.Format == FormatTable && len(p.rows) > 1 {
		return p.c.App.write(table(p.rows, false))
	}
	return p.flush()
}

// trouble collects the errors of single nodes, which do not end a command.
type trouble struct{ last error }

// with reports the error of a node and continues. It returns err if that concerns more than
// one node.
func (t *trouble) with(c *Call, path string, err error) error {
	if path == "" || path == "/" {
		return err
	}
	t.last = c.App.report(err, c.Options.Format)
	return nil
}

// err returns the exit code of the last error, which has been written already.
func (t *trouble) err() error {
	if t.last == nil {
		return nil
	}
	return reported(t.last)
}

package subtree

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/treediff"
)

// maxLine is the longest line, in bytes, that a Reader accepts: far more than the largest
// data of a node.
const maxLine = 1 << 30

// CorruptError means that an export is damaged, and where.
type CorruptError struct {
	Line int // from 1
	Err  error
}

// Error names the line.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("line %d: %v", e.Line, e.Err)
}

// Unwrap returns what is wrong.
func (e *CorruptError) Unwrap() error { return e.Err }

// Reader reads an export.
type Reader struct {
	in     *bufio.Reader
	sum    hash.Hash
	header Header
	line   int
	nodes  int
	last   string // the path of the last node
	ended  bool
}

// NewReader reads the header of an export. The error is a *CorruptError if it is invalid.
func NewReader(r io.Reader) (*Reader, error) {
	x := &Reader{in: bufio.NewReaderSize(r, 1<<16), sum: sha256.New()}
	raw, err := x.readLine()
	if err != nil {
		return nil, err
	}
	var h headerLine
	if err := json.Unmarshal(raw, &h); err != nil || h.Format != formatName {
		return nil, x.corrupt(errors.New("this is no export of zkcli: it should begin with {\"format\":\"" + formatName + "\""))
	}
	if h.Version != formatVersion {
		return nil, x.corrupt(fmt.Errorf("format version %d; this zkcli reads version %d", h.Version, formatVersion))
	}
	if err := checkPath(h.Path); err != nil {
		return nil, x.corrupt(err)
	}
	x.sum.Write(raw)
	x.header = Header{Source: h.Source, Path: h.Path, Zxid: client.Zxid(h.Zxid), Time: h.Time, About: h.About}
	return x, nil
}

// Header returns the header.
func (r *Reader) Header() Header { return r.header }

// Next returns the next node, or io.EOF at the end of a complete file. Any other error means
// that the file is not complete.
func (r *Reader) Next() (Node, error) {
	if r.ended {
		return Node{}, io.EOF
	}
	raw, err := r.readLine()
	if err != nil {
		return Node{}, err
	}
	if bytes.HasPrefix(raw, []byte(`{"end":`)) {
		return Node{}, r.end(raw)
	}
	n, err := parseNode(raw)
	if err == nil {
		err = r.checkPlace(n.Path)
	}
	if err != nil {
		return Node{}, r.corrupt(err)
	}
	r.sum.Write(raw)
	r.nodes++
	r.last = n.Path
	return n, nil
}

// Nodes returns the nodes that follow. The stream ends with an error if the file
// is not whole.
func (r *Reader) Nodes() iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for {
			n, err := r.Next()
			if err == io.EOF || !yield(n, err) || err != nil {
				return
			}
		}
	}
}

// Verify reads the rest of the export, and returns nil if it is whole.
func (r *Reader) Verify() error {
	for _, err := range r.Nodes() {
		if err != nil {
			return err
		}
	}
	return nil
}

// end checks the trailer and that it is the last line.
func (r *Reader) end(raw []byte) error {
	want := trailer(r.nodes, r.sum)
	if !bytes.Equal(raw, want) {
		return r.corrupt(fmt.Errorf("the file was changed or damaged: its end should be %s", bytes.TrimSpace(want)))
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		if err != nil {
			return err
		}
		r.line++
		return r.corrupt(errors.New("there is something after the end of the export"))
	}
	r.ended = true
	return io.EOF
}

// checkPlace checks that a node may follow those before it.
func (r *Reader) checkPlace(path string) error {
	if r.nodes == 0 {
		if path != "/" {
			return fmt.Errorf("the first node is %q, want \"/\"", path)
		}
		return nil
	}
	if err := checkPath(path); err != nil {
		return err
	}
	if treediff.Compare(r.last, path) >= 0 {
		return fmt.Errorf("node %q comes after %q: want tree order", path, r.last)
	}
	if parent := treediff.Parent(path); parent != r.last && !treediff.Below(r.last, parent) {
		return fmt.Errorf("node %q has no parent in the file", path)
	}
	return nil
}

// checkPath refuses an invalid path. Paths that the servers do not accept are refused by the
// client before Import writes anything.
func checkPath(path string) error {
	if path != "/" && (!strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//")) {
		return fmt.Errorf("%q is no path: it should look like /a/b", path)
	}
	return nil
}

func parseNode(raw []byte) (Node, error) {
	var l nodeLine
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return Node{}, err
	}
	n := Node{Path: l.Path}
	switch {
	case l.Text != nil && l.Base64 != nil:
		return n, fmt.Errorf("node %q has both text and base64", l.Path)
	case l.Text != nil:
		n.Data = []byte(*l.Text)
	default:
		n.Data = l.Base64
	}
	for _, s := range l.ACL {
		a, err := parseACL(s)
		if err != nil {
			return n, fmt.Errorf("node %q: %w", l.Path, err)
		}
		n.ACL = append(n.ACL, a)
	}
	if len(n.ACL) == 0 {
		return n, fmt.Errorf("node %q has no ACL", l.Path)
	}
	n.Stat = l.Stat.stat(len(n.Data))
	return n, nil
}

// readLine returns the next line with its newline.
func (r *Reader) readLine() ([]byte, error) {
	r.line++
	var raw []byte
	for {
		part, err := r.in.ReadSlice('\n')
		raw = append(raw, part...)
		switch {
		case err == nil && !utf8.Valid(raw):
			return nil, r.corrupt(errors.New("not valid UTF-8"))
		case err == nil:
			return raw, nil
		case err == io.EOF:
			return nil, r.corrupt(fmt.Errorf("the export is cut off here; nodes before: %d", r.nodes))
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(raw) > maxLine:
			return nil, r.corrupt(fmt.Errorf("more than %d bytes", maxLine))
		}
	}
}

func (r *Reader) corrupt(err error) error { return &CorruptError{r.line, err} }

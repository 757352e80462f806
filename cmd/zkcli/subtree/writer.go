package subtree

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"time"
	"unicode/utf8"
)

// Writer writes an export.
type Writer struct {
	out   *bufio.Writer
	sum   hash.Hash
	buf   bytes.Buffer
	nodes int
}

// NewWriter begins an export with its header.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	x := &Writer{out: bufio.NewWriterSize(w, 1<<16), sum: sha256.New()}
	return x, x.line(headerLine{
		Format: formatName, Version: formatVersion,
		Source: h.Source, Path: h.Path, Zxid: hexNumber(h.Zxid), Time: h.Time.UTC().Truncate(time.Second), About: h.About,
	})
}

// Write adds a node. Nodes must come in tree order; their data and ACL must have
// been read.
func (w *Writer) Write(n Node) error {
	l := nodeLine{Path: n.Path, ACL: make([]string, len(n.ACL)), Stat: toStatLine(n.Stat)}
	if kind := n.Kind(); kind != Persistent {
		l.Kind = kind
	}
	texts := []string{n.Path}
	for i, a := range n.ACL {
		l.ACL[i] = FormatACL(a)
		texts = append(texts, l.ACL[i])
	}
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return fmt.Errorf("export %q: %q is not valid UTF-8", n.Path, s)
		}
	}
	switch {
	case n.Data == nil:
	case utf8.Valid(n.Data):
		text := string(n.Data)
		l.Text = &text
	default:
		l.Base64 = n.Data
	}
	w.nodes++
	return w.line(l)
}

// Close ends the export with its trailer. Without one it counts as damaged.
func (w *Writer) Close() error {
	if _, err := w.out.Write(trailer(w.nodes, w.sum)); err != nil {
		return err
	}
	return w.out.Flush()
}

func (w *Writer) line(v any) error {
	w.buf.Reset()
	enc := json.NewEncoder(&w.buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	w.sum.Write(w.buf.Bytes())
	_, err := w.out.Write(w.buf.Bytes())
	return err
}

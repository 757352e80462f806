package command

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// readData returns the data that an argument specifies: the text itself, with @FILE the
// content of the file, with - that of stdin. @@ means a @ at the beginning. With
// isBase64 the data is decoded.
func (c *Call) readData(ctx context.Context, arg string, isBase64 bool) ([]byte, error) {
	data, err := c.rawData(ctx, arg)
	if err != nil || !isBase64 {
		return data, err
	}
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, c.Usage("the data is not base64: %v", err)
	}
	return plain, nil
}

func (c *Call) rawData(ctx context.Context, arg string) ([]byte, error) {
	if strings.HasPrefix(arg, "@@") {
		return []byte(arg[1:]), nil
	}
	name, isFile := strings.CutPrefix(arg, "@")
	switch {
	case arg == "-" && c.App.session:
		return nil, c.Usage("- reads stdin, which is where the commands come from: use @FILE")
	case arg == "-":
		data, err := io.ReadAll(&interruptible{ctx, c.App.in})
		if err != nil {
			return nil, fmt.Errorf("read the data from stdin: %w", err)
		}
		return data, nil
	case isFile && name == "":
		return nil, c.Usage("@ needs the name of a file; for data that begins with @ write @@")
	case isFile:
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the data: %w (for data that begins with @ write @@)", err)
		}
		return data, nil
	}
	return []byte(arg), nil
}

// dataText is data as zkCli.sh prints it.
func dataText(data []byte) string {
	if data == nil {
		return "null"
	}
	return string(data)
}

// nodeData is a node's data in JSON: text if it is UTF-8, or else base64.
type nodeData struct {
	Path     string  `json:"path"`
	Data     *string `json:"data"` // null if the data is null
	Encoding string  `json:"encoding,omitempty"`
	Stat     *Stat   `json:"stat"`
}

func (d *nodeData) set(data []byte) {
	if data == nil {
		return
	}
	text := string(data)
	d.Encoding = "utf-8"
	if !utf8.Valid(data) {
		text, d.Encoding = base64.StdEncoding.EncodeToString(data), "base64"
	}
	d.Data = &text
}

// hexDump prints data as get -x of zkCli.sh does.
func hexDump(data []byte) string {
	const (
		edge  = "+--------+-------------------------------------------------+----------------+"
		width = 16
	)
	var b strings.Builder
	b.WriteString("         +-------------------------------------------------+\n")
	b.WriteString("         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n")
	b.WriteString(edge + "\n")
	for at := 0; at < len(data); at += width {
		row := data[at:min(at+width, len(data))]
		fmt.Fprintf(&b, "|%08x| %-48s|%-16s|\n", at, fmt.Sprintf("% x", row), printable(row))
	}
	b.WriteString(edge)
	return b.String()
}

func printable(row []byte) string {
	text := make([]byte, len(row))
	for i, c := range row {
		if text[i] = c; c < ' ' || c > '~' {
			text[i] = '.'
		}
	}
	return string(text)
}

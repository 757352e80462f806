package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/zkd-project/zkd/internal/vfs"
)

// SaveMembers makes the server whose configuration file is at path start with m the next
// time: it writes the members to <path>.dynamic.<m.Version> and names that file in
// dynamicConfigFile. From path it removes what is in the new file now: the server, group
// and weight lines, peerType, and the keys of the ports for clients that the line of the
// server self has. All other lines stay as they are, in their order. If there was no
// dynamicConfigFile, a copy of the old file stays as <path>.bak. It writes nothing if all
// is so already.
//
// A symbolic link is followed, and the files are beside the one that it leads to: the link
// is how some tool puts the file in its place, and must not be replaced by a file.
//
// Each file is replaced in one step, and the one that names another after that one. So
// after a crash, and after an error such as a full disk or a read-only directory, the
// server starts with the old or with the new members, and a later call can succeed. The
// new files have the mode and the owner of the old one, if the process may set them.
func SaveMembers(fsys vfs.FS, path string, m Members, self int64) error {
	err := saveMembers(fsys, path, m, self)
	switch {
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return fmt.Errorf("save the members of version %x: %w (put %s into a directory where the server may write)", m.Version, err, path)
	case err != nil:
		return fmt.Errorf("save the members of version %x: %w", m.Version, err)
	}
	return nil
}

func saveMembers(fsys vfs.FS, path string, m Members, self int64) error {
	path, err := fsys.RealPath(path)
	if err != nil {
		return err
	}
	before, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return err
	}
	dynamic := fmt.Sprintf("%s.dynamic.%x", path, m.Version)
	pointer, err := escapeValue(dynamic)
	if err != nil {
		return err
	}
	own, _ := m.Server(self)
	after, static := pointTo(before, pointer, own)

	members := []byte(m.Text())
	if there, err := vfs.ReadFile(fsys, dynamic); err == nil && bytes.Equal(there, members) && bytes.Equal(before, after) {
		return fsys.SyncDir(filepath.Dir(path)) // an earlier call may have failed there
	}
	if static {
		if err := vfs.Replace(fsys, path+".bak", before, path); err != nil {
			return err
		}
	}
	if err := vfs.Replace(fsys, dynamic, members, path); err != nil {
		return err
	}
	return vfs.Replace(fsys, path, after, path)
}

// movesTo reports whether a key of zoo.cfg has no place there if the members are in a file
// of their own, in which own is the line of this server.
func movesTo(own Server, key string) bool {
	switch key {
	case "peerType":
		return true
	case "clientPort", "clientPortAddress":
		return own.Client.Port != 0
	case "secureClientPort", "secureClientPortAddress":
		return own.SecureClient.Port != 0
	}
	_, _, member := memberKey(key)
	return member
}

// pointTo returns the text of zoo.cfg with dynamicConfigFile set to the escaped name
// dynamic, and without the lines that move to that file. static means that text has no
// dynamicConfigFile.
func pointTo(text []byte, dynamic string, own Server) (after []byte, static bool) {
	lines := settingLines(text)
	at := -1 // the line in the place of which dynamicConfigFile comes
	for i, l := range lines {
		if l.key == "dynamicConfigFile" {
			at = i
		}
	}
	static = at < 0
	if static {
		at = slices.IndexFunc(lines, func(l settingLine) bool { _, _, ok := memberKey(l.key); return ok })
	}
	pointer := "dynamicConfigFile=" + dynamic
	done := 0
	for i, l := range lines {
		switch {
		case i == at:
			after = append(after, text[done:l.start]...)
			after = append(after, pointer...)
			after = append(after, lineEnd(text[l.start:l.end])...)
		case l.key == "dynamicConfigFile" || movesTo(own, l.key):
			after = append(after, text[done:l.start]...)
		default:
			continue
		}
		done = l.end
	}
	after = append(after, text[done:]...)
	if at < 0 {
		after = appendLine(after, pointer)
	}
	return after, static
}

// appendLine appends a line with the line end of the first line of text.
func appendLine(text []byte, line string) []byte {
	end := []byte("\n")
	if first, _, ok := bytes.Cut(text, end); ok && bytes.HasSuffix(first, []byte("\r")) {
		end = []byte("\r\n")
	}
	whole := bytes.TrimRight(text, "\r\n")
	if len(whole) == len(text) && len(text) > 0 {
		text = append(text, end...)
	}
	if bytes.HasSuffix(whole, []byte(`\`)) {
		text = append(text, end...) // which ends a line that is continued
	}
	return append(append(text, line...), end...)
}

// settingLine is a logical line with a property.
type settingLine struct {
	start, end int    // of the line with its line end
	key        string // the name of its row in the table of keys
}

func settingLines(text []byte) (lines []settingLine) {
	l := loader{dir: unbound()}
	s := lineScanner{rest: text}
	for {
		logical, _, ok := s.logical()
		if !ok {
			return lines
		}
		line := settingLine{start: len(text) - s.left, end: len(text) - len(s.rest)}
		if key, _, err := parseProperty(logical); err == nil {
			_, line.key, _ = l.row(property{key: key})
		}
		lines = append(lines, line)
	}
}

// lineEnd returns the line end that text ends with.
func lineEnd(text []byte) []byte {
	for _, end := range []string{"\r\n", "\n", "\r"} {
		if bytes.HasSuffix(text, []byte(end)) {
			return []byte(end)
		}
	}
	return nil
}

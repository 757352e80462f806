package smallfile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRead reads a file, also through a link, and refuses what would never end.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("12345678"), 0o600), os.WriteFile(at("long"), []byte("123456789"), 0o600), os.Symlink("file", at("link")),
		syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("/dev/zero", at("linked")), os.Truncate(at("long"), 1<<40),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"file": "", "link": "", "long": "it has more than 8 bytes: is it a list?", "pipe": "it is a pipe, and only regular files are read", "socket": "it is a socket",
		"linked": "it is a device", ".": "it is a directory", "none": "no such file",
	} {
		text, err := Read(at(name), 8, "a list")
		_, of := errors.AsType[*fs.PathError](err)
		switch {
		case want == "" && (err != nil || string(text) != "12345678"):
			t.Errorf("%s: %q, %v", name, text, err)
		case want != "" && (!of || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
}

package command

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func writeText(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// A rename would have put a file in the place of the device, and of the link.
func TestExportDoesNotReplaceDevicesAndLinks(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(t.Context(), link, nil, writeText("new")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "new" {
		t.Errorf("the file behind the link has %q, %v", data, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}

	// A pipe is no regular file, as a device is none.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pipe := filepath.Join(dir, "pipe")
	if err := os.Symlink("/dev/fd/"+strconv.Itoa(int(w.Fd())), pipe); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(t.Context(), pipe, nil, writeText("piped")); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if data, err := io.ReadAll(r); err != nil || string(data) != "piped" {
		t.Errorf("the pipe has %q, %v", data, err)
	}
}

package smallfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Read returns the content of a regular file of at most so many bytes. what is what the file should be, such as "a configuration file".
// The error is an *fs.PathError.
func Read(name string, most int64, what string) ([]byte, error) {
	info, err := os.Stat(name) // to open a pipe would wait for a writer
	if err != nil {
		return nil, err
	}
	if kind := info.Mode().Type(); kind != 0 {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it is %s, and only regular files are read", kindOf(kind))}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it has more than %d bytes: is it %s?", most, what)}
	}
	return text, err
}

func kindOf(kind fs.FileMode) string {
	switch {
	case kind&fs.ModeDir != 0:
		return "a directory"
	case kind&fs.ModeNamedPipe != 0:
		return "a pipe"
	case kind&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

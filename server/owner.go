package server

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/zab"
)

// ownerFile is the file in dataDir that names the log to which the directory belongs.
// dataDir and dataLogDir may be on different disks, and at a start one of them may be
// missing or be another server's: the file shows that.
const ownerFile = "IDENTITY"

// owner is the content of the file, which is readable text:
//
//	zkd data directory, format 1
//	server 2
//	incarnation 0123456789abcdef0123456789abcdef
//	crc 89abcdef
//
// crc is the CRC32 (IEEE) of the lines before it. server is 0 for a server
// without an ensemble.
type owner struct {
	server      zab.SID
	incarnation zab.ID
}

func (o *owner) encode() []byte {
	b := fmt.Appendf(nil, "zkd data directory, format %d\nserver %d\nincarnation %x\n",
		format.Directory.Writes(), o.server, o.incarnation)
	return fmt.Appendf(b, "crc %08x\n", crc32.ChecksumIEEE(b))
}

// decodeOwner is the inverse of encode. For a file of a later version it returns a
// *format.VersionError.
func decodeOwner(b []byte) (o owner, err error) {
	at := bytes.LastIndex(b, []byte("crc "))
	if at < 0 || string(b[at:]) != fmt.Sprintf("crc %08x\n", crc32.ChecksumIEEE(b[:at])) {
		return o, errors.New("its checksum is wrong")
	}
	var version uint32
	first, rest, _ := strings.Cut(string(b[:at]), "\n")
	if _, err := fmt.Sscanf(first, "zkd data directory, format %d", &version); err != nil {
		return o, fmt.Errorf("it begins with %.50q", first)
	}
	if err := format.Directory.Check(version); err != nil {
		return o, err
	}
	var incarnation []byte
	if _, err := fmt.Sscanf(rest, "server %d\nincarnation %x\n", &o.server, &incarnation); err != nil || len(incarnation) != len(o.incarnation) {
		return o, fmt.Errorf("it does not name a server and its incarnation, but %s", hex.EncodeToString([]byte(rest)))
	}
	copy(o.incarnation[:], incarnation)
	return o, nil
}

// readOwner reads the file. It returns nil if there is none. The error is a *fault.Error.
func readOwner(fsys vfs.FS, dataDir string) (*owner, error) {
	name := filepath.Join(dataDir, ownerFile)
	b, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fault.IO(name, err)
	}
	o, err := decodeOwner(b)
	if err != nil {
		return nil, fault.New(fault.Damaged, name, err)
	}
	return &o, nil
}

// writeOwner writes o to the file durably.
func writeOwner(fsys vfs.FS, dataDir string, o owner) error {
	name := filepath.Join(dataDir, ownerFile)
	tmp := name + ".tmp"
	f, err := fsys.Create(tmp)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.WriteAt(o.encode(), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err == nil {
		err = fsys.SyncDir(dataDir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

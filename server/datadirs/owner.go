package datadirs

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/server/zab"
)

// OwnerFile is the file in dataDir that names the log to which the directory belongs.
// dataDir and dataLogDir may be on different disks, and at a start one of them may be
// missing or be another server's: the file shows that.
const OwnerFile = "IDENTITY"

// Owner is the content of the file, which is readable text:
//
//	zkd data directory, format 1
//	server 2
//	incarnation 0123456789abcdef0123456789abcdef
//	crc 89abcdef
//
// crc is the CRC32 (IEEE) of the lines before it. server is 0 for a server
// without an ensemble. In formats 2 and 3 a line about the [Copy] follows the incarnation.
type Owner struct {
	Server      zab.SID
	Incarnation zab.ID
	Copy        Copy
}

// Copy says of which running ensemble the data is a copy. That ensemble still changes it: no server may
// start with it.
type Copy uint8

// The zero Copy is of no other ensemble.
const (
	OfApache Copy = iota + 1 // zkd takeover mirror keeps it
	OfZkd                    // zkd standby keeps it
)

// copies have the format and the line of each Copy.
var copies = [...]struct {
	format uint32
	line   string
}{
	OfApache: {2, "mirror of Apache ZooKeeper\n"},
	OfZkd:    {3, "standby of another ensemble\n"},
}

// refusal is the error of a start with such data.
func (c Copy) refusal(dir string) error {
	if c == OfZkd {
		return fmt.Errorf("the data in %s is a standby's copy of another ensemble, which still decides: zkd standby continues it, and zkd standby promote makes data for members of it", dir)
	}
	return fmt.Errorf("the data in %s is a copy of an ensemble of Apache ZooKeeper, which still decides: zkd takeover mirror continues it, and zkd takeover finish makes it the data of a member", dir)
}

// Encode returns the content of the file.
func (o *Owner) Encode() []byte {
	version, last := format.Directory.Writes(), ""
	if o.Copy != 0 {
		version, last = copies[o.Copy].format, copies[o.Copy].line
	}
	b := fmt.Appendf(nil, "zkd data directory, format %d\nserver %d\nincarnation %x\n%s", version, uint16(o.Server), o.Incarnation, last)
	return fmt.Appendf(b, "crc %08x\n", crc32.ChecksumIEEE(b))
}

// DecodeOwner is the inverse of Encode. For a file of a later version it returns a
// *format.VersionError.
func DecodeOwner(b []byte) (o Owner, err error) {
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
	if _, err := fmt.Sscanf(rest, "server %d\nincarnation %x\n", &o.Server, &incarnation); err != nil || len(incarnation) != len(o.Incarnation) {
		return o, fmt.Errorf("it does not name a server and its incarnation, but %s", hex.EncodeToString([]byte(rest)))
	}
	copy(o.Incarnation[:], incarnation)
	for c := OfApache; c <= OfZkd; c++ {
		if version == copies[c].format && strings.HasSuffix(rest, copies[c].line) {
			o.Copy = c
		}
	}
	return o, nil
}

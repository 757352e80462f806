package crash

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// A killed process loses nothing that it has given to the system; a power cut
// does. The functions here do to a log what a power cut may do: to the bytes
// that no fsync has covered, whatever it likes. The format is that of package
// wal.
const (
	segmentHeader = 4096
	recordHeader  = 48
	kindAppend    = 1
)

// logRecord is where a record stands in a segment.
type logRecord struct {
	start, end   int64
	kind         byte
	seq, durable uint64
	zxid         jute.Zxid
}

// segments returns the paths of a log's segments, oldest first.
func segments(t testing.TB, data string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, "journal", "*.wal"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// records lists the records of a segment up to the first place that has none.
func records(t testing.TB, file string) (list []logRecord) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := segmentHeader
	for at+recordHeader <= len(b) && string(b[at:at+2]) == "Zk" {
		n := int(binary.LittleEndian.Uint32(b[at+4:]))
		end := at + recordHeader + (n+7)/8*8
		if end > len(b) {
			break
		}
		list = append(list, logRecord{
			start: int64(at), end: int64(end), kind: b[at+2],
			seq: binary.LittleEndian.Uint64(b[at+8:]), durable: binary.LittleEndian.Uint64(b[at+16:]),
			zxid: jute.Zxid(binary.LittleEndian.Uint64(b[at+24:])),
		})
		at = end
	}
	return list
}

// tear damages the end of a log as a power cut may: behind the last record of
// which a client can know, acked, and behind what is no transaction. It reports
// whether there was anything to damage.
func tear(t testing.TB, rng *rand.Rand, data string, acked jute.Zxid) bool {
	t.Helper()
	segs := segments(t, data)
	if len(segs) == 0 {
		return false
	}
	file := segs[len(segs)-1]
	list := records(t, file)
	sound := len(list)
	for sound > 0 && list[sound-1].kind == kindAppend && list[sound-1].zxid > acked {
		sound--
	}
	if sound == len(list) {
		return false
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	end := list[len(list)-1].end
	if hole := sound + rng.IntN(len(list)-sound); rng.IntN(2) == 0 && unproven(list, hole) {
		// A sector in the middle is lost, and later ones are not.
		from := list[hole].start + rng.Int64N(list[hole].end-list[hole].start)
		overwrite(t, f, from, make([]byte, min(512, list[hole].end-from)))
		return true
	}
	// The end is lost, perhaps with a sector of nonsense where it began.
	from := list[sound].start + rng.Int64N(end-list[sound].start)
	overwrite(t, f, from, make([]byte, end-from))
	if rng.IntN(2) == 0 {
		junk := make([]byte, min(end-from, 1+rng.Int64N(512)))
		for i := range junk {
			junk[i] = byte(rng.Uint32())
		}
		overwrite(t, f, from, junk)
	}
	return true
}

// unproven reports whether no later record says that the i-th was durable.
func unproven(list []logRecord, i int) bool {
	for _, r := range list[i+1:] {
		if r.durable >= list[i].seq {
			return false
		}
	}
	return true
}

func overwrite(t testing.TB, f *os.File, at int64, b []byte) {
	t.Helper()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

package zab

import (
	"hash/crc32"

	"github.com/zkd-project/zkd/jute"
)

// cache holds the newest entries of the history in memory: for the learners, and until they
// are committed. It is a queue of chunks. The part of a chunk that was returned to a caller
// is never written again, so messages may alias it.
type cache struct {
	chunks [][]Entry // each of capacity chunkLen; all but the last are full
	head   int       // dropped entries of the first chunk
	n      int
	bytes  int
}

const (
	chunkLen = 512
	// entryOverhead is the approximate memory that an entry takes besides its data.
	entryOverhead = 64
)

func entryBytes(e *Entry) int { return len(e.Data) + entryOverhead }

func (q *cache) at(i int) *Entry {
	i += q.head
	return &q.chunks[i/chunkLen][i%chunkLen]
}

func (q *cache) append(e Entry) {
	last := len(q.chunks) - 1
	if last < 0 || len(q.chunks[last]) == chunkLen {
		q.chunks = append(q.chunks, make([]Entry, 0, chunkLen))
		last++
	}
	q.chunks[last] = append(q.chunks[last], e)
	q.n++
	q.bytes += entryBytes(&e)
}

// firstAbove returns the index of the first entry with a zxid above z.
func (q *cache) firstAbove(z jute.Zxid) int {
	low, high := 0, q.n
	for low < high {
		if mid := (low + high) / 2; q.at(mid).Zxid > z {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// after returns the index of the entry that follows z, and whether the cache holds it.
func (q *cache) after(z jute.Zxid) (int, bool) {
	i := q.firstAbove(z)
	return i, i < q.n && q.at(i).Prev == z
}

// find returns the entry with the zxid z, or nil.
func (q *cache) find(z jute.Zxid) *Entry {
	if i := q.firstAbove(z) - 1; i >= 0 && q.at(i).Zxid == z {
		return q.at(i)
	}
	return nil
}

// run returns entries from index i on, with zxids up to upto: at least one if there is one,
// about maxBytes in total, and all from one chunk.
func (q *cache) run(i int, upto jute.Zxid, maxBytes int) (entries []Entry, bytes int) {
	at := i + q.head
	chunk := q.chunks[at/chunkLen]
	from := at % chunkLen
	to := from
	for to < len(chunk) && chunk[to].Zxid <= upto && (to == from || bytes+entryBytes(&chunk[to]) <= maxBytes) {
		bytes += entryBytes(&chunk[to])
		to++
	}
	return chunk[from:to:to], bytes
}

// drop removes the first entry.
func (q *cache) drop() {
	q.bytes -= entryBytes(q.at(0))
	q.head++
	q.n--
	if q.head == chunkLen {
		q.chunks[0] = nil
		q.chunks = q.chunks[1:]
		q.head = 0
	}
}

// truncate removes the entries after z.
func (q *cache) truncate(z jute.Zxid) {
	keep := q.firstAbove(z)
	for i := keep; i < q.n; i++ {
		q.bytes -= entryBytes(q.at(i))
	}
	q.n = keep
	end := q.head + keep
	full, rest := end/chunkLen, end%chunkLen
	if rest == 0 {
		q.chunks = q.chunks[:full:full]
		if keep == 0 {
			*q = cache{}
		}
		return
	}
	last := append(make([]Entry, 0, chunkLen), q.chunks[full][:rest]...)
	q.chunks = append(q.chunks[:full:full], last)
}

// crc returns the checksum by which two servers compare an entry.
func (e *Entry) crc() uint32 {
	var b [17]byte
	b[0] = byte(e.Type)
	for i := range 8 {
		b[1+i] = byte(e.Zxid >> (8 * i))
		b[9+i] = byte(e.Prev >> (8 * i))
	}
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, e.Data)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

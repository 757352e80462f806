package server

import (
	"time"

	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// stages notes when entries were handed to the log and when they were durable, and tells
// the applier with their orders. It is the peer loop's. A batch of entries has one note, so
// it costs a reading of the clock for each batch.
type stages struct {
	batches fifo.List[entriesBatch] // not committed, oldest first
	durable int                     // number of batches that are durable, from the oldest
	logging int64                   // entries at the log that are not durable
}

// entriesBatch are entries that went to the log together.
type entriesBatch struct {
	last            jute.Zxid
	wal             uint64 // the log's number of the batch's last record
	logged, durable time.Duration
}

// toLog notes a batch that was handed to the log.
func (s *stages) toLog(ops []zab.LogOp, wal uint64, now time.Duration) (entries int64) {
	var last jute.Zxid
	for i := range ops {
		switch ops[i].Kind {
		case zab.LogAppend:
			last = ops[i].Entry.Zxid
			entries++
		case zab.LogTruncate, zab.LogSnapshot: // what follows may have zxids seen before
			s.batches.Clear()
			s.durable = 0
		}
	}
	if entries > 0 {
		s.batches.Push(entriesBatch{last: last, wal: wal, logged: now})
		s.logging += entries
	}
	return entries
}

// persisted notes that the log is durable up to a record.
func (s *stages) persisted(upTo uint64, now time.Duration) {
	all := s.batches.All()
	for s.durable < len(all) && all[s.durable].wal <= upTo {
		all[s.durable].durable = now
		s.durable++
	}
}

// committed writes the times of committed entries into their orders, and calls observe with
// the time since n of them were given to the log.
func (s *stages) committed(orders []replica.Order, now time.Duration, observe func(d time.Duration, n int64)) {
	var since time.Duration
	var n int64
	for i := range orders {
		o := &orders[i]
		if o.Kind != replica.OrderEntry && o.Kind != replica.OrderReplay {
			continue
		}
		for s.batches.Len() > 0 && s.batches.Front().last < o.Zxid {
			s.pop()
		}
		if o.Kind == replica.OrderReplay || s.batches.Len() == 0 {
			continue
		}
		b := s.batches.Front()
		o.Logged, o.Durable, o.Committed = b.logged, b.durable, now
		if b.logged != since {
			if n > 0 {
				observe(now-since, n)
			}
			since, n = b.logged, 0
		}
		n++
	}
	if n > 0 {
		observe(now-since, n)
	}
}

func (s *stages) pop() {
	s.batches.Pop(1)
	s.durable = max(0, s.durable-1)
}

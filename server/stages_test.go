package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// appended returns records of entries, as the core hands them over.
func appended(zxids ...jute.Zxid) (ops []zab.LogOp) {
	for _, z := range zxids {
		ops = append(ops, zab.LogOp{Kind: zab.LogAppend, Entry: zab.Entry{Zxid: z}})
	}
	return ops
}

func ordered(zxids ...jute.Zxid) (orders []replica.Order) {
	for _, z := range zxids {
		orders = append(orders, replica.Order{Entry: zab.Entry{Zxid: z}})
	}
	return orders
}

func TestStagesOfEntries(t *testing.T) {
	var s stages
	s.toLog(appended(1, 2), 10, 100)
	s.toLog(appended(3), 11, 200)
	s.persisted(10, 300)

	type seen struct {
		d time.Duration
		n int64
	}
	var got []seen
	orders := ordered(1, 2, 3)
	orders = append(orders[:1], append([]replica.Order{{Kind: replica.OrderBarrier}}, orders[1:]...)...)
	s.committed(orders, 1000, func(d time.Duration, n int64) { got = append(got, seen{d, n}) })
	if len(got) != 2 || got[0] != (seen{900, 2}) || got[1] != (seen{800, 1}) {
		t.Errorf("observed %v, want two of 900 and one of 800", got)
	}
	for i, want := range []replica.Order{{Logged: 100, Durable: 300, Committed: 1000}, {}, {Logged: 100, Durable: 300, Committed: 1000}, {Logged: 200, Committed: 1000}} {
		o := &orders[i]
		if o.Logged != want.Logged || o.Durable != want.Durable || o.Committed != want.Committed {
			t.Errorf("order %d: logged %d, durable %d, committed %d; want %+v", i, o.Logged, o.Durable, o.Committed, want)
		}
	}

	// What a quorum of others committed before it was durable here stays in step.
	s.toLog(appended(4), 12, 1100)
	s.committed(ordered(4), 1200, func(time.Duration, int64) {})
	s.toLog(appended(5), 13, 1300)
	s.persisted(13, 1400)
	orders = ordered(5)
	s.committed(orders, 1500, func(time.Duration, int64) {})
	if o := orders[0]; o.Logged != 1300 || o.Durable != 1400 {
		t.Errorf("after an early commit: logged %d, durable %d; want 1300, 1400", o.Logged, o.Durable)
	}
}

// After a truncation the same zxids may come again, with other entries.
func TestStagesForgetTruncatedEntries(t *testing.T) {
	var s stages
	s.toLog(appended(1, 2), 10, 100)
	s.toLog(append([]zab.LogOp{{Kind: zab.LogTruncate, Upto: 1}}, appended(2)...), 12, 500)
	s.persisted(12, 600)
	orders := ordered(1, 2)
	s.committed(orders, 1000, func(time.Duration, int64) {})
	if orders[1].Logged != 500 || orders[1].Durable != 600 {
		t.Errorf("logged %d, durable %d; want 500, 600", orders[1].Logged, orders[1].Durable)
	}
	// What was replayed from the log is not measured, and leaves nothing behind.
	s.toLog(appended(3), 13, 1100)
	s.committed([]replica.Order{{Kind: replica.OrderReplay, Entry: zab.Entry{Zxid: 3}}}, 1200, func(time.Duration, int64) { t.Error("observed a replay") })
	s.toLog(appended(4), 14, 1300)
	orders = ordered(4)
	s.committed(orders, 1400, func(time.Duration, int64) {})
	if orders[0].Logged != 1300 || s.batches.Len() != 1 {
		t.Errorf("logged %d with %d batches, want 1300 with 1", orders[0].Logged, s.batches.Len())
	}
}

// BenchmarkMetricsOfWrites is what it costs a leader to measure one write, of batches of so
// many: of some 5 us of CPU that a write takes in large batches, and some 60 us alone.
func BenchmarkMetricsOfWrites(b *testing.B) {
	for _, size := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			var zxids []jute.Zxid
			for i := range size {
				zxids = append(zxids, jute.Zxid(i+1))
			}
			ops, orders := appended(zxids...), ordered(zxids...)
			m := monitor.NewMetrics()
			a := &applier{metrics: m, leads: func() bool { return true }, id: 1}
			txn := &datatree.Txn{Origin: 1<<56 | 1, Time: 1}
			var s stages
			now := time.Duration(1)
			b.ReportAllocs()
			for n := 0; n < b.N; n += size {
				now += 1000
				for i := range ops {
					ops[i].Entry.Zxid += jute.Zxid(size)
					orders[i].Zxid = ops[i].Entry.Zxid
				}
				m.QueueTime.Observe(now, int64(size))
				m.Evaluation.Observe(now, int64(size))
				m.Unlogged.Observe(size)
				s.toLog(ops, 1, now)
				m.Logged.Observe(now, int64(size))
				s.persisted(1, now)
				s.committed(orders, now, func(d time.Duration, n int64) {
					m.Committed.Observe(d, n)
					m.QuorumAck.Observe(d, n)
				})
				m.Orders.Observe(size)
				a.at, a.wall = now, 2
				for i := range orders {
					a.countTimes(&orders[i], txn)
				}
				a.observeTimes()
				m.Applying.Observe(now, 1)
				m.WaitingWrites.Observe(size)
				m.Requests.Observe(jute.OpSetData, 0, now, int64(size))
			}
		})
	}
}

package wal

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	fsync    prometheus.Histogram
	batch    prometheus.Histogram
	bytes    prometheus.Counter
	segments prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) metrics {
	f := promauto.With(reg)
	return metrics{
		fsync: f.NewHistogram(prometheus.HistogramOpts{Name: "zkd_wal_fsync_seconds",
			Help:    "Time that one fdatasync of the log took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16)}),
		batch: f.NewHistogram(prometheus.HistogramOpts{Name: "zkd_wal_batch_records",
			Help:    "Records made durable by one fdatasync.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 14)}),
		bytes: f.NewCounter(prometheus.CounterOpts{Name: "zkd_wal_bytes_total",
			Help: "Bytes of records appended to the log."}),
		segments: f.NewGauge(prometheus.GaugeOpts{Name: "zkd_wal_segments",
			Help: "Segment files of the log."}),
	}
}

// Stats are the counters of the log, since Open unless noted otherwise.
type Stats struct {
	Segments  int    // current number of files
	FileBytes int64  // their current sizes, with the spare
	OldBytes  int64  // of those before the one that is written
	Records   uint64 // appended
	Bytes     int64  // appended
	// SinceSnapRef is the bytes of records after the newest snapshot reference, including those
	// of earlier runs: what a restart replays.
	SinceSnapRef int64

	Fsyncs     uint64
	FsyncTotal time.Duration
	FsyncMin   time.Duration // 0 if there was none
	FsyncMax   time.Duration
	SlowFsyncs uint64 // longer than Options.FsyncWarn
	// Pending is the time since the Append began whose Sync has not returned, 0 if there is none.
	// It grows while the disk is stuck in any operation: a write, an fsync, or the change to a
	// new segment.
	Pending time.Duration
	// Lacks is why no segment can be begun, while the log waits for that: see Writer. Nil if it does
	// not wait.
	Lacks error
}

// Stats may be called from any goroutine.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	s := l.mu.stats
	s.Segments = len(l.mu.segs)
	for _, seg := range l.mu.segs {
		s.FileBytes += seg.size
	}
	s.OldBytes = s.FileBytes - l.mu.segs[len(l.mu.segs)-1].size
	l.mu.Unlock()
	s.FileBytes += l.spare.bytes()
	if t := l.busySince.Load(); t != 0 {
		s.Pending = time.Since(l.epoch) - time.Duration(t)
	}
	if lacks := l.lacks.Load(); lacks != nil {
		s.Lacks = *lacks
	}
	return s
}

// timeSync runs an fsync and records its duration. The owner calls it.
func (l *Log) timeSync(sync func() error) error {
	start := time.Now()
	err := sync()
	took := time.Since(start)
	l.metrics.fsync.Observe(took.Seconds())
	l.mu.Lock()
	s := &l.mu.stats
	if s.Fsyncs == 0 || took < s.FsyncMin {
		s.FsyncMin = took
	}
	s.Fsyncs++
	s.FsyncTotal += took
	s.FsyncMax = max(s.FsyncMax, took)
	threshold := l.mu.fsyncWarn
	slow := took > threshold
	if slow {
		s.SlowFsyncs++
	}
	l.mu.Unlock()
	if slow {
		l.warnSlow(took, threshold)
	}
	return err
}

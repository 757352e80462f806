package discovery

import "time"

// down knows which instances have failed lately.
type down struct {
	threshold int
	pause     time.Duration
	failures  map[string]failure // by the instance's ID
}

type failure struct {
	count int
	until time.Time // when they are forgotten
}

// failed counts a failure of an instance.
func (d *down) failed(id string, now time.Time) {
	f := d.failures[id]
	if !now.Before(f.until) {
		f.count = 0
	}
	d.failures[id] = failure{f.count + 1, now.Add(d.pause)}
}

// is reports whether an instance is down.
func (d *down) is(id string, now time.Time) bool {
	f := d.failures[id]
	return f.count >= d.threshold && now.Before(f.until)
}

// forget drops what is known of an instance.
func (d *down) forget(id string) { delete(d.failures, id) }

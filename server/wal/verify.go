package wal

import "fmt"

// Verify makes the checks of Open on the log in o.Dir, and changes nothing. It returns what
// Open would recover, but no LogBytes. The end of a log that a server writes meanwhile may
// seem torn.
func Verify(o Options) (*Recovered, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	firsts, _, err := segmentsIn(o)
	if err != nil {
		return nil, fmt.Errorf("verify log: %w", err)
	}
	rec := &Recovered{New: len(firsts) == 0}
	check := o.Check
	o.Check = func(all *Recovered) error {
		*rec = *all
		if check == nil {
			return nil
		}
		return check(all)
	}
	tail, err := newLog(o, newMetrics(nil)).load(firsts)
	if err != nil {
		return nil, fmt.Errorf("verify log: %w", err)
	}
	rec.Torn = tail.torn
	return rec, nil
}

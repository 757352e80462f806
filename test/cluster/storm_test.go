package cluster

import (
	"os"
	"time"
)

// storms are many small faults, one upon the other, while at most one server has
// lost its data.
var storms = []fault{
	{"storm", func(c *campaign) { storm(c, nil) }},
	{"storm, one wiped", func(c *campaign) {
		storm(c, func(s *server) {
			c.must(os.RemoveAll(s.Data))
			c.must(os.MkdirAll(s.Data, 0o755))
			s.identify(s.id)
		})
	}},
	{"storm, bits of one flipped", func(c *campaign) { storm(c, c.damage) }},
	{"leader after leader", func(c *campaign) {
		for range 3 + c.rng.IntN(5) {
			c.restart(c.e.awaitLeader())
		}
	}},
	{"killed while it catches up", func(c *campaign) {
		s := c.pick(c.e.servers)
		s.Kill()
		c.wait(c.between(500*time.Millisecond, 2*time.Second))
		c.e.isolate(s, func(a, b int) { c.e.net.set(b, a, weather{rate: 200_000}) })
		for range 2 + c.rng.IntN(5) {
			s.start()
			c.wait(c.between(10*time.Millisecond, 500*time.Millisecond))
			s.Kill()
		}
		s.start()
	}},
	{"kill leader over slow links", func(c *campaign) {
		for _, f := range c.e.net.flows {
			f.set(weather{delay: c.between(5*time.Millisecond, 50*time.Millisecond)})
		}
		c.restart(c.e.awaitLeader())
		c.wait(c.between(time.Second, 2*time.Second))
	}},
}

// storm does small things to random servers. The first that is killed is harmed
// before it starts again, and all others are left with their data.
func storm(c *campaign, harm func(s *server)) {
	for range 8 + c.rng.IntN(25) {
		s, other := c.pick(c.e.servers), c.pick(c.e.servers)
		switch n := c.rng.IntN(10); {
		case n < 3 && s.Running():
			s.Kill()
			if harm != nil && !s.observer {
				harm(s)
				harm = nil
			}
		case n < 3:
			s.start()
		case n < 5 && s.Running():
			s.Resume()
			if c.rng.IntN(2) == 0 {
				s.Pause()
			}
		case n < 6 && s != other:
			c.e.net.set(s.id, other.id, weather{held: true})
		case n < 7 && s != other:
			c.e.net.cut(s.id, other.id)
		case n < 8 && s != other:
			c.e.net.set(s.id, other.id, weather{})
			c.e.net.set(other.id, s.id, weather{})
		case n < 9 && s != other:
			c.e.net.set(s.id, other.id, weather{delay: c.between(0, 100*time.Millisecond)})
		case s != other:
			c.e.net.reset(s.id, other.id)
		}
		c.wait(c.between(0, 400*time.Millisecond))
	}
	c.e.net.heal()
	for _, s := range c.e.servers {
		s.Resume()
	}
	c.e.start()
}

package discovery_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/recipes/discovery"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// Whatever breaks for an instance: others find it with its newest data, once, and not
// after it has been unregistered.
func TestEveryFaultOfInstance(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		r, err := newDiscovery(w, w.C).Register(w.Ctx, web("1"))
		w.Must(err)
		i := web("1")
		i.Port = 81
		w.Must(r.Update(w.Ctx, i))
		p := open(w, w.Look, discovery.ProviderOptions{})
		for all, err := range p.Follow(w.Ctx) {
			w.Must(err)
			if len(all) > 1 {
				w.Fatalf("%s: instances are %q", w.Fault, ids(all))
			}
			if len(all) == 1 && all[0].Port == 81 {
				break
			}
		}
		w.Must(r.Unregister(w.Ctx))
		if got := w.Children("/services/web"); len(got) != 0 {
			w.Errorf("%s: %q is left", w.Fault, got)
		}
	})
}

// Whatever breaks for a provider: it comes to know what there is.
func TestEveryFaultOfProvider(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		one := register(w, w.Look, web("1"))
		p := open(w, w.C, discovery.ProviderOptions{})
		await(w, p, "1")
		register(w, w.Look, web("2"))
		await(w, p, "1 2")
		w.Must(one.Unregister(w.Ctx))
		await(w, p, "2")
		if i, err := p.Pick(w.Ctx); i.ID != "2" || err != nil {
			w.Errorf("%s: pick is %+v, %v", w.Fault, i, err)
		}
		w.Must(p.Close(w.Ctx))
	})
}

// Instances that come, change and go in storms: providers never see one twice or an
// update go back, and in the end they have all, with the last update.
func TestStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{Renew: true}, func(s *trial.Storm) {
		var work, watch sync.WaitGroup
		registrations := make([]*discovery.Registration, s.Clients())
		for i := range s.Clients() {
			d, err := discovery.New(s.Client(i), "/services", discovery.Options{})
			if err != nil {
				s.Fatal(err)
			}
			p, err := d.Open(s.Ctx, "web", discovery.ProviderOptions{})
			if err != nil {
				s.Fatal(err)
			}
			watch.Go(func() { witness(s, p) })
			work.Go(func() {
				one := discovery.Instance{Name: "web", ID: strconv.Itoa(i)}
				r, err := d.Register(s.Ctx, one)
				if err != nil {
					s.Errorf("register: %v", err)
					return
				}
				registrations[i] = r
				for one.Port < end {
					one.Port++
					if s.Over() {
						one.Port = end
					}
					if err := r.Update(s.Ctx, one); err != nil {
						s.Errorf("update: %v", err)
						return
					}
				}
			})
		}
		work.Wait()
		watch.Wait()
		for _, r := range registrations {
			if r == nil {
				continue
			}
			if err := r.Unregister(s.Ctx); err != nil {
				s.Errorf("unregister: %v", err)
			}
		}
		if err := s.Look.Sync(s.Ctx, "/services"); err != nil { // its server may be a little late
			s.Errorf("sync: %v", err)
		}
		d, _ := discovery.New(s.Look, "/services", discovery.Options{})
		if found, err := d.Find(s.Ctx, "web"); len(found) != 0 || err != nil {
			s.Errorf("found %q, %v", ids(found), err)
		}
	})
}

// end is what all instances are updated to at last.
const end = 1 << 20

// witness follows a provider until that has the last updates.
func witness(s *trial.Storm, p *discovery.Provider) {
	defer func() { _ = p.Close(s.Ctx) }()
	ports := map[string]int{}
	for all, err := range p.Follow(s.Ctx) {
		if err != nil {
			s.Errorf("instances are %v: %v", ports, err)
			return
		}
		done := len(all) == s.Clients()
		for i, one := range all {
			if one.Port < ports[one.ID] || i > 0 && all[i-1].ID == one.ID {
				s.Errorf("%s is at %d after %d, of %q", one.ID, one.Port, ports[one.ID], ids(all))
			}
			ports[one.ID] = one.Port
			done = done && one.Port == end
		}
		if done {
			return
		}
	}
}

package presence_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/presence"
)

// Whatever breaks for an instance: others find it with its newest data, once, and not
// after it has been unregistered.
func TestDirectoryEveryFaultOfInstance(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		r, err := newDiscovery(w, w.C).Register(w.Ctx, web("1"))
		w.Must(err)
		i := web("1")
		i.Port = 81
		w.Must(r.Update(w.Ctx, i))
		p := open(w, w.Look, presence.ProviderOptions{})
		for all, err := range p.Follow(w.Ctx) {
			w.Must(err)
			if len(all) > 1 {
				w.Fatalf("%s: instances are %q", w.Fault, directoryIds(all))
			}
			if len(all) == 1 && all[0].Port == 81 {
				break
			}
		}
		w.Must(r.Release(w.Ctx))
		if got := w.Children("/services/web"); len(got) != 0 {
			w.Errorf("%s: %q is left", w.Fault, got)
		}
	})
}

// Whatever breaks for a provider: it comes to know what there is.
func TestDirectoryEveryFaultOfProvider(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		one := directoryRegister(w, w.Look, web("1"))
		p := open(w, w.C, presence.ProviderOptions{})
		directoryAwait(w, p, "1")
		directoryRegister(w, w.Look, web("2"))
		directoryAwait(w, p, "1 2")
		w.Must(one.Release(w.Ctx))
		directoryAwait(w, p, "2")
		if i, err := p.Pick(w.Ctx); i.ID != "2" || err != nil {
			w.Errorf("%s: pick is %+v, %v", w.Fault, i, err)
		}
		w.Must(p.Close(w.Ctx))
	})
}

// Instances that come, change and go in storms: providers never see one twice or an
// update go back, and in the end they have all, with the last update.
func TestDirectoryStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{Renew: true}, func(s *trial.Storm) {
		var work, watch sync.WaitGroup
		registrations := make([]*presence.Registration, s.Clients())
		for i := range s.Clients() {
			d, err := presence.NewDirectory(s.Client(i), "/services", presence.Options{})
			if err != nil {
				s.Fatal(err)
			}
			p, err := d.Open(s.Ctx, "web", presence.ProviderOptions{})
			if err != nil {
				s.Fatal(err)
			}
			watch.Go(func() { directoryWitness(s, p) })
			work.Go(func() {
				one := presence.Instance{Name: "web", ID: strconv.Itoa(i)}
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
			if err := r.Release(s.Ctx); err != nil {
				s.Errorf("unregister: %v", err)
			}
		}
		if err := s.Look.Sync(s.Ctx, "/services"); err != nil { // its server may be a little late
			s.Errorf("sync: %v", err)
		}
		d, _ := presence.NewDirectory(s.Look, "/services", presence.Options{})
		if found, err := d.Find(s.Ctx, "web"); len(found) != 0 || err != nil {
			s.Errorf("found %q, %v", directoryIds(found), err)
		}
	})
}

// end is what all instances are updated to at last.
const end = 1 << 20

// directoryWitness follows a provider until that has the last updates.
func directoryWitness(s *trial.Storm, p *presence.Provider) {
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
				s.Errorf("%s is at %d after %d, of %q", one.ID, one.Port, ports[one.ID], directoryIds(all))
			}
			ports[one.ID] = one.Port
			done = done && one.Port == end
		}
		if done {
			return
		}
	}
}

package clients

// An interlude is the time from the end of a service until the fence of the next one has passed
// (package replica). The connections stay, and their requests are read and wait: see package line.

// StopServing notes that no clients are served: their connections wait.
func (s *Clients) StopServing() {
	s.ports.Lock()
	s.ports.plain.serving, s.ports.secure.serving = false, false
	s.ports.Unlock()
}

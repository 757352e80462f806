package rwlock

import "context"

// Beside is what RLock does for who holds the lock, as far as it has heard.
func (h *Held) Beside(ctx context.Context) (*Held, error) { return h.beside(ctx) }

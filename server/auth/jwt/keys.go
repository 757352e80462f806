package jwt

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	fetchTimeout  = 5 * time.Second
	fetchInterval = 10 * time.Second // the least time between two attempts
	maxKeyAge     = 24 * time.Hour   // keys that can't be read again are given up then
	maxKeys       = 100
	leastRSABits  = 2048
)

var errNoKeys = errors.New("key set has no public key for signatures: zkd uses RSA of 2048 bits and more, ECDSA and Ed25519")

// keySet are the issuer's keys.
type keySet struct {
	fetch   func(context.Context) ([]byte, error)
	refresh time.Duration
	now     func() time.Time
	failed  func(error)

	ctx    context.Context // of all fetches
	cancel context.CancelFunc

	current         atomic.Pointer[keys]
	reads, failures atomic.Uint64

	mu struct {
		sync.Mutex // held during a fetch
		next       time.Time
	}
}

// keys are the result of a fetch.
type keys struct {
	list []jose.JSONWebKey
	read time.Time
}

// find returns the keys that may have signed a token with this key id and algorithm. A
// token without a key id may be signed by the only key there is.
func (s *keySet) find(id, algorithm string) []jose.JSONWebKey {
	now := s.now()
	k := s.current.Load()
	found := k.find(id, algorithm, now)
	switch {
	case len(found) == 0:
		s.mu.Lock()
	case now.Sub(k.read) < s.refresh || !s.mu.TryLock(): // there is no need to wait for others
		return found
	}
	s.updateLocked(k)
	s.mu.Unlock()
	return s.current.Load().find(id, algorithm, now)
}

func (k *keys) find(id, algorithm string, now time.Time) (found []jose.JSONWebKey) {
	if k == nil || now.Sub(k.read) >= maxKeyAge || id == "" && len(k.list) != 1 {
		return nil
	}
	for _, key := range k.list {
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			found = append(found, key)
		}
	}
	return found
}

// updateLocked replaces old, unless that has been replaced meanwhile or was tried too
// recently.
func (s *keySet) updateLocked(old *keys) {
	if s.current.Load() != old || s.now().Before(s.mu.next) {
		return
	}
	if err := s.readLocked(); err != nil && s.ctx.Err() == nil {
		s.failed(err)
	}
}

// load reads the keys for the first time.
func (s *keySet) load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readLocked()
}

func (s *keySet) readLocked() error {
	s.mu.next = s.now().Add(fetchInterval)
	ctx, cancel := context.WithTimeout(s.ctx, fetchTimeout)
	defer cancel()
	s.reads.Add(1)
	text, err := s.fetch(ctx)
	var list []jose.JSONWebKey
	if err == nil {
		list, err = parseKeys(text)
	}
	if err != nil {
		s.failures.Add(1)
		return err
	}
	s.current.Store(&keys{list: list, read: s.now()})
	return nil
}

// parseKeys returns the usable keys of a JSON Web Key Set. It ignores the others, as
// RFC 7517 section 5 asks for.
func parseKeys(text []byte) (list []jose.JSONWebKey, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("no JSON Web Key Set: %w", err)
	}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil && usable(&key) {
			list = append(list, key)
		}
	}
	switch {
	case len(list) == 0:
		return nil, errNoKeys
	case len(list) > maxKeys:
		return nil, fmt.Errorf("key set has %d keys, more than %d", len(list), maxKeys)
	}
	return list, nil
}

// usable reports whether a key checks signatures. A secret key is not: its holder, this
// server, could sign tokens with it.
func usable(key *jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" || !key.Valid() {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= leastRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

package session_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/session"
)

// TestPasswordIsHMAC compares with crypto/hmac, for random secrets and ids.
func TestPasswordIsHMAC(t *testing.T) {
	seed := seeds.First(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		var secret [32]byte
		for i := range secret {
			secret[i] = byte(rng.Uint32())
		}
		id := jute.SessionID(rng.Uint64())
		mac := hmac.New(sha256.New, secret[:])
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(id)))
		want := session.Password(mac.Sum(nil)[:session.PasswordLen])
		if got := session.NewKeys(secret).Password(id); got != want {
			t.Fatalf("seed %d: password of %v is %x, want %x", seed, id, got, want)
		}
	}
}

func TestVerify(t *testing.T) {
	const id = jute.SessionID(0x100001342360002)
	keys := session.NewKeys([32]byte{1, 2, 3})
	right := keys.Password(id)
	changed := func(i int) []byte {
		p := slices.Clone(right[:])
		p[i] ^= 1
		return p
	}
	other := session.NewKeys([32]byte{1, 2, 4}).Password(id)
	next := keys.Password(id + 1)
	tests := []struct {
		name     string
		password []byte
		want     bool
	}{
		{"right", right[:], true},
		{"first bit wrong", changed(0), false},
		{"last bit wrong", changed(15), false},
		{"another session's", next[:], false},
		{"another ensemble's", other[:], false},
		{"zeros", make([]byte, 16), false},
		{"none", nil, false},
		{"cut", right[:15], false},
		{"too long", append(slices.Clone(right[:]), 0), false},
	}
	for _, tt := range tests {
		if got := keys.Verify(id, tt.password); got != tt.want {
			t.Errorf("%s: Verify(%x) = %v, want %v", tt.name, tt.password, got, tt.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { keys.Verify(id, right[:]) }); n != 0 {
		t.Errorf("Verify makes %v allocations, want none", n)
	}
}

func BenchmarkVerify(b *testing.B) {
	keys := session.NewKeys([32]byte{1})
	password := keys.Password(1)
	b.ReportAllocs()
	for b.Loop() {
		keys.Verify(1, password[:])
	}
}

// TestApachePassword compares with passwords that ZooKeeper 3.8.0 has given.
func TestApachePassword(t *testing.T) {
	for id, want := range map[jute.SessionID]string{
		0x0100002d57e4000d: "561ff684b3c1b8c1e02434d25357f43d",
		0x0100002d57e40027: "faf674847241e9acf3e5138d8319b8dd",
		0x0300004374830001: "f2375279209416584aed14839db50c7b",
	} {
		p := session.ApachePassword(id)
		if got := fmt.Sprintf("%x", p); got != want || !session.VerifyApache(id, p[:]) || session.VerifyApache(id+1, p[:]) || session.VerifyApache(id, nil) {
			t.Errorf("session %v: %s, want %s", id, got, want)
		}
	}
}

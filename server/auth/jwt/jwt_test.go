package jwt_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/auth/jwt"
)

const (
	issuer   = "https://id.example.org"
	audience = "zkd"
)

var begin = time.Unix(1_800_000_000, 0)

// world is an issuer, and a provider that knows its keys.
type world struct {
	t   testing.TB
	p   *jwt.Provider
	now time.Time

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	text    []byte // instead of keys
	err     error  // of the next fetches
	fetches int
	errs    []error // reported by the provider
}

func newWorld(t testing.TB, keys ...jose.JSONWebKey) *world {
	t.Helper()
	w := &world{t: t, now: begin, keys: keys}
	var err error
	w.p, err = jwt.New(jwt.Config{
		Issuer: issuer, Audiences: []string{"other", audience}, Algorithms: jwt.Algorithms, IDClaim: "sub", SuperUser: "root",
		Skew: time.Minute, Refresh: 5 * time.Minute, Fetch: w.fetch, Failed: func(err error) { w.errs = append(w.errs, err) },
		Now: func() time.Time { return w.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) fetch(context.Context) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fetches++
	if w.err != nil || w.text != nil {
		return w.text, w.err
	}
	set := jose.JSONWebKeySet{}
	for _, k := range w.keys {
		set.Keys = append(set.Keys, k.Public())
	}
	return json.Marshal(set)
}

// prove returns the identities that a token proves, "" for one that is over, or "refused: reason".
func (w *world) prove(token string) string {
	w.t.Helper()
	proof, err := w.p.ProvePacket([]byte(token))
	if errors.Is(err, auth.ErrEnded) && len(proof.IDs) == 0 {
		return ""
	}
	if err != nil {
		if !errors.Is(err, jute.ErrAuthFailed) {
			w.t.Errorf("error %v, want ErrAuthFailed", err)
		}
		for part := range strings.SplitSeq(token, ".") {
			if len(part) > 3 && strings.Contains(err.Error(), part) {
				w.t.Errorf("error %q shows a part of the token", err)
			}
		}
		reason, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "token "), ": jute")
		return strings.TrimSuffix(reason, ": "+jute.ErrAuthFailed.Error())
	}
	var ids []string
	for _, id := range proof.IDs {
		ids = append(ids, id.Scheme+":"+id.ID)
	}
	return strings.Join(ids, " ")
}

func (w *world) want(what, token, want string) {
	w.t.Helper()
	if got := w.prove(token); got != want {
		w.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func key(t testing.TB, id string, private crypto.Signer) jose.JSONWebKey {
	t.Helper()
	return jose.JSONWebKey{Key: private, KeyID: id}
}

// keyOf makes keys once: RSA keys take time.
var keyOf = sync.OnceValue(func() map[string]crypto.Signer {
	all := make(map[string]crypto.Signer)
	all["rsa"], _ = rsa.GenerateKey(rand.Reader, 2048)
	all["rsa2"], _ = rsa.GenerateKey(rand.Reader, 2048)
	all["short"], _ = rsa.GenerateKey(rand.Reader, 1024)
	for name, curve := range map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384(), "p521": elliptic.P521()} {
		all[name], _ = ecdsa.GenerateKey(curve, rand.Reader)
	}
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	all["ed"] = ed
	return all
})

// claims are those of a good token, changed.
func claims(change map[string]any) map[string]any {
	c := map[string]any{"iss": issuer, "aud": audience, "sub": "ann", "exp": begin.Unix() + 600, "iat": begin.Unix()}
	maps.Copy(c, change)
	for name, value := range change {
		if value == nil {
			delete(c, name)
		}
	}
	return c
}

// sign makes a token.
func sign(t testing.TB, algorithm string, k any, claims any, header ...string) string {
	t.Helper()
	o := (&jose.SignerOptions{}).WithType("JWT")
	for i := 0; i < len(header); i += 2 {
		o.WithHeader(jose.HeaderKey(header[i]), header[i+1])
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(algorithm), Key: k}, o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestAlgorithms(t *testing.T) {
	for algorithm, name := range map[string]string{
		"RS256": "rsa", "RS384": "rsa", "RS512": "rsa", "PS256": "rsa", "PS384": "rsa", "PS512": "rsa",
		"ES256": "p256", "ES384": "p384", "ES512": "p521", "EdDSA": "ed",
	} {
		k := key(t, "1", keyOf()[name])
		w := newWorld(t, k)
		token := sign(t, algorithm, k, claims(nil))
		w.want(algorithm, token, "jwt:ann")
		w.want(algorithm+", another key", sign(t, algorithm, otherKey(t, k), claims(nil)), "refused: not signed by a known key of the issuer")
		head, rest, _ := strings.Cut(token, ".")
		body, signature, _ := strings.Cut(rest, ".")
		forged := strings.Replace(decode(t, body), "ann", "eve", 1)
		w.want(algorithm+", changed", head+"."+encode(forged)+"."+signature, "refused: not signed by a known key of the issuer")
		w.want(algorithm+", no signature", head+"."+body+".", "refused: not signed by a known key of the issuer")
	}
}

// otherKey returns a key of the same kind and id.
func otherKey(t *testing.T, k jose.JSONWebKey) jose.JSONWebKey {
	t.Helper()
	switch private := k.Key.(type) {
	case *rsa.PrivateKey:
		return key(t, k.KeyID, keyOf()["rsa2"])
	case *ecdsa.PrivateKey:
		other, err := ecdsa.GenerateKey(private.Curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key(t, k.KeyID, other)
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key(t, k.KeyID, other)
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func decode(t *testing.T, s string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestClaims(t *testing.T) {
	k := key(t, "1", keyOf()["p256"])
	type m = map[string]any
	now := begin.Unix()
	const malformed = "refused: malformed claims, or none that says when it ends"
	for _, tc := range []struct {
		name   string
		change m
		want   string
	}{
		{"as it should be", m{}, "jwt:ann"},
		{"one of its audiences", m{"aud": []string{"x", "zkd"}}, "jwt:ann"},
		{"super user", m{"sub": "root"}, "jwt:root super:root"},
		{"spaces and letters of all kinds", m{"sub": "Zoë 漢字"}, "jwt:Zoë 漢字"},
		{"another issuer", m{"iss": "https://evil.example.org"}, "refused: of another issuer"},
		{"an issuer that begins alike", m{"iss": issuer + "/"}, "refused: of another issuer"},
		{"no issuer", m{"iss": nil}, "refused: of another issuer"},
		{"another audience", m{"aud": "kafka"}, "refused: for another audience"},
		{"no audience", m{"aud": nil}, "refused: for another audience"},
		{"audience in other letters", m{"aud": "ZKD"}, "refused: for another audience"},
		{"no end", m{"exp": nil}, malformed},
		{"an end that is no number", m{"exp": "tomorrow"}, malformed},
		{"an end too far to count", m{"exp": 1 << 62}, malformed},
		{"over, by less than the clocks may differ", m{"exp": now - 59}, "jwt:ann"},
		{"over", m{"exp": now - 60}, ""},
		{"over before there was time", m{"exp": -1}, ""},
		{"not valid yet, by less than the clocks may differ", m{"nbf": now + 60}, "jwt:ann"},
		{"not valid yet", m{"nbf": now + 61}, "refused: not valid yet"},
		{"made in the future", m{"iat": now + 61}, "refused: not valid yet"},
		{"no identity", m{"sub": nil}, "refused: claim sub has no identity"},
		{"empty identity", m{"sub": ""}, "refused: claim sub has no identity"},
		{"identity that is no text", m{"sub": 7}, malformed},
		{"identity with a control character", m{"sub": "a\x00b"}, "refused: claim sub has no identity"},
		{"long identity", m{"sub": strings.Repeat("a", 1024)}, "jwt:" + strings.Repeat("a", 1024)},
		{"longer identity", m{"sub": strings.Repeat("a", 1025)}, "refused: claim sub has no identity"},
	} {
		newWorld(t, k).want(tc.name, sign(t, "ES256", k, claims(tc.change)), tc.want)
	}
}

// TestUntil checks when identities end.
func TestUntil(t *testing.T) {
	k := key(t, "1", keyOf()["p256"])
	proof, err := newWorld(t, k).p.ProvePacket([]byte(sign(t, "ES256", k, claims(nil))))
	if want := (begin.Unix() + 600 + 60) * 1000; err != nil || proof.Until != want {
		t.Errorf("got %d, %v, want %d", proof.Until, err, want)
	}
}

func TestMalformedTokens(t *testing.T) {
	k := key(t, "1", keyOf()["p256"])
	w := newWorld(t, k)
	good := sign(t, "ES256", k, claims(nil))
	const malformed = "refused: malformed, or signed by an algorithm that zkd.jwt.algorithms does not have"
	head, body := encode(`{"alg":"ES256","kid":"1"}`), strings.Split(good, ".")[1]
	for name, token := range map[string]string{
		"nothing":           "",
		"words":             "ann:secret",
		"dots":              "..",
		"two parts":         head + "." + body,
		"four parts":        good + ".x",
		"JSON":              `{"payload":"` + body + `","signatures":[{"protected":"` + head + `","signature":""}]}`,
		"padding":           good + "=",
		"a header twice":    encode(`{"alg":"ES256","alg":"none"}`) + "." + body + ".",
		"unknown extension": encode(`{"alg":"ES256","kid":"1","crit":["x"],"x":1}`) + "." + body + "." + strings.Split(good, ".")[2],
	} {
		got := w.prove(token)
		if !strings.HasPrefix(got, "refused: ") {
			t.Errorf("%s: got %q", name, got)
		}
	}
	w.want("none", encode(`{"alg":"none"}`)+"."+body+".", malformed)
	w.want("None", encode(`{"alg":"None"}`)+"."+body+".", malformed)
	w.want("no algorithm", encode(`{"kid":"1"}`)+"."+body+".", malformed)
	w.want("encrypted", encode(`{"alg":"dir","enc":"A128GCM"}`)+"."+strings.Repeat(body+".", 3)+body, malformed)
	w.want("claims twice", sign(t, "ES256", k, json.RawMessage(strings.Replace(string(text(t, claims(nil))), "{", `{"sub":"eve",`, 1))),
		"refused: malformed claims, or none that says when it ends")
	w.want("large", strings.Repeat("a", 16<<10+1), "refused: larger than 16 KiB")
	if got, err := w.p.ProvePacket(nil); err == nil {
		t.Errorf("null: %v", got)
	}
	w.want("the good one", good, "jwt:ann")
	w.want("from a file", good+"\n", "jwt:ann")
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestKeyConfusion tries to have the server check a signature by a key that the attacker
// has: the public key as a secret, or a key that the token brings with it.
func TestKeyConfusion(t *testing.T) {
	k := key(t, "1", keyOf()["rsa"])
	w := newWorld(t, k)
	public, err := k.Public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	w.want("HMAC with the public key", sign(t, "HS256", jose.JSONWebKey{Key: public, KeyID: "1"}, claims(nil)),
		"refused: malformed, or signed by an algorithm that zkd.jwt.algorithms does not have")
	evil := key(t, "1", keyOf()["rsa2"])
	o := &jose.SignerOptions{EmbedJWK: true}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: "RS256", Key: evil}, o)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(text(t, claims(nil)))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	w.want("a key in the token", token, "refused: not signed by a known key of the issuer")
	w.want("an address of keys in the token", sign(t, "RS256", evil, claims(nil), "jku", "https://evil.example.org/keys"),
		"refused: not signed by a known key of the issuer")
	w.want("a key of another kind", sign(t, "ES256", key(t, "1", keyOf()["p256"]), claims(nil)),
		"refused: not signed by a known key of the issuer")
}

// TestAlgorithmOfKey checks that a key signs with its own algorithm only.
func TestAlgorithmOfKey(t *testing.T) {
	k := key(t, "1", keyOf()["rsa"])
	k.Algorithm = "PS256"
	w := newWorld(t, k)
	w.want("its own", sign(t, "PS256", k, claims(nil)), "jwt:ann")
	w.want("another", sign(t, "RS256", key(t, "1", keyOf()["rsa"]), claims(nil)), "refused: not signed by a known key of the issuer")
}

func TestKeysThatAreNotUsed(t *testing.T) {
	encryption := key(t, "encryption", keyOf()["rsa"])
	encryption.Use = "enc"
	short := key(t, "short", keyOf()["short"])
	good := key(t, "good", keyOf()["p256"])
	w := newWorld(t, encryption, short, good)
	w.want("good", sign(t, "ES256", good, claims(nil)), "jwt:ann")
	w.now = begin.Add(time.Minute)
	w.want("for encryption", sign(t, "RS256", encryption, claims(nil)), "refused: not signed by a known key of the issuer")

	secret := []byte("a secret of at least 32 bytes, which is long enough")
	w = newWorld(t)
	w.text = fmt.Appendf(nil, `{"keys":[{"kty":"oct","kid":"1","k":%q},{"kty":"new","kid":"2"},{"kid":"3"},7]}`, encode(string(secret)))
	if err := w.p.Load(); err == nil {
		t.Error("a set without a usable key was accepted")
	}
	private, err := good.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	w.text = fmt.Appendf(nil, `{"keys":[%s]}`, private)
	if err := w.p.Load(); err == nil {
		t.Error("a set with a private key was accepted")
	}
}

func TestKeyIDs(t *testing.T) {
	a, b := key(t, "a", keyOf()["p256"]), key(t, "b", keyOf()["ed"])
	noID := func(k jose.JSONWebKey) string {
		k.KeyID = ""
		algorithm := map[string]string{"a": "ES256", "b": "EdDSA"}[map[bool]string{true: "a", false: "b"}[k.Key == a.Key]]
		return sign(t, algorithm, k, claims(nil))
	}
	newWorld(t, a).want("no id, one key", noID(a), "jwt:ann")
	newWorld(t, a, b).want("no id, two keys", noID(a), "refused: not signed by a known key of the issuer")
	twice := newWorld(t, key(t, "a", keyOf()["ed"]), a)
	twice.want("an id of two keys", sign(t, "ES256", a, claims(nil)), "jwt:ann")
}

// TestKeysAreReplaced checks when keys are fetched.
func TestKeysAreReplaced(t *testing.T) {
	old, next := key(t, "old", keyOf()["p256"]), key(t, "next", keyOf()["ed"])
	w := newWorld(t, old)
	later := map[string]any{"exp": begin.Add(100 * time.Hour).Unix()}
	tokenOld, tokenNext := sign(t, "ES256", old, claims(later)), sign(t, "EdDSA", next, claims(later))
	at := func(d time.Duration, what, token, want string, fetches int) {
		t.Helper()
		w.now = begin.Add(d)
		w.want(what, token, want)
		if w.fetches != fetches {
			t.Errorf("%s: %d fetches, want %d", what, w.fetches, fetches)
		}
	}
	const refused = "refused: not signed by a known key of the issuer"
	if err := w.p.Load(); err != nil {
		t.Fatal(err)
	}
	at(0, "keys are there", tokenOld, "jwt:ann", 1)
	w.keys = []jose.JSONWebKey{old, next}
	at(9*time.Second, "too soon", tokenNext, refused, 1)
	at(10*time.Second, "new key", tokenNext, "jwt:ann", 2)
	at(20*time.Second, "both are known", tokenOld, "jwt:ann", 2)

	w.keys = []jose.JSONWebKey{next}
	at(5*time.Minute, "revoked, not known yet", tokenOld, "jwt:ann", 2)
	at(5*time.Minute+10*time.Second, "keys are old", tokenNext, "jwt:ann", 3)
	at(5*time.Minute+11*time.Second, "revoked", tokenOld, refused, 3)

	w.err = errors.New("unreachable")
	at(20*time.Minute, "issuer unreachable", tokenNext, "jwt:ann", 4)
	at(20*time.Minute+9*time.Second, "no second attempt", tokenNext, "jwt:ann", 4)
	at(20*time.Minute+10*time.Second, "second attempt", tokenNext, "jwt:ann", 5)
	at(24*time.Hour+5*time.Minute, "still", tokenNext, "jwt:ann", 6)
	at(24*time.Hour+6*time.Minute, "too old", tokenNext, refused, 7)
	w.err = nil
	at(24*time.Hour+7*time.Minute, "reachable again", tokenNext, "jwt:ann", 8)
	if len(w.errs) != 4 {
		t.Errorf("%d failures reported, want 4: %v", len(w.errs), w.errs)
	}

	w.text = []byte("<html>")
	at(25*time.Hour, "no key set", tokenNext, "jwt:ann", 9)
	w.text = []byte(`{"keys":[]}`)
	at(26*time.Hour, "no keys", tokenNext, "jwt:ann", 10)
}

// TestUnknownKeyFlood checks that tokens with unknown keys cause few fetches, and those
// that would be refused anyway none.
func TestUnknownKeyFlood(t *testing.T) {
	k := key(t, "1", keyOf()["p256"])
	w := newWorld(t, k)
	if err := w.p.Load(); err != nil {
		t.Fatal(err)
	}
	w.now = begin.Add(time.Minute)
	for i := range 50 {
		id := key(t, fmt.Sprint("flood", i), keyOf()["p256"])
		w.prove(sign(t, "ES256", id, claims(map[string]any{"iss": "https://evil.example.org"})))
		w.prove(sign(t, "ES256", id, claims(map[string]any{"exp": 1})))
	}
	if w.fetches != 1 {
		t.Errorf("%d fetches, want 1", w.fetches)
	}
	for i := range 50 {
		w.prove(sign(t, "ES256", key(t, fmt.Sprint("flood", i), keyOf()["p256"]), claims(nil)))
	}
	if w.fetches != 2 {
		t.Errorf("%d fetches, want 2", w.fetches)
	}
}

// TestSlowFetch checks that a fetch that hangs delays nobody whose key is known, and ends
// with Close.
func TestSlowFetch(t *testing.T) {
	k, other := key(t, "1", keyOf()["p256"]), key(t, "2", keyOf()["ed"])
	hanging := make(chan struct{})
	calls := 0
	now := begin
	p, err := jwt.New(jwt.Config{
		Issuer: issuer, Audiences: []string{audience}, Algorithms: jwt.Algorithms, IDClaim: "sub", Refresh: time.Hour,
		Now: func() time.Time { return now }, Failed: func(err error) { t.Errorf("failure %v of a fetch that Close ended", err) },
		Fetch: func(ctx context.Context) ([]byte, error) {
			if calls++; calls == 1 {
				return json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{k.Public()}})
			}
			close(hanging)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Load(); err != nil {
		t.Fatal(err)
	}
	now = begin.Add(2 * time.Hour)
	later := claims(map[string]any{"exp": now.Unix() + 600})
	done := make(chan error)
	unknown := []byte(sign(t, "EdDSA", other, later))
	go func() {
		_, err := p.ProvePacket(unknown)
		done <- err
	}()
	<-hanging
	if proof, err := p.ProvePacket([]byte(sign(t, "ES256", k, later))); err != nil || len(proof.IDs) != 1 {
		t.Errorf("a known key during a fetch: %v, %v", proof, err)
	}
	p.Close()
	if err := <-done; !errors.Is(err, jute.ErrAuthFailed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestACLs(t *testing.T) {
	p := newWorld(t).p
	for id, want := range map[string]bool{"ann": true, "system:serviceaccount:a:b": true, "": false, "a\n": false, "\xff": false} {
		if p.Valid(id) != want {
			t.Errorf("Valid(%q) is not %v", id, want)
		}
	}
	if !p.Personal() || !p.Match("ann", "ann") || p.Match("ann", "Ann") || p.Scheme() != "jwt" {
		t.Error("the scheme is not as it should be")
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]jwt.Config{
		"nothing":      {},
		"no audience":  {Issuer: issuer, IDClaim: "sub", Algorithms: jwt.Algorithms},
		"none":         {Issuer: issuer, Audiences: []string{"a"}, IDClaim: "sub", Algorithms: []string{"none"}},
		"a secret key": {Issuer: issuer, Audiences: []string{"a"}, IDClaim: "sub", Algorithms: []string{"RS256", "HS256"}},
	} {
		if _, err := jwt.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzToken checks that no token proves anything that is not signed.
func FuzzToken(f *testing.F) {
	k := key(f, "1", keyOf()["ed"])
	good := sign(f, "EdDSA", k, claims(nil))
	f.Add([]byte(good))
	f.Add([]byte(sign(f, "HS256", []byte(strings.Repeat("k", 32)), claims(nil))))
	f.Add([]byte(encode(`{"alg":"none"}`) + "." + strings.Split(good, ".")[1] + "."))
	body, signature, _ := strings.Cut(strings.SplitN(good, ".", 2)[1], ".")
	f.Add([]byte(encode(`{"alg":"EdDSA","kid":"1","b64":false,"crit":["b64"]}`) + "." + body + "." + signature))
	w := newWorld(f, k)
	if err := w.p.Load(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		proof, err := w.p.ProvePacket(data)
		if err != nil || len(proof.IDs) == 0 {
			return
		}
		if proof.IDs[0] != (auth.Proof{IDs: []jute.ID{{Scheme: "jwt", ID: "ann"}}}).IDs[0] || proof.Until == 0 {
			t.Errorf("%q proves %v", data, proof)
		}
	})
}

func FuzzKeys(f *testing.F) {
	for _, name := range []string{"rsa", "p256", "ed"} {
		k := key(f, name, keyOf()[name])
		b, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{k.Public()}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	token := sign(f, "EdDSA", key(f, "ed", keyOf()["ed"]), claims(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		w := newWorld(t)
		w.text = text
		if w.p.Load() == nil {
			w.prove(token)
		}
	})
}

// TestStats reads keys that are there, and then such that are not.
func TestStats(t *testing.T) {
	k := key(t, "1", keyOf()["p256"])
	w := newWorld(t, k)
	expect := func(want jwt.Stats) {
		t.Helper()
		if got := w.p.Stats(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	expect(jwt.Stats{})
	if err := w.p.Load(); err != nil {
		t.Fatal(err)
	}
	read := jwt.Stats{Reads: 1, Keys: 1, Read: w.now}
	expect(read)
	w.text = []byte("<html>")
	if err := w.p.Load(); err == nil {
		t.Error("a page was read as keys")
	}
	read.Reads, read.Failures = 2, 1
	expect(read)
}

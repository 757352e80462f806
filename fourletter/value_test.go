package fourletter

import "testing"

func TestValue(t *testing.T) {
	for name, want := range map[string]string{
		"sasl:ann":                         "sasl:ann",
		"x509:CN=a (b),O=Acme\n /[1](sid=": "x509:CN%3Da%20%28b%29%2CO%3DAcme%0A%20%2F%5B1%5D%28sid%3D",
	} {
		if got := Value(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

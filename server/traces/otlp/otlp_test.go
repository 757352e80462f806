package otlp

import "testing"

func TestWithPath(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://127.0.0.1:4318":         "http://127.0.0.1:4318/v1/traces",
		"https://collector/":            "https://collector/v1/traces",
		"https://collector/otlp/traces": "https://collector/otlp/traces",
	} {
		if got := withPath(endpoint); got != want {
			t.Errorf("%s becomes %s, want %s", endpoint, got, want)
		}
	}
}

package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestDifferences compares configurations with each other, in both directions.
func TestDifferences(t *testing.T) {
	load := func(lines string) *Config {
		t.Helper()
		c, _, err := Parse(strings.NewReader("dataDir=/d\nclientPort=2181\n"+lines), "zoo.cfg")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, tt := range []struct{ a, b, want string }{
		{"", "", ""},
		{"snapCount=100000", "", ""}, // the default
		{"snapCount=5", "snapCount=6", "snapCount:5:6:true"},
		{"tickTime=5", "", "maxSessionTimeout:100:60000:true minSessionTimeout:10:6000:true tickTime:5:3000:false"},
		{"zkd.limit.a=address * requests/s=1", "zkd.limit.b=address * requests/s=1", "zkd.limit.a:address * requests/s=1::true zkd.limit.b::address * requests/s=1:true"},
		{"DigestAuthenticationProvider.superDigest=super:a", "DigestAuthenticationProvider.superDigest=super:b", ""},
		{"zkd.logLevel=warn", "zkd.logLevel=debug", "zkd.logLevel:warn:debug:true"},
	} {
		var got []string
		for _, d := range load(tt.a).Differences(load(tt.b)) {
			got = append(got, fmt.Sprintf("%s:%s:%s:%v", d.Key, d.Before, d.After, d.Live))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q and %q: got %q, want %q", tt.a, tt.b, got, tt.want)
		}
		if n := len(load(tt.b).Differences(load(tt.a))); n != len(got) {
			t.Errorf("%q and %q: %d differences, and %d the other way round", tt.a, tt.b, len(got), n)
		}
	}
}

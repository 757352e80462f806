package presence

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// springs is an instance as a Java program has registered it.
const springs = `{"name":"payment","id":"4455f707-999b-476a-878a-0432a979a1bb","address":"localhost","port":8004,"sslPort":null,` +
	`"payload":{"@class":"org.springframework.cloud.zookeeper.discovery.ZookeeperInstance","id":"application-1","name":"payment","metadata":{}},` +
	`"registrationTimeUTC":1601380498720,"serviceType":"DYNAMIC",` +
	`"uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true}]}}`

func TestDirectoryJavaInstance(t *testing.T) {
	var i Instance
	if err := json.Unmarshal([]byte(springs), &i); err != nil {
		t.Fatal(err)
	}
	if i.Name != "payment" || i.Address != "localhost" || i.Port != 8004 || i.SSLPort != 0 || i.Type != Dynamic || i.Disabled ||
		i.Registered != time.UnixMilli(1601380498720).UTC() || i.URISpec != "{scheme}://{address}:{port}" || !strings.Contains(string(i.Payload), `"application-1"`) {
		t.Errorf("instance is %+v", i)
	}
	if got := i.URI(); got != "http://localhost:8004" {
		t.Errorf("URI is %q", got)
	}
	data, err := json.Marshal(i)
	if err != nil || string(data) != springs {
		t.Errorf("written again it is\n%s, %v, want\n%s", data, err, springs)
	}
}

func TestDirectoryInstanceJSON(t *testing.T) {
	for _, c := range []struct {
		in   Instance
		want string
	}{
		{Instance{Name: "a", ID: "1", Type: Dynamic},
			`{"name":"a","id":"1","address":null,"port":null,"sslPort":null,"payload":null,"registrationTimeUTC":0,"serviceType":"DYNAMIC","uriSpec":null}`},
		{Instance{Name: "a", ID: "1", Address: "h", Port: 1, SSLPort: 2, Payload: []byte(`{"x":1}`), Registered: time.UnixMilli(5).UTC(), Type: Permanent, URISpec: "x", Disabled: true},
			`{"name":"a","id":"1","address":"h","port":1,"sslPort":2,"payload":{"x":1},"registrationTimeUTC":5,"serviceType":"PERMANENT","uriSpec":{"parts":[{"value":"x","variable":false}]},"enabled":false}`},
	} {
		data, err := json.Marshal(c.in)
		if err != nil || string(data) != c.want {
			t.Errorf("%+v is\n%s, %v, want\n%s", c.in, data, err, c.want)
		}
		var back Instance
		if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, c.in) {
			t.Errorf("%s is %+v, %v, want %+v", data, back, err, c.in)
		}
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"name":"a"}`, `{"name":"a","id":"1","port":"x"}`} {
		var i Instance
		if err := json.Unmarshal([]byte(bad), &i); err == nil {
			t.Errorf("%q is %+v", bad, i)
		}
	}
	var i Instance
	if err := json.Unmarshal([]byte(`{"name":"a","id":"1","enabled":true,"more":1}`), &i); err != nil || i.Disabled {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestDirectoryURI(t *testing.T) {
	i := Instance{Name: "n", ID: "i", Address: "h", Port: 1, Type: Dynamic, Registered: time.UnixMilli(7)}
	for spec, want := range map[string]string{
		"":                    "",
		"plain":               "plain",
		"{ scheme }://{name}": "http://n",
		"{id}{service-type}{registration-time-utc}{ssl-port}": "idynamic7",
		"{[}{]}{unknown}": "{}",
		"{":               "", "}": "", "{a{b}}": "", "a}b": "",
	} {
		i.URISpec = spec
		if got := i.URI(); got != want {
			t.Errorf("URI of %q is %q, want %q", spec, got, want)
		}
	}
	i.URISpec, i.SSLPort = "{scheme}:{ssl-port}", 443
	if got := i.URI(); got != "https:443" {
		t.Errorf("URI is %q", got)
	}
	i.URISpec = "{"
	if _, err := json.Marshal(i); err == nil || !strings.Contains(err.Error(), "braces") {
		t.Errorf("error is %v", err)
	}
}

func instances(ids ...string) (all []Instance) {
	for _, id := range ids {
		all = append(all, Instance{ID: id})
	}
	return all
}

func TestDirectoryPolicies(t *testing.T) {
	pick := func(p Policy, ids string) string {
		all := instances(strings.Split(ids, "")...)
		return all[p.Pick(all)].ID
	}
	round := RoundRobin()
	got := ""
	for _, ids := range []string{"abc", "abc", "abc", "abc", "acd", "acd", "acd", "b", "ab"} {
		got += pick(round, ids)
	}
	if got != "abcacdaba" {
		t.Errorf("round robin picks %q", got)
	}
	stuck := Sticky(RoundRobin())
	got = ""
	for _, ids := range []string{"abc", "abc", "bc", "abc", "ab", "ac"} {
		got += pick(stuck, ids)
	}
	if got != "aabbbc" {
		t.Errorf("sticky picks %q", got)
	}
	seen := map[string]bool{}
	for range 1000 {
		seen[pick(Random(), "abc")] = true
	}
	if len(seen) != 3 {
		t.Errorf("random picks %v", seen)
	}
}

func TestDirectoryDown(t *testing.T) {
	d := down{threshold: 2, pause: time.Minute, failures: map[string]failure{}}
	now := time.Now()
	for i, c := range []struct {
		after time.Duration
		fails bool
		want  bool
	}{
		{0, false, false},
		{0, true, false},
		{time.Second, true, true}, // twice
		{time.Minute - 1, false, true},
		{1, false, false},              // the pause is over
		{0, true, false},               // and counting begins again
		{2 * time.Minute, true, false}, // too long ago to count
		{time.Minute - 1, true, true},
	} {
		now = now.Add(c.after)
		if c.fails {
			d.failed("a", now)
		}
		if got := d.is("a", now); got != c.want || d.is("b", now) {
			t.Errorf("step %d: down is %v, want %v", i, got, c.want)
		}
	}
	d.forget("a")
	if d.is("a", now) {
		t.Error("what is forgotten is down")
	}
}

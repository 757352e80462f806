package ensemble

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/why"
)

func TestEnsembleRecords(t *testing.T) {
	answer := func(zxid uint64, received string) why.Sample {
		return why.Sample{Zxid: zxid, Metrics: map[string]string{"packets_received": received, "num_alive_connections": "7", "avg_latency": "0.5"}}
	}
	asked := 0
	e := &Ensemble{Servers: []string{"a:1"}, Self: 1, ask: func(_ context.Context, addrs []string) why.Facts {
		asked++
		if len(addrs) != 1 || addrs[0] != "a:1" {
			t.Errorf("asks %q", addrs)
		}
		return why.Facts{Complete: true, Interval: 2 * time.Second, Now: 5, Servers: []why.Server{
			{Name: "a:1", ID: 1, Mode: "follower", Before: answer(0x100000005, "10"), After: answer(0x100000007, "30")},
			{Name: "b:1", ID: 2, Mode: "leader", Before: answer(0x100000005, ""), After: answer(0x100000009, "9")},
			{Name: "c:1", ID: 3, Unreachable: "connection refused"},
			{Name: "d:1", ID: 4, Mode: "observer", Observer: true, Before: answer(0x9, "1")},
		}}
	}}
	got := e.Look(t.Context())
	var members []string
	for _, m := range got.Members {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, string(b))
	}
	want := `{"name":"a:1","id":1,"role":"follower","voter":true,"zxid":"0x100000007","lag":2,"requests":10,"latency":"0.5","clients":7}
{"name":"b:1","id":2,"role":"leader","voter":true,"zxid":"0x100000009","lag":0,"requests":-1,"latency":"0.5","clients":7}
{"name":"c:1","id":3,"role":"unreachable","problem":"connection refused","voter":true,"lag":-1,"requests":-1,"clients":-1}
{"name":"d:1","id":4,"role":"observer","voter":false,"zxid":"0x9","lag":-1,"requests":-1,"clients":-1}`
	if text := strings.Join(members, "\n"); text != want {
		t.Errorf("members:\n%s\nwant:\n%s", text, want)
	}
	if got.MayFail != 0 || !got.Complete || got.Self != 1 || len(got.Findings) == 0 || got.Findings[0].Do == "" {
		t.Errorf("%+v", got)
	}
	e.at = time.Now().Add(time.Hour) // it is fresh, however slow this machine is
	if again := e.Look(t.Context()); again != got || asked != 1 {
		t.Errorf("it asks %d times", asked)
	}
}

package wan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

const example = `{
  "generation": 7, "region": "eu", "seed": 42,
  "peers": [
    {"address": "10.0.0.12", "region": "us"},
    {"address": "10.0.0.13", "region": "us", "link": "us-slow"},
    {"address": "10.2.0.0/16", "region": "ap"},
    {"address": "fd00::1", "region": "ap"},
    {"host": "db-sa.default.svc.cluster.local", "region": "sa"}
  ],
  "links": [
    {"from": "us", "delayMicros": 45000, "jitterMicros": 500, "lossPPM": 20000, "rateBitsPerSecond": 100000000},
    {"from": "us-slow", "delayMicros": 145000},
    {"from": "ap", "delayMicros": 90000, "reorderPPM": 1000},
    {"from": "sa", "cut": true}
  ]
}`

func TestConfigDefaults(t *testing.T) {
	c, err := ParseConfig([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if c.FailPolicy != FailOpen || c.Listen != DefaultListen || c.QueueBytes != DefaultQueueBytes {
		t.Errorf("defaults %+v", c)
	}
	if c.Peers[0].Link != "us" || c.Peers[1].Link != "us-slow" {
		t.Errorf("links of peers %+v", c.Peers[:2])
	}
	if l := c.Links[0]; l.JitterDistribution != Wander || l.RateQueueBytes != 2_500_000 || l.ReorderMicros != 0 {
		t.Errorf("link %+v", l)
	}
	if l := c.Links[2]; l.ReorderMicros != 1000 {
		t.Errorf("reordering by %d us, want the default of 1000", l.ReorderMicros)
	}
	// Setting defaults is idempotent.
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseConfig(b); err != nil {
		t.Errorf("written and read again: %v", err)
	}
}

func TestConfigRefusals(t *testing.T) {
	for name, tc := range map[string]struct{ config, want string }{
		"no JSON":              {`{`, "unexpected EOF"},
		"two values":           {`{"region":"eu"} {}`, "more than one JSON value"},
		"unknown field":        {`{"region":"eu","delay":3}`, `unknown field "delay"`},
		"no region":            {`{}`, `region: "" is not a name`},
		"fail policy":          {`{"region":"eu","failPolicy":"open"}`, `failPolicy: "open" is not Open or Closed`},
		"listen":               {`{"region":"eu","listen":"7003"}`, `listen: "7003" is not HOST:PORT`},
		"exempt port":          {`{"region":"eu","exemptPorts":[1,0]}`, "exemptPorts[1]: 0 is not 1 to 65535"},
		"queue":                {`{"region":"eu","queueBytes":3}`, "queueBytes: 3 is not 65536 to"},
		"link twice":           {`{"region":"eu","links":[{"from":"us"},{"from":"us"}]}`, `links[1].from: "us" is links[0] too`},
		"delay":                {`{"region":"eu","links":[{"from":"us","delayMicros":-1}]}`, "links[0].delayMicros: -1 is not 0 to 60000000"},
		"distribution":         {`{"region":"eu","links":[{"from":"us","jitterDistribution":"normal"}]}`, `links[0].jitterDistribution: "normal" is not Wander, Uniform, Normal or Pareto`},
		"correlated wander":    {`{"region":"eu","links":[{"from":"us","jitterCorrelationPPM":5}]}`, "links[0].jitterCorrelationPPM: 5 is not for Wander"},
		"full correlation":     {`{"region":"eu","links":[{"from":"us","lossCorrelationPPM":1000000}]}`, "links[0].lossCorrelationPPM: 1000000 is not 0 to 999999"},
		"loss":                 {`{"region":"eu","links":[{"from":"us","lossPPM":1000001}]}`, "links[0].lossPPM: 1000001 is not 0 to 1000000"},
		"rate":                 {`{"region":"eu","links":[{"from":"us","rateBitsPerSecond":10}]}`, "links[0].rateBitsPerSecond: 10 is not 8000 to"},
		"neither":              {`{"region":"eu","peers":[{"region":"us"}]}`, "peers[0]: needs either an address or a host"},
		"both":                 {`{"region":"eu","peers":[{"region":"us","address":"1.2.3.4","host":"x"}]}`, "peers[0]: needs either an address or a host"},
		"address":              {`{"region":"eu","peers":[{"region":"us","address":"10.0.0"}]}`, `peers[0].address: "10.0.0" is neither an IP address nor a prefix`},
		"prefix":               {`{"region":"eu","peers":[{"region":"us","address":"10.0.0.1/8"}]}`, "10.0.0.0/8 would be right"},
		"the same twice":       {`{"region":"eu","peers":[{"region":"us","address":"10.0.0.1"},{"region":"ap","address":"10.0.0.1/32"}]}`, "peers[1]: 10.0.0.1/32 is peers[0] too"},
		"mapped to the same":   {`{"region":"eu","peers":[{"region":"us","address":"10.0.0.1"},{"region":"ap","address":"::ffff:10.0.0.1"}]}`, "peers[1]: 10.0.0.1/32 is peers[0] too"},
		"region of the peer":   {`{"region":"eu","peers":[{"address":"10.0.0.1"}]}`, `peers[0].region: "" is not a name`},
		"phases in disorder":   {`{"region":"eu","phases":[{"from":"2026-03-01T12:00:20Z"},{"from":"2026-03-01T12:00:10Z"}]}`, "phases[1].from: 2026-03-01T12:00:10Z is not after the phase before"},
		"a phase without time": {`{"region":"eu","phases":[{}]}`, "phases[0].from: 0001-01-01T00:00:00Z is not after"},
		"a phase of no link":   {`{"region":"eu","phases":[{"from":"2026-03-01T12:00:20Z","links":[{"from":"us"}]}]}`, `phases[0].links[0].from: there is no link "us" to change`},
		"a phase's link":       {`{"region":"eu","links":[{"from":"us"}],"phases":[{"from":"2026-03-01T12:00:20Z","links":[{"from":"us","lossPPM":-1}]}]}`, "phases[0].links[0].lossPPM: -1 is not 0 to 1000000"},
		"a phase of no peer":   {`{"region":"eu","phases":[{"from":"2026-03-01T12:00:20Z","cut":["10.0.0.1"]}]}`, `phases[0].cut[0]: "10.0.0.1" is neither the host nor the address of a peer`},
		"too many hosts":       {`{"region":"eu","peers":[{"region":"us","host":"db-[0-99999]"}]}`, `peers: "db-[0-99999]" stands for 100000 names, more than 16384`},
		"unknown field of one": {`{"region":"eu","peers":[{"region":"us","host":"db","hots":"x"}]}`, `unknown field "hots"`},
		"all that is wrong":    {`{"region":"eu","exemptPorts":[-1],"queueBytes":1}`, "queueBytes: 1 is not"},
		"all that is wrong 2":  {`{"region":"eu","exemptPorts":[-1],"queueBytes":1}`, "exemptPorts[0]: -1 is not"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseConfig([]byte(tc.config))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// Hosts with consecutive numbers form a single entry in the file, but are separate peers in a parsed Config.
func TestHostsAreWrittenShort(t *testing.T) {
	const text = `{"generation":1,"region":"eu","seed":1,"failPolicy":"Open","listen":":7003","queueBytes":134217728,` +
		`"peers":[{"host":"db-eu-[0-2].db","region":"eu","link":"eu"},{"host":"db-us-[9-10].db","region":"us","link":"us"}],` +
		`"links":[],"phases":[{"from":"2026-03-01T12:00:20Z","cut":["db-eu-[1-2].db"]}]}`
	c, err := ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Peers) != 5 || c.Peers[4] != (Peer{Host: "db-us-10.db", Region: "us", Link: "us"}) {
		t.Errorf("peers %+v", c.Peers)
	}
	if at, _ := c.At(c.Phases[0].From); at.Peers[0].Link != "eu" || at.Peers[1].Link != cutLink || at.Peers[2].Link != cutLink || at.Peers[3].Link != "us" {
		t.Errorf("peers %+v while two are cut off", at.Peers)
	}
	if b, err := json.Marshal(c); err != nil || string(b) != text {
		t.Errorf("%s, %v\nwant %s", b, err, text)
	}
}

func TestPhasesOfAConfig(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c, err := ParseConfig([]byte(strings.Replace(example, `"links": [`, `"phases": [
		{"from": "2026-03-01T12:00:10Z", "links": [{"from": "us", "delayMicros": 90000, "rateBitsPerSecond": 8000000}], "cut": ["10.2.0.0/16"]},
		{"from": "2026-03-01T12:00:20Z", "cut": ["db-sa.default.svc.cluster.local"]},
		{"from": "2026-03-01T12:00:30.5Z"}],
		"links": [`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	declared, next := c.At(start)
	if next != start.Add(10*time.Second) || len(declared.Phases) != 0 || declared.Differs(declared) != "as declared" {
		t.Errorf("at first %+v, next %v", declared, next)
	}
	for after, want := range map[time.Duration]string{
		10 * time.Second:                      "cut off from 1 peers, link us -> eu delay 90ms, 8000000 bit/s",
		19 * time.Second:                      "cut off from 1 peers, link us -> eu delay 90ms, 8000000 bit/s",
		20 * time.Second:                      "cut off from 1 peers",
		30*time.Second + 500*time.Millisecond: "as declared",
		30*time.Second + 499*time.Millisecond: "cut off from 1 peers",
		time.Hour:                             "as declared",
	} {
		now, next := c.At(start.Add(after))
		if got := now.Differs(declared); got != want || next.IsZero() != (after > 30*time.Second+499*time.Millisecond) {
			t.Errorf("after %v: %s, next %v; want %s", after, got, next, want)
		}
	}
	if at, _ := c.At(start.Add(10 * time.Second)); at.Peers[2].Link != cutLink || at.Peers[0].Link != "us" || at.Links[0].RateQueueBytes == 0 {
		t.Errorf("%+v", at)
	}
	if c.Peers[2].Link != "ap" || c.Links[0].DelayMicros != 45000 {
		t.Error("the phases have changed the configuration itself")
	}
	other := *declared
	other.ExemptPorts = []int{7000}
	if got := other.Differs(declared); got != "other peers, ports or limits" {
		t.Error(got)
	}
	other.Links = other.Links[1:]
	if got := other.Differs(declared); got != "no link us -> eu" {
		t.Error(got)
	}
}

func TestLog(t *testing.T) {
	l, c := &Log{}, &Config{Region: "eu", Links: []Link{{From: "us", DelayMicros: 5}}}
	same, slower := *c, *c
	same.Generation, slower.Links = 7, []Link{{From: "us", DelayMicros: 6}}
	for i, x := range []*Config{c, &same, &slower, &slower, c} {
		l.Change(time.Unix(int64(i), 0), x)
	}
	if len(l.Entries) != 3 || l.Entries[1].From != time.Unix(2, 0) || l.Entries[2].From != time.Unix(4, 0) {
		t.Errorf("%+v", l.Entries)
	}
	if !l.ForgottenUntil.IsZero() {
		t.Errorf("forgotten until %v", l.ForgottenUntil)
	}
	for i := range 2 * MaxLog {
		l.Change(time.Unix(int64(10+i), 0), []*Config{&slower, c}[i%2])
	}
	if e := l.Entries; len(e) != MaxLog || !l.ForgottenUntil.Equal(time.Unix(10+MaxLog, 0)) || !e[0].From.Equal(l.ForgottenUntil) || !e[MaxLog-1].From.Equal(time.Unix(9+2*MaxLog, 0)) {
		t.Errorf("%d entries from %v to %v, forgotten until %v", len(e), e[0].From, e[len(e)-1].From, l.ForgottenUntil)
	}
}

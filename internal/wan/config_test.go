package wan

import (
	"encoding/json"
	"strings"
	"testing"
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
	// A configuration with its defaults is its own fixed point.
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
		"no JSON":             {`{`, "unexpected EOF"},
		"two values":          {`{"region":"eu"} {}`, "more than one JSON value"},
		"unknown field":       {`{"region":"eu","delay":3}`, `unknown field "delay"`},
		"no region":           {`{}`, `region: "" is not a name`},
		"fail policy":         {`{"region":"eu","failPolicy":"open"}`, `failPolicy: "open" is not Open or Closed`},
		"listen":              {`{"region":"eu","listen":"7003"}`, `listen: "7003" is not HOST:PORT`},
		"exempt port":         {`{"region":"eu","exemptPorts":[1,0]}`, "exemptPorts[1]: 0 is not 1 to 65535"},
		"queue":               {`{"region":"eu","queueBytes":3}`, "queueBytes: 3 is not 65536 to"},
		"link twice":          {`{"region":"eu","links":[{"from":"us"},{"from":"us"}]}`, `links[1].from: "us" is links[0] too`},
		"delay":               {`{"region":"eu","links":[{"from":"us","delayMicros":-1}]}`, "links[0].delayMicros: -1 is not 0 to 60000000"},
		"distribution":        {`{"region":"eu","links":[{"from":"us","jitterDistribution":"normal"}]}`, `links[0].jitterDistribution: "normal" is not Wander, Uniform, Normal or Pareto`},
		"correlated wander":   {`{"region":"eu","links":[{"from":"us","jitterCorrelationPPM":5}]}`, "links[0].jitterCorrelationPPM: 5 is not for Wander"},
		"full correlation":    {`{"region":"eu","links":[{"from":"us","lossCorrelationPPM":1000000}]}`, "links[0].lossCorrelationPPM: 1000000 is not 0 to 999999"},
		"loss":                {`{"region":"eu","links":[{"from":"us","lossPPM":1000001}]}`, "links[0].lossPPM: 1000001 is not 0 to 1000000"},
		"rate":                {`{"region":"eu","links":[{"from":"us","rateBitsPerSecond":10}]}`, "links[0].rateBitsPerSecond: 10 is not 8000 to"},
		"neither":             {`{"region":"eu","peers":[{"region":"us"}]}`, "peers[0]: needs either an address or a host"},
		"both":                {`{"region":"eu","peers":[{"region":"us","address":"1.2.3.4","host":"x"}]}`, "peers[0]: needs either an address or a host"},
		"address":             {`{"region":"eu","peers":[{"region":"us","address":"10.0.0"}]}`, `peers[0].address: "10.0.0" is neither an IP address nor a prefix`},
		"prefix":              {`{"region":"eu","peers":[{"region":"us","address":"10.0.0.1/8"}]}`, "10.0.0.0/8 would be right"},
		"the same twice":      {`{"region":"eu","peers":[{"region":"us","address":"10.0.0.1"},{"region":"ap","address":"10.0.0.1/32"}]}`, "peers[1]: 10.0.0.1/32 is peers[0] too"},
		"mapped to the same":  {`{"region":"eu","peers":[{"region":"us","address":"10.0.0.1"},{"region":"ap","address":"::ffff:10.0.0.1"}]}`, "peers[1]: 10.0.0.1/32 is peers[0] too"},
		"region of the peer":  {`{"region":"eu","peers":[{"address":"10.0.0.1"}]}`, `peers[0].region: "" is not a name`},
		"all that is wrong":   {`{"region":"eu","exemptPorts":[-1],"queueBytes":1}`, "queueBytes: 1 is not"},
		"all that is wrong 2": {`{"region":"eu","exemptPorts":[-1],"queueBytes":1}`, "exemptPorts[0]: -1 is not"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseConfig([]byte(tc.config))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

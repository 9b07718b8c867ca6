package kernel

import "testing"

func TestAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		answer           Answer
		delay, bandwidth string
	}{
		"nothing is missing": {},
		"netem is":           {Answer{Missing: map[string]string{"netem": "no such file"}}, "no queueing discipline netem: no such file", ""},
		"prio is":            {Answer{Missing: map[string]string{"prio": "no such file"}}, "no queueing discipline prio: no such file", "no queueing discipline prio: no such file"},
		"not known":          {Answer{Error: "forbidden"}, "forbidden", "forbidden"},
	} {
		if delay, bandwidth := test.answer.Lacks(Delay), test.answer.Lacks(Bandwidth); delay != test.delay || bandwidth != test.bandwidth {
			t.Errorf("%s: for a delay %q, for a bandwidth %q", name, delay, bandwidth)
		}
	}
}

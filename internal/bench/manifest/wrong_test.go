package manifest_test

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/manifest/wrong"
)

// validate runs all checks of `geobench validate`.
func validate(t *testing.T, text string) (*manifest.Bundle, manifest.Problems) {
	t.Helper()
	b, err := manifest.Load(strings.NewReader(text), check.Default(nil), "-")
	if err == nil {
		return b, nil
	}
	ps, ok := check.As(err)
	if !ok {
		t.Fatalf("the error %v is not Problems", err)
	}
	return b, ps
}

func TestWrongManifestsAreRefused(t *testing.T) {
	cases, err := wrong.Cases()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 30 {
		t.Errorf("only %d cases", len(cases))
	}
	if _, ps := validate(t, wrong.Valid); len(ps) > 0 {
		t.Fatalf("the manifests that the cases spoil are refused: %v", ps)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			_, ps := validate(t, c.YAML)
			t.Log("\n" + ps.Error())
			found := false
			for _, p := range ps {
				found = found || p.Field == c.Field && strings.Contains(p.String(), c.Want)
				if !strings.HasPrefix(p.Object, c.Kind+" ") {
					t.Errorf("a problem with another object: %s", p)
				}
				if !strings.HasPrefix(p.Source, "-:") {
					t.Errorf("a problem without its place: %s", p)
				}
			}
			if !found {
				t.Errorf("want field %s with %q", c.Field, c.Want)
			}
		})
	}
}

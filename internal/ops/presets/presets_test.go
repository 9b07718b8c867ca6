package presets_test

import (
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/ops/presets"
)

func TestNames(t *testing.T) {
	want := []string{"aws", "detock-eight-regions", "sdur", "smallbank-two-regions", "tiga-four-regions"}
	if got := presets.Names(); !slices.Equal(got, want) {
		t.Errorf("presets %q, want %q: is a file broken, or not called like its profile?", got, want)
	}
	if _, ok := presets.Lookup("nowhere"); ok {
		t.Error("there is a preset called nowhere")
	}
	a, _ := presets.Lookup("aws")
	a.Spec.Links[0].RTT = v1alpha1.DurationOf(0)
	if b, _ := presets.Lookup("aws"); b.Spec.Links[0].RTT.Duration == 0 {
		t.Error("a change of a looked-up preset changed the preset")
	}
}

// Presets get no defaults, so a file must be complete and must contain all pairs of regions.
func TestFiles(t *testing.T) {
	files, err := fs.Glob(presets.Files, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			data, err := presets.Files.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			docs, ps := manifest.Split(file, data)
			bundle, more := manifest.Build(docs)
			if ps = append(ps, more...); len(ps) > 0 {
				t.Fatal(ps)
			}
			if ps := bundle.Check(check.Default(nil)); len(ps) > 0 {
				t.Fatal(ps)
			}
			for name, validated := range bundle.Profiles {
				preset, ok := presets.Lookup(name)
				if !ok {
					t.Fatalf("%s is no preset", name)
				}
				if diff := cmp.Diff(validated, preset); diff != "" {
					t.Errorf("defaults (-) that the file (+) should spell out:\n%s", diff)
				}
				regions := preset.Spec.Regions()
				for i, a := range regions {
					for _, b := range regions[i+1:] {
						if _, ok := preset.Spec.Link(a, b); !ok {
							t.Errorf("no link between %s and %s", a, b)
						}
						if preset.Spec.Prices != nil && preset.Spec.Prices.TransferPerGBMicros(a, b) == 0 {
							t.Errorf("no transfer price from %s to %s", a, b)
						}
					}
				}
			}
		})
	}
}

// matrix is the upper triangle, including the diagonal, of a table of round trips in milliseconds.
type matrix struct {
	regions []string
	rtt     [][]float64
}

func TestFiguresMatchTheirSources(t *testing.T) {
	const none = -1
	// oneWay contains Detock's delays between regions, in milliseconds.
	oneWay := [][]float64{
		{0.1, 6, 33, 38, 74, 87, 106, 99},
		{6, 0.1, 38, 43, 66, 80, 99, 94},
		{33, 38, 0.1, 6, 101, 114, 92, 127},
		{38, 43, 6, 0.1, 105, 118, 86, 132},
		{74, 66, 101, 105, 0.1, 16, 36, 64},
		{87, 80, 114, 118, 16, 0.1, 36, 74},
		{106, 99, 92, 86, 36, 36, 0.1, 46},
		{99, 94, 127, 132, 64, 74, 46, 0.1},
	}
	detock := matrix{regions: []string{"us-east-1", "us-east-2", "eu-west-1", "eu-west-2", "ap-northeast-1", "ap-northeast-2", "ap-southeast-1", "ap-southeast-2"}}
	for i, row := range oneWay {
		var doubled []float64
		for _, d := range row[i:] {
			doubled = append(doubled, 2*d)
		}
		detock.rtt = append(detock.rtt, doubled)
	}
	for name, m := range map[string]matrix{
		"detock-eight-regions":  detock,
		"smallbank-two-regions": {[]string{"us-west-2", "ap-northeast-1"}, [][]float64{{0.4, 100}, {0.4}}},
		"sdur":                  {[]string{"us-east", "us-west", "eu"}, [][]float64{{1, 100, 90}, {1, 170}, {1}}},
		// Inferred from medians of NCC (121.45, 117.05, 201.47), TAPIR (217.05 and 217.32), Tiga (313.04 - 10) and Calvin
		// (1571.07 - 1353.44).
		"tiga-four-regions": {
			[]string{"us-east1", "europe-north1", "southamerica-east1", "asia-east2"},
			[][]float64{{0.2, 121.5, 117, 201.5}, {0.2, 217, 217.6}, {0.2, 303}, {0.2}},
		},
		"aws": {
			[]string{"us-east-1", "us-west-1", "us-west-2", "eu-west-1", "eu-central-1", "ap-northeast-1", "ap-southeast-1", "ap-southeast-2", "ap-south-1", "sa-east-1"},
			[][]float64{
				{5.5, 64.2, 64.4, 69.6, 93.2, 149.7, 219.6, 199.8, 192.5, 115.3},
				{2.8, 21.9, 129.9, 153.3, 108.3, 169.6, 139.1, 232.0, 174.8},
				{3.2, 118.3, 142.8, 98.2, 160.2, 141.0, 222.2, 174.6},
				{3.2, 27.5, 202.3, 178.5, 255.7, 125.9, 178.6},
				{4.0, 227.0, 160.4, 251.3, 129.3, 204.0},
				{2.8, 70.6, 106.9, 134.3, 258.3},
				{3.7, 94.8, 64.5, 327.8},
				{4.1, 154.9, 312.1},
				{3.2, 301.8},
				{none},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, ok := presets.Lookup(name)
			if !ok {
				t.Fatal("there is no such preset")
			}
			sorted := slices.Sorted(slices.Values(m.regions))
			if got := p.Spec.Regions(); !slices.Equal(got, sorted) {
				t.Fatalf("regions %q, want %q", got, sorted)
			}
			for i, row := range m.rtt {
				for k, ms := range row {
					from, to := m.regions[i], m.regions[i+k]
					want := time.Duration(ms * float64(time.Millisecond)).Round(time.Microsecond)
					if ms == none {
						continue
					}
					for _, ends := range [][2]string{{from, to}, {to, from}} {
						if l, _ := p.Spec.Link(ends[0], ends[1]); l.RTT.Duration != want {
							t.Errorf("%s to %s: %s, want %s", ends[0], ends[1], l.RTT, want)
						}
					}
				}
			}
		})
	}
}

func TestPrices(t *testing.T) {
	for preset, want := range map[string]map[[2]string]int64{
		"aws": {
			{"us-east-1", "eu-west-1"}: 20_000, {"ap-northeast-1", "us-west-2"}: 90_000, {"ap-southeast-2", "us-west-2"}: 98_000,
			{"ap-south-1", "us-west-2"}: 86_000, {"sa-east-1", "us-west-2"}: 138_000, {"us-east-1", "us-east-1"}: 0,
		},
		"detock-eight-regions": {
			{"us-east-1", "us-east-2"}: 10_000, {"us-east-2", "us-east-1"}: 10_000, {"us-east-1", "eu-west-1"}: 20_000,
			{"ap-northeast-2", "ap-northeast-1"}: 80_000,
		},
	} {
		p, ok := presets.Lookup(preset)
		if !ok {
			t.Fatalf("there is no preset %s", preset)
		}
		for ends, micros := range want {
			if got := p.Spec.Prices.TransferPerGBMicros(ends[0], ends[1]); got != micros {
				t.Errorf("%s: %s to %s costs %d millionths per GB, want %d", preset, ends[0], ends[1], got, micros)
			}
		}
	}
}

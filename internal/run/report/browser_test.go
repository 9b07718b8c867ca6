package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
)

// chromium returns the path of a Chromium browser, or skips the test if there is none. $CHROMIUM overrides the path.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium is installed: apt-get install chromium, or name one in $CHROMIUM")
	return ""
}

// frame is a page that shows the report in a frame of a given width. It writes its findings as JSON into the document,
// which Chromium prints.
const frame = `<!doctype html><link rel="icon" href="data:,"><iframe id="f" src="/index.html" style="width:%dpx;height:900px;border:0"></iframe><pre id="found"></pre>
<script>
const f = document.getElementById("f");
f.addEventListener("load", async () => {
  const d = f.contentDocument, w = f.contentWindow, found = {};
  const all = s => [...d.querySelectorAll(s)];
  found.resources = w.performance.getEntriesByType("resource").map(e => e.name);
  found.scrollWidth = d.documentElement.scrollWidth;
  found.wide = all("main *").filter(e => !e.closest("svg, .scroll, details") && e.getBoundingClientRect().right > w.innerWidth + 1).map(e => e.outerHTML.slice(0, 100));
  found.headings = all("h1,h2,h3").map(e => e.textContent.trim());
  found.figures = all("figure").length;
  found.unnamed = all("figure").filter(e => { const s = e.querySelector("svg[role=img]"); return !s || !s.querySelector("title").textContent || !s.querySelector("desc").textContent || s.getBoundingClientRect().height < 40; }).map(e => e.id);
  found.hidden = all("details").length;
  all("details").forEach(e => e.open = true);
  found.empty = all("figure").filter(e => e.querySelectorAll("tbody td").length == 0 || e.querySelector("table").getBoundingClientRect().height == 0).map(e => e.id);
  found.openScrollWidth = d.documentElement.scrollWidth;
  found.smallText = Math.min(...all("figure svg text").map(e => parseFloat(w.getComputedStyle(e).fontSize) * e.ownerSVGElement.getBoundingClientRect().width / e.ownerSVGElement.viewBox.baseVal.width));
  found.ground = w.getComputedStyle(d.body).backgroundColor;
  found.ink = w.getComputedStyle(d.querySelector(".c-label")).fill;
  found.dead = [];
  for (const a of all("a[href]")) {
    const href = a.getAttribute("href");
    if (href.startsWith("#")) { if (!d.getElementById(href.slice(1))) found.dead.push(href); continue; }
    const answer = await fetch(a.href);
    if (!answer.ok) found.dead.push(href);
    found.links = (found.links || 0) + 1;
  }
  document.getElementById("found").textContent = JSON.stringify(found);
});
</script>`

type found struct {
	ScrollWidth, OpenScrollWidth, Figures, Hidden, Links int
	SmallText                                            float64
	Wide, Headings, Unnamed, Empty, Dead, Resources      []string
	Ground, Ink                                          string
}

var foundText = regexp.MustCompile(`(?s)<pre id="found">(.*?)</pre>`)

// TestInChromium checks a report as a browser renders it, at the width of a screen and of a phone, in light and dark
// mode.
func TestInChromium(t *testing.T) {
	browser := chromium(t)
	d := document(t)
	folder, _ := write(t, Input{Documents: []*result.Document{d, d}, Experiments: []*experiment.Report{swept()}, Baseline: []*result.Document{slower(d)}})
	files := http.FileServer(http.Dir(folder))
	width := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/frame" {
			fmt.Fprintf(w, frame, width)
			return
		}
		if r.URL.Path == "/index.html" {
			http.ServeFile(w, r, filepath.Join(folder, "page.html"))
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	// Load the page under a name other than index.html, because a FileServer redirects index.html to the folder.
	if err := os.Link(filepath.Join(folder, Page), filepath.Join(folder, "page.html")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		width  int
		scheme string
		ground string
	}{
		"screen, light": {1200, "1", "rgb(255, 255, 255)"},
		"screen, dark":  {1200, "0", "rgb(20, 24, 31)"},
		"phone":         {360, "1", "rgb(255, 255, 255)"},
		"small phone":   {320, "0", "rgb(20, 24, 31)"},
	} {
		t.Run(name, func(t *testing.T) {
			width = tc.width
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
				"--user-data-dir="+t.TempDir(), "--blink-settings=preferredColorScheme="+tc.scheme, "--window-size=1300,1000",
				"--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom", server.URL+"/frame")
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, stderr.String())
			}
			m := foundText.FindStringSubmatch(stdout.String())
			if m == nil {
				t.Fatalf("Chromium printed no findings\n%s\n%s", stdout.String(), stderr.String())
			}
			var f found
			if err := json.Unmarshal([]byte(html.UnescapeString(m[1])), &f); err != nil {
				t.Fatalf("%v: %s\n%s", err, m[1], stderr.String())
			}
			for _, line := range strings.Split(stderr.String(), "\n") {
				if strings.Contains(line, "CONSOLE") {
					t.Errorf("the console says %s", line)
				}
			}
			if f.ScrollWidth > tc.width || f.OpenScrollWidth > tc.width || len(f.Wide) > 0 {
				t.Errorf("the page is %d wide, with all tables open %d; the window is %d; too wide are %q", f.ScrollWidth, f.OpenScrollWidth, tc.width, f.Wide)
			}
			for _, want := range []string{"Geobench report", "All runs", "What was run", "Throughput and latency", "Network, bytes and cost", "Balance over the nodes", "Checks and objectives", "Faults", "Claims", "run (SIMULATED) and 1 more against slower (SIMULATED) Undecided", "Figures"} {
				if !slices.Contains(f.Headings, want) {
					t.Errorf("no heading %q in %q", want, f.Headings)
				}
			}
			if f.Figures < 20 || len(f.Unnamed) > 0 || len(f.Empty) > 0 {
				t.Errorf("%d figures; without words %q, without numbers %q", f.Figures, f.Unnamed, f.Empty)
			}
			if f.Links < 40 || len(f.Dead) > 0 {
				t.Errorf("%d links to files; dead ones: %q", f.Links, f.Dead)
			}
			if f.Ground != tc.ground {
				t.Errorf("the ground is %s, want %s", f.Ground, tc.ground)
			}
			if f.SmallText < 8 {
				t.Errorf("the smallest text of a chart is %.1f px high", f.SmallText)
			}
			if len(f.Resources) > 0 {
				t.Errorf("the page is not self-contained: it asked for %q", f.Resources)
			}
		})
	}
}

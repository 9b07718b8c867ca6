package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// mostAnswer is the maximum size of a member's HTTP answer, in bytes.
const mostAnswer = 4 << 20

// State implements target.Stated. Members report their flags and start time over HTTP at their client URLs. The flags
// matter because they determine the heartbeat interval and which failures a commit survives (unsafe-no-fsync). Some
// members serve metrics elsewhere (listen-metrics-urls) or require credentials that Geobench lacks. For these members,
// State reports only the version.
func (l *led) State(ctx context.Context) (out []result.Server, err error) {
	seen := map[uint64]bool{}
	for i, e := range l.endpoints {
		asking, cancel := context.WithTimeout(ctx, sqltarget.ConnectWithin)
		st, err := l.clients[i].Status(asking, e.Address)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("the settings of %s: %w", e.Address, err)
		}
		if seen[st.Header.MemberId] {
			continue
		}
		seen[st.Header.MemberId] = true
		s := result.Server{Address: e.Address, Settings: map[string]result.Setting{"version": {Value: st.Version}}}
		l.flags(ctx, e, &s)
		l.started(ctx, e, &s)
		out = append(out, s)
	}
	return out, nil
}

// get fetches a path from a member over HTTP. It returns nil if the member does not serve the path.
func (l *led) get(ctx context.Context, e sqltarget.Endpoint, path string) []byte {
	ctx, cancel := context.WithTimeout(ctx, sqltarget.ConnectWithin)
	defer cancel()
	scheme, config := "http", l.tls[e]
	if config != nil {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+e.Address+path, nil)
	if err != nil {
		return nil
	}
	asking := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{TLSClientConfig: config.Clone(), DisableKeepAlives: true},
	}
	resp, err := asking.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close() //nolint:errcheck // the body has been read
	b, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil
	}
	return b
}

// flags adds a member's command-line flags, read from expvar. It omits flags that identify machines and clusters.
func (l *led) flags(ctx context.Context, e sqltarget.Endpoint, s *result.Server) {
	var vars struct {
		CommandLine []string `json:"cmdline"`
	}
	if json.Unmarshal(l.get(ctx, e, "/debug/vars"), &vars) != nil {
		return
	}
	for i := 1; i < len(vars.CommandLine); i++ {
		name, isFlag := strings.CutPrefix(strings.TrimPrefix(vars.CommandLine[i], "-"), "-")
		if !isFlag {
			continue
		}
		name, value, given := strings.Cut(name, "=")
		// Go flags take their value after "=" or as the next argument; a Boolean flag may have no value.
		if next := i + 1; !given && next < len(vars.CommandLine) && !strings.HasPrefix(vars.CommandLine[next], "-") {
			value, given = vars.CommandLine[next], true
		}
		if !given {
			value = "true"
		}
		if strings.Contains(name, "url") || strings.Contains(name, "token") || strings.HasPrefix(name, "initial-") || strings.HasSuffix(name, "-file") && name != "config-file" {
			continue
		}
		s.Settings[name] = result.Setting{Value: value, Source: "command line"}
	}
}

// started adds the start time of a member's process, rounded to seconds, and the member's backend quota.
func (l *led) started(ctx context.Context, e sqltarget.Endpoint, s *result.Server) {
	for line := range strings.Lines(string(l.get(ctx, e, "/metrics"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "process_start_time_seconds":
			at := time.Unix(int64(math.Round(v)), 0).UTC()
			s.Started = &at
		case "etcd_server_quota_backend_bytes":
			s.Settings["quota-backend-bytes in force"] = result.Setting{Value: strconv.FormatInt(int64(v), 10)}
		}
	}
}

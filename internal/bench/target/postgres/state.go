package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/bench/result"
)

// always lists the settings that every result contains, even if they have their defaults. They determine durability,
// plans and buffers.
var always = []string{
	"fsync", "synchronous_commit", "full_page_writes", "wal_level", "wal_sync_method", "wal_compression", "commit_delay", "commit_siblings", "synchronous_standby_names",
	"data_checksums", "shared_buffers", "work_mem", "maintenance_work_mem", "effective_cache_size", "random_page_cost", "seq_page_cost", "effective_io_concurrency", "huge_pages", "jit",
	"max_connections", "max_wal_size", "checkpoint_timeout", "checkpoint_completion_target", "autovacuum", "default_transaction_isolation", "default_statistics_target",
	"max_parallel_workers", "max_parallel_workers_per_gather", "deadlock_timeout", "lock_timeout", "statement_timeout", "log_statement", "shared_preload_libraries",
}

// states is the query that selects the settings in always, and settings of relevant categories that differ from the
// server's defaults. It omits the session's own settings.
const states = `select name, setting || coalesce(unit, ''), source, pending_restart from pg_settings
	where source not in ('session', 'client', 'override', 'interactive') and (name = any(string_to_array($1, ' ')) or pending_restart
		or source <> 'default' and category ~ '^(Query Tuning|Write-Ahead Log|WAL|Resource Usage|Lock Management|Replication|Autovacuum|Vacuuming|Client Connection Defaults / Statement Behavior|Statistics|Version and Platform Compatibility)') order by name`

// ownSettings are settings that every session of this package sets.
var ownSettings = map[string]bool{"application_name": true, "search_path": true}

// State implements sqltarget.Stater. It returns nil for products.
func (d *dialect) State(ctx context.Context, c conn) (*result.Server, error) {
	if d.product != nil {
		return nil, nil
	}
	s := &result.Server{Settings: map[string]result.Setting{}}
	all := c.ExecParams(ctx, states, [][]byte{[]byte(strings.Join(always, " "))}, nil, nil, nil).Read()
	if all.Err != nil {
		return nil, all.Err
	}
	for _, r := range all.Rows {
		if name := string(r[0]); !ownSettings[name] {
			s.Settings[name] = result.Setting{Value: string(r[1]), Source: string(r[2]), PendingRestart: string(r[3]) == "t"}
		}
	}
	const iso = `'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'`
	times, err := row(ctx, c, "select to_char(pg_postmaster_start_time() at time zone 'UTC', "+iso+"), to_char(pg_conf_load_time() at time zone 'UTC', "+iso+")")
	if err != nil {
		return nil, err
	}
	for i, at := range []**time.Time{&s.Started, &s.Configured} {
		t, err := time.Parse(time.RFC3339Nano, times[i])
		if err != nil {
			return nil, err
		}
		*at = &t
	}
	others := c.ExecParams(ctx, `select coalesce(nullif(application_name, ''), 'no application name') || ' of ' || coalesce(usename, 'nobody'), count(*) from pg_stat_activity
		where backend_type = 'client backend' and application_name <> $1 and pid <> pg_backend_pid() and state not in ('idle', 'disabled') group by 1 order by 1`, [][]byte{[]byte(d.application)}, nil, nil, nil).Read()
	if others.Err != nil {
		return nil, others.Err
	}
	for _, r := range others.Rows {
		n, err := strconv.Atoi(string(r[1]))
		if err != nil {
			return nil, err
		}
		s.OtherSessions += n
		s.Others = append(s.Others, string(r[1])+" x "+string(r[0]))
	}
	return s, nil
}

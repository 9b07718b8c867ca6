package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/bench/result"
)

// settings are the settings of MySQL, MariaDB and Galera that determine the durability of commits, the plans and the
// buffers. Each server has only some of them.
var settings = []string{
	"innodb_flush_log_at_trx_commit", "innodb_flush_log_at_timeout", "innodb_doublewrite", "innodb_flush_method", "innodb_use_native_aio", "sync_binlog", "log_bin", "binlog_format", "binlog_row_image",
	"binlog_group_commit_sync_delay", "binlog_commit_wait_count", "binlog_commit_wait_usec", "rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled", "rpl_semi_sync_source_wait_point",
	"innodb_buffer_pool_size", "innodb_log_file_size", "innodb_redo_log_capacity", "innodb_log_buffer_size", "innodb_io_capacity", "innodb_io_capacity_max", "innodb_thread_concurrency", "innodb_adaptive_hash_index",
	"innodb_lock_wait_timeout", "innodb_deadlock_detect", "innodb_snapshot_isolation", "innodb_rollback_on_timeout", "innodb_page_size", "innodb_checksum_algorithm", "innodb_stats_persistent", "innodb_purge_threads",
	"optimizer_switch", "optimizer_search_depth", "optimizer_use_condition_selectivity", "use_stat_tables", "join_buffer_size", "sort_buffer_size", "tmp_table_size", "max_heap_table_size", "query_cache_type", "query_cache_size",
	"transaction_isolation", "tx_isolation", "autocommit", "max_connections", "thread_handling", "thread_cache_size", "table_open_cache", "performance_schema", "general_log", "slow_query_log", "long_query_time",
	"wsrep_on", "wsrep_sync_wait", "wsrep_slave_threads", "wsrep_applier_threads", "wsrep_trx_fragment_size", "wsrep_certify_nonpk", "wsrep_osu_method", "wsrep_provider_options", "wsrep_cluster_address",
}

// origins are queries for the sources of global variables, for MariaDB and for MySQL. A server supports only one of
// them.
var origins = []string{
	"select variable_name, global_value_origin from information_schema.system_variables where global_value_origin is not null",
	"select variable_name, variable_source from performance_schema.variables_info",
}

// State implements sqltarget.Stater. It returns nil for products.
func (d *dialect) State(ctx context.Context, c *conn) (*result.Server, error) {
	if d.options.Product != nil {
		return nil, nil
	}
	s := &result.Server{Settings: map[string]result.Setting{}}
	texts := func(f func(name, value string)) func([]driver.Value) {
		return func(values []driver.Value) { f(strings.ToLower(text(values[0])), text(values[1])) }
	}
	err := c.query(ctx, "show global variables", texts(func(name, value string) {
		if slices.Contains(settings, name) {
			s.Settings[name] = result.Setting{Value: value}
		}
	}))
	if err != nil {
		return nil, err
	}
	for _, ask := range origins {
		sources := map[string]string{}
		if c.query(ctx, ask, texts(func(name, source string) { sources[name] = source })) != nil {
			continue // the query is for the other kind of server, or the user lacks access
		}
		for name, setting := range s.Settings {
			setting.Source = strings.ToLower(sources[name])
			s.Settings[name] = setting
		}
		break
	}
	up, err := c.variable(ctx, "global status", "Uptime")
	if err != nil {
		return nil, err
	}
	if seconds, err := strconv.Atoi(up); err == nil {
		now, err := c.row(ctx, "select unix_timestamp()")
		if err != nil {
			return nil, err
		}
		unix, err := strconv.ParseInt(strings.SplitN(now[0], ".", 2)[0], 10, 64)
		if err != nil {
			return nil, err
		}
		started := time.Unix(unix-int64(seconds), 0).UTC()
		s.Started = &started
	}
	others := "select concat(coalesce(user, 'nobody'), ''), count(*) from information_schema.processlist where command not in ('Sleep', 'Quit', 'Daemon', 'Binlog Dump', 'Binlog Dump GTID') " +
		"and user not in ('system user', 'event_scheduler') and id <> connection_id() and info is not null and instr(info, '" + d.said + "') = 0 group by user order by user"
	err = c.query(ctx, others, func(values []driver.Value) {
		if n, err := strconv.Atoi(text(values[1])); err == nil {
			s.OtherSessions += n
			s.Others = append(s.Others, fmt.Sprintf("%d x user %s", n, text(values[0])))
		}
	})
	return s, err
}

// text returns a column's value as text.
func text(v driver.Value) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

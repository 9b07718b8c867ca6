package mysql

import "testing"

// Products that only speak MySQL's protocol are recognized by their version texts.
func TestOnlySpeaks(t *testing.T) {
	for name, tc := range map[string]struct{ version, comment, want string }{
		"TiDB":      {"8.0.11-TiDB-v8.5.2", "TiDB Server (Apache License 2.0) Community Edition, MySQL 8.0 compatible", "TiDB"},
		"OceanBase": {"5.7.25", "OceanBase_CE 4.3.5.3", "OceanBase"},
		"MariaDB":   {"10.11.14-MariaDB-0+deb12u2", "Debian 12", ""},
		"MySQL":     {"8.4.3", "MySQL Community Server - GPL", ""},
	} {
		if got := onlySpeaks(tc.version, tc.comment); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

package postgres

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// placement is a product's method of keeping rows in the regions of their homes: a column of the table, computed from
// the key, names the region.
type placement struct {
	// regions returns statements that declare the regions of a database, the first of which holds everything else.
	regions func(database string, regions []string) []string
	// column is the type of the column, whose values are the names of regions. locality is the end of the statement that
	// creates the table.
	column, locality string
}

// cockroachRegions gives a database several regions. A database of three or more regions survives the loss of one. So
// does a database without regions whose servers are in three. With fewer regions, neither survives.
func cockroachRegions(database string, regions []string) []string {
	alter := `alter database "` + database + `" `
	sql := []string{alter + `set primary region "` + regions[0] + `"`}
	for _, r := range regions[1:] {
		sql = append(sql, alter+`add region if not exists "`+r+`"`)
	}
	const survivors = 3
	if len(regions) >= survivors {
		sql = append(sql, alter+"survive region failure")
	}
	return sql
}

// homes computes in SQL the region of a row: geo.Placement.Home, as far as the bytes of its key determine it. Two kinds
// of rows are in the first region: rows placed by the hash of a text (names of customers), and rows that are
// everywhere. Only latency depends on it.
type homes struct {
	regions []string
	// homes is the number of regions, from the first on, that rows call home.
	homes  int
	column string
}

func newHomes(t *geo.Topology, p *placement) *homes {
	return &homes{regions: t.Regions, homes: t.Placement().Regions, column: p.column}
}

// of is the region of the row with a key, which is an expression of SQL of type bytea.
func (h *homes) of(key string) string {
	var b strings.Builder
	b.WriteString("case " + homeNumber(key, h.homes))
	for i, region := range h.regions[:h.homes] {
		fmt.Fprintf(&b, " when %d then '%s'::%s", i, region, h.column)
	}
	b.WriteString(" end")
	return b.String()
}

// homeNumber returns the SQL expression of the home number of a key: the shard number, eight bytes after the first
// byte, modulo the number of homes.
func homeNumber(key string, homes int) string {
	const number = 8
	var sum []string
	factor := 1 % homes
	for i := number; i > 0; i-- {
		sum = append(sum, fmt.Sprintf("get_byte(%s, %d) * %d", key, i, factor))
		factor = factor * 256 % homes
	}
	return fmt.Sprintf("case when octet_length(%[1]s) <= %[2]d then 0 when get_byte(%[1]s, 0) & %[3]d <> 0 then 0 else (%[4]s) %% %[5]d end", key, number, txn.Unplaced, strings.Join(sum, " + "), homes)
}

package postgres

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// placement is a product's method of storing rows in their home regions: a column of the table, computed from the key,
// names the region.
type placement struct {
	// regions returns the statements that declare the regions of a database. The first region also stores everything that
	// is not placed.
	regions func(database string, regions []string) []string
	// column is the type of the region column, whose values are region names. locality is the last clause of the
	// CREATE TABLE statement.
	column, locality string
}

// cockroachRegions returns the statements that make a database multi-region. With three or more regions, the statements
// make the database survive the loss of a region. A database without these statements also survives such a loss if its
// servers are in three regions, so both remain comparable. With fewer regions, neither of them survives.
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

// homes computes the home region of a row in SQL. The result equals geo.Placement.Home if the bytes of the key
// determine the home. All other rows count as rows of the first region. These are rows placed by the hash of a text
// (such as customers' names), and rows that are stored everywhere. The difference affects only latency.
type homes struct {
	regions []string
	// homes is the number of home regions, which are the first elements of regions.
	homes  int
	column string
}

func newHomes(t *geo.Topology, p *placement) *homes {
	return &homes{regions: t.Regions, homes: t.Placement().Regions, column: p.column}
}

// of returns the SQL expression for the region of a row. key is the SQL expression of the row's key, of type bytea.
func (h *homes) of(key string) string {
	var b strings.Builder
	b.WriteString("case " + homeNumber(key, h.homes))
	for i, region := range h.regions[:h.homes] {
		fmt.Fprintf(&b, " when %d then '%s'::%s", i, region, h.column)
	}
	b.WriteString(" end")
	return b.String()
}

// homeNumber returns the SQL expression of the home number of a key: the shard number modulo the number of homes. The
// shard number is the eight bytes after the first byte.
func homeNumber(key string, homes int) string {
	const number = 8
	var sum []string
	factor := 1 % homes
	for i := number; i > 0; i-- {
		sum = append(sum, fmt.Sprintf("get_byte(%s, %d) * %d", key, i, factor))
		// Reduce each byte's factor modulo homes, so that the sum of the eight terms fits into SQL's integers.
		factor = factor * 256 % homes
	}
	return fmt.Sprintf("case when octet_length(%[1]s) <= %[2]d then 0 when get_byte(%[1]s, 0) & %[3]d <> 0 then 0 else (%[4]s) %% %[5]d end", key, number, txn.Unplaced, strings.Join(sum, " + "), homes)
}

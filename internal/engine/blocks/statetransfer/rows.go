package statetransfer

import (
	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/store"
)

// minRow is the minimum size of an encoded row, in bytes.
const minRow = 4

// AppendRows appends rows to a state, without their versions.
func AppendRows(b []byte, rows []store.Row) []byte {
	b = codec.AppendUvarint(b, uint64(len(rows)))
	for i := range rows {
		w := &rows[i]
		b = codec.AppendBytes(codec.AppendID(codec.AppendString(b, string(w.Key)), w.Writer), w.Value)
	}
	return b
}

// ReadRows decodes rows that AppendRows encoded. Values alias the input.
func ReadRows(r *codec.Reader) (rows []store.Row) {
	for range r.Count(minRow) {
		row := store.Row{Key: r.Key()}
		row.Writer, row.Value = r.ID(), r.Bytes()
		rows = append(rows, row)
	}
	return rows
}

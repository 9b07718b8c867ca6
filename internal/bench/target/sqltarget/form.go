package sqltarget

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// formName returns the name of the transactions' form in results, or "" if transactions are procedures.
func formName(o *Options) string {
	switch {
	case o.Form != FormSQL:
		return ""
	case o.ForeignKeys:
		return FormSQL + ", foreign keys"
	}
	return FormSQL + ", no foreign keys"
}

// formOf returns the workload's SQL form if FormSQL is configured, and nil otherwise. It returns an error if the
// workload has no SQL form.
func (d *database[C]) formOf(w workload.Workload) (*sqlform.Form, error) {
	if d.options.Form != FormSQL {
		return nil, nil
	}
	formed, ok := w.(sqlform.Workload)
	if !ok {
		return nil, Wrong(ParameterField(FormParameter), FormSQL, "the workload %s has no SQL of its own: use %s, which runs its procedures, or one of the workloads %s", w.Name(), FormProcedures, strings.Join(catalog.WithSQL(), ", "))
	}
	return formed.Form(), nil
}

// former returns the dialect as a Former. Dialects without SQL forms do not offer the value FormSQL, so the assertion
// cannot fail.
func (d *database[C]) former() Former[C] { return d.dialect.(Former[C]) }

// formed creates the tables of a form, and returns the function that loads them.
func (d *database[C]) formed(ctx context.Context, form *sqlform.Form, recorded bool) (func(context.Context, target.Dataset) error, error) {
	err := d.ordered(ctx, 0, func(ctx context.Context, c C) error { return d.former().MakeTables(ctx, c, form, recorded, d.mark) })
	if err != nil {
		return nil, fmt.Errorf("making the tables: %w", err)
	}
	return func(ctx context.Context, data target.Dataset) error { return d.loadForm(ctx, form, data) }, nil
}

// loaders returns the number of connections that load concurrently.
func (d *database[C]) loaders() int {
	return min(loadersMost, 2*runtime.GOMAXPROCS(0), d.options.Connections)
}

// loadForm loads the tables, then builds their keys, and finally adds the foreign keys. Building the keys last is
// faster than maintaining them for each row.
func (d *database[C]) loadForm(ctx context.Context, form *sqlform.Form, data target.Dataset) error {
	if err := d.copyInto(ctx, form, data); err != nil {
		return err
	}
	f := d.former()
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(d.loaders())
	for i := range form.Tables {
		g.Go(func() error {
			return d.beside(within, func(c C) error { return f.Finish(within, c, &form.Tables[i]) })
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	// Foreign keys refer to keys of other tables, so all tables must have their keys first.
	return d.beside(ctx, func(c C) error {
		if d.options.ForeignKeys {
			if err := f.Refer(ctx, c, form); err != nil {
				return err
			}
		}
		return f.Refine(ctx, c, form)
	})
}

// beside runs do on a temporary connection to the first endpoint.
func (d *database[C]) beside(ctx context.Context, do func(c C) error) error {
	c, err := d.dial(ctx, d.server.Endpoints[0])
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // do has returned its error already
	return do(c)
}

// copyInto converts the workload's rows to columns. Meanwhile several connections load the completed chunks, which may
// belong to different tables.
func (d *database[C]) copyInto(ctx context.Context, form *sqlform.Form, data target.Dataset) error {
	chunks := make(chan Chunk)
	g, ctx := errgroup.WithContext(ctx)
	for range d.loaders() {
		g.Go(func() error { return d.former().CopyInto(ctx, d.server.Endpoints[0], form, chunks) })
	}
	g.Go(func() error {
		defer close(chunks)
		layout := d.Layout()
		var rows int64
		var wrong error
		columns := make([]sqlform.Columns, len(form.Tables))
		send := func(table int) {
			if len(columns[table].Bytes) == 0 {
				return
			}
			// If a loader fails, ctx is canceled, and there may be no goroutine left that receives chunks.
			select {
			case chunks <- Chunk{table, columns[table].Bytes}:
				if data.Progress != nil {
					data.Progress(rows)
				}
			case <-ctx.Done():
			}
			// The receiver owns the sent bytes, so the next chunk needs a new buffer. The additional eighth of its capacity
			// leaves room for the row that completes the chunk.
			columns[table] = sqlform.Columns{Bytes: make([]byte, 0, chunk+chunk/8)}
		}
		var draft sqlform.Columns
		err := workload.Fill(data.Workload, &layout, 0, func(k txn.Key, value []byte) {
			// Fill cannot be stopped, so skip the remaining rows.
			if wrong != nil || ctx.Err() != nil {
				return
			}
			draft.Bytes = draft.Bytes[:0]
			draft.Begin()
			table, err := form.Row(k, value, &draft)
			if err != nil {
				wrong = fmt.Errorf("workload %s: %w", data.Workload.Name(), err)
				return
			}
			if table == sqlform.NoTable {
				return
			}
			draft.End()
			rows++
			to := &columns[table]
			if to.Bytes = append(to.Bytes, draft.Bytes...); len(to.Bytes) >= chunk {
				send(table)
			}
		})
		for table := range columns {
			send(table)
		}
		if err == nil {
			err = wrong
		}
		return err
	})
	return g.Wait()
}

// auditForm makes the database compute the sums of its tables. The result has a single copy without nodes.
func (d *database[C]) auditForm(ctx context.Context) ([][]store.ShardSums, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	form, err := d.formOf(d.data.Workload)
	if err != nil {
		return nil, err
	}
	var sums sqlform.Audit
	err = d.ordered(ctx, 0, func(ctx context.Context, c C) error {
		return d.former().Snapshot(ctx, c, func(q sqlform.Query) (err error) {
			sums, err = form.Audit(q)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return [][]store.ShardSums{{{Shard: store.Everywhere, Rows: sums.Everywhere}, {Sums: sums.Sums, Rows: sums.Rows}}}, nil
}

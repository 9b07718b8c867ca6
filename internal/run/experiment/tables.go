package experiment

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/plan"
)

// TableData is a table of an experiment with its evaluated cells.
type TableData struct {
	Name  string `json:"name"`
	Title string `json:"title,omitempty"`
	// Columns are the titles of the columns, except for the first column, which lists the systems.
	Columns []string   `json:"columns"`
	Rows    []TableRow `json:"rows"`
	// Missing explains why cells are empty.
	Missing []string `json:"missing,omitempty"`
	// Notes describe the columns that use results which count only because of spec.allowInvalid.
	Notes []string `json:"notes,omitempty"`
}

// TableRow is the row of a system. A cell without a value is "".
type TableRow struct {
	System string   `json:"system"`
	Cells  []string `json:"cells"`
}

// column is a compiled column expression.
type column struct {
	*board
	compiled *cel.Ast
	program  cel.Program
}

func (b *board) column(text string) (*column, error) {
	compiled, err := b.compile(text)
	if err != nil {
		return nil, err
	}
	program, err := b.env.Program(compiled, b.options()...)
	if err != nil {
		return nil, err
	}
	return &column{b, compiled, program}, nil
}

// cell returns the value of the column for a system.
func (c *column) cell(ctx context.Context, system string) (ref.Val, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.unsound = nil
	value, _, err := c.program.ContextEval(ctx, map[string]any{"systems": c.Systems, "system": system})
	return value, cmp.Or(c.unsound, err)
}

// tables reports tables with columns that do not compile, exceed the limits, or refer to something that the experiment
// does not have.
func (x *expansion) tables(ctx context.Context) {
	b := dryBoard(x.Experiment)
	b.rows = true
	steps := uint64(0)
	for i, t := range x.object.Spec.Tables {
		for k, c := range t.Columns {
			if x.ended(ctx) {
				return
			}
			field := fmt.Sprintf("spec.tables[%d].columns[%d].value", i, k)
			err := x.tryColumn(ctx, b, c.Value, &steps)
			if err != nil {
				x.problem(field, "", "table %s, column %q: %s", t.Name, c.Title, cut(err.Error()))
			}
			if steps > mostStepsTogether {
				return
			}
		}
	}
}

// tryColumn compiles a column and evaluates it for each system without results. It adds the maximum number of steps of
// all rows to steps.
func (x *expansion) tryColumn(ctx context.Context, b *board, text string, steps *uint64) error {
	b.wrong = nil
	c, err := b.column(text)
	if err != nil {
		return err
	}
	if *steps += b.steps * uint64(len(x.Systems)); *steps > mostStepsTogether {
		return fmt.Errorf("this column and those before it may need %d steps in all rows; the limit for all tables together is %d: move some to another Experiment",
			*steps, mostStepsTogether)
	}
	if err := b.checkLiterals(c.compiled); err != nil {
		return err
	}
	for _, system := range x.Systems {
		_, err := c.cell(ctx, system)
		switch {
		case b.wrong != nil:
			return b.wrong
		// Ignore other errors, because they may not occur with results.
		case err != nil && strings.Contains(err.Error(), "index out of bounds"):
			return err
		}
	}
	return nil
}

// Tables evaluates all tables over the results. Cells that were not evaluated when ctx is done stay empty.
func (e *Experiment) Tables(ctx context.Context, r *Results) (out []TableData) {
	if e.object == nil {
		return nil
	}
	b := &board{Experiment: e, results: r, rows: true}
	for i := range e.object.Spec.Tables {
		out = append(out, b.table(ctx, &e.object.Spec.Tables[i]))
	}
	return out
}

func (b *board) table(ctx context.Context, t *v1alpha1.Table) TableData {
	d := TableData{Name: t.Name, Title: t.Title, Columns: []string{}}
	for _, system := range b.Systems {
		d.Rows = append(d.Rows, TableRow{System: system})
	}
	for _, c := range t.Columns {
		d.Columns = append(d.Columns, c.Title)
		// Notes are per column, so reset the reasons that earlier columns recorded.
		b.counted = nil
		expression, err := b.column(c.Value)
		for i := range d.Rows {
			row, text, why := &d.Rows[i], "", err
			// If a column does not compile, all its cells are empty for this reason.
			if why == nil {
				var value ref.Val
				if value, why = expression.cell(ctx, row.System); why == nil {
					text = cut(show(value))
				}
			}
			if why != nil {
				d.Missing = append(d.Missing, cut(fmt.Sprintf("%s, %s: %v", row.System, c.Title, why)))
			}
			row.Cells = append(row.Cells, text)
		}
		if len(b.counted) > 0 {
			d.Notes = append(d.Notes, fmt.Sprintf("%s: %s", c.Title, countsInvalid(b.counted)))
		}
	}
	return d
}

// plan returns the plan of a run of the system.
func (b *board) plan(system string) (*plan.Plan, error) {
	if p := b.plans[system]; p != nil {
		return p, nil
	}
	points := b.points(system, make([]string, len(b.Parameters)))
	// Every system has points, so a system without points does not exist.
	if len(points) == 0 {
		return nil, b.system(system)
	}
	m := points[0].manifests
	p, err := plan.New(m.Run, m.Database, m.Profile)
	if err != nil {
		return nil, lookupf("%s: %v", system, err)
	}
	if b.plans == nil {
		b.plans = map[string]*plan.Plan{}
	}
	b.plans[system] = p
	return p, nil
}

// Lines returns the titles and the rows, with a dash in empty cells.
func (d *TableData) Lines() [][]string {
	out := [][]string{append([]string{"system"}, d.Columns...)}
	for _, row := range d.Rows {
		line := []string{row.System}
		for _, cell := range row.Cells {
			if cell == "" {
				cell = "-"
			}
			line = append(line, cell)
		}
		out = append(out, line)
	}
	return out
}

// write writes the table as text.
func (d *TableData) write(w io.Writer, experiment string) {
	fmt.Fprintf(w, "\ntable %s: %s\n", experiment, d.Heading())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range d.Lines() {
		fmt.Fprintln(t, "  "+strings.Join(line, "\t"))
	}
	t.Flush() //nolint:errcheck // into memory
	for _, why := range slices.Concat(d.Missing, d.Notes) {
		fmt.Fprintf(w, "  %s\n", why)
	}
}

// Heading returns the table's name and title.
func (d *TableData) Heading() string {
	if d.Title == "" {
		return d.Name
	}
	return d.Name + ": " + d.Title
}

// Markdown returns the table in Markdown.
func (d *TableData) Markdown(simulated bool) string {
	b := &strings.Builder{}
	if d.Title != "" {
		fmt.Fprintf(b, "%s", d.Title)
		if simulated {
			b.WriteString(" (simulated)")
		}
		b.WriteString("\n\n")
	} else if simulated {
		b.WriteString("Simulated.\n\n")
	}
	for i, line := range d.Lines() {
		for k, cell := range line {
			// A pipe or a newline in a cell would break the table.
			line[k] = strings.NewReplacer("|", "\\|", "\n", " ").Replace(cell)
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(line)) + "\n")
		}
	}
	for i, why := range slices.Concat(d.Missing, d.Notes) {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "- %s\n", why)
	}
	return b.String()
}

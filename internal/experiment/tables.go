package experiment

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/plan"
)

// TableData is a table of an experiment with what its cells came to.
type TableData struct {
	Name  string `json:"name"`
	Title string `json:"title,omitempty"`
	// Columns are the titles, behind that of the systems.
	Columns []string   `json:"columns"`
	Rows    []TableRow `json:"rows"`
	// Missing says why cells are empty.
	Missing []string `json:"missing,omitempty"`
}

// TableRow is a system's; a cell without an answer is empty.
type TableRow struct {
	System string   `json:"system"`
	Cells  []string `json:"cells"`
}

// tablesCost bounds the evaluation of all tables of an experiment together, as mostCost does that of a claim.
const tablesCost = 5 * mostCost

// column is a column's expression, compiled.
type column struct {
	*board
	compiled *cel.Ast
	program  cel.Program
}

func (b *board) column(text string) (*column, error) {
	language, compiled, err := b.compile(text)
	if err != nil {
		return nil, err
	}
	program, err := language.Program(compiled, cel.CostTracking(b), cel.CostLimit(mostCost))
	if err != nil {
		return nil, err
	}
	return &column{b, compiled, program}, nil
}

// errTooManySteps ends the evaluation of tables.
var errTooManySteps = fmt.Errorf("the expressions of the tables take more than %d steps together", tablesCost)

// cell is the value for a system. It takes its steps from those that are left.
func (c *column) cell(system string, left *uint64) (ref.Val, error) {
	if *left < mostCost {
		return nil, errTooManySteps
	}
	value, details, err := c.program.Eval(map[string]any{"systems": c.Systems, "system": system})
	cost := uint64(mostCost)
	if spent := details.ActualCost(); spent != nil {
		cost = min(*spent, mostCost)
	}
	*left -= cost
	return value, err
}

// tables refuses those whose columns do not compile, or ask for what the experiment has not.
func (x *expansion) tables() {
	left := uint64(tablesCost)
	for i, t := range x.object.Spec.Tables {
		for k, c := range t.Columns {
			if err := x.tryColumn(c.Value, &left); err != nil {
				x.problem(fmt.Sprintf("spec.tables[%d].columns[%d].value", i, k), "", "table %s, column %q: %v", t.Name, c.Title, err)
				if errors.Is(err, errTooManySteps) {
					return
				}
			}
		}
	}
}

func (x *expansion) tryColumn(text string, left *uint64) error {
	b := dryBoard(x.Experiment)
	b.rows = true
	c, err := b.column(text)
	if err != nil {
		return err
	}
	if err := b.checkLiterals(c.compiled); err != nil {
		return err
	}
	for _, system := range x.Systems {
		_, err := c.cell(system, left)
		switch {
		case b.wrong != nil:
			return b.wrong
		case errors.Is(err, errTooManySteps), err != nil && strings.Contains(err.Error(), "index out of bounds"):
			return err
		}
	}
	return nil
}

// Tables evaluates all tables over the results.
func (e *Experiment) Tables(r *Results) (out []TableData) {
	if e.object == nil {
		return nil
	}
	left := uint64(tablesCost)
	for i := range e.object.Spec.Tables {
		out = append(out, e.table(&e.object.Spec.Tables[i], r, &left))
	}
	return out
}

func (e *Experiment) table(t *v1alpha1.Table, r *Results, left *uint64) TableData {
	d := TableData{Name: t.Name, Title: t.Title, Columns: []string{}}
	for _, system := range e.Systems {
		d.Rows = append(d.Rows, TableRow{System: system})
	}
	for _, c := range t.Columns {
		d.Columns = append(d.Columns, c.Title)
		expression, err := (&board{Experiment: e, results: r, rows: true}).column(c.Value)
		for i := range d.Rows {
			row, text, why := &d.Rows[i], "", err
			if why == nil {
				var value ref.Val
				if value, why = expression.cell(row.System, left); why == nil {
					text = show(value)
				}
			}
			if why != nil {
				d.Missing = append(d.Missing, fmt.Sprintf("%s, %s: %v", row.System, c.Title, why))
			}
			row.Cells = append(row.Cells, text)
		}
	}
	return d
}

// plan is that of a run of a system.
func (b *board) plan(system string) (*plan.Plan, error) {
	points := b.points(system, make([]string, len(b.Parameters)))
	if len(points) == 0 {
		return nil, b.system(system)
	}
	m := points[0].manifests
	p, err := plan.New(m.Run, m.Database, m.Profile)
	if err != nil {
		return nil, lookupf("%s: %v", system, err)
	}
	return p, nil
}

// Lines are the titles and the rows; an empty cell is a dash.
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

// write writes the table for a person.
func (d *TableData) write(w io.Writer, experiment string) {
	fmt.Fprintf(w, "\ntable %s: %s\n", experiment, d.Heading())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range d.Lines() {
		fmt.Fprintln(t, "  "+strings.Join(line, "\t"))
	}
	t.Flush() //nolint:errcheck // into memory
	for _, why := range d.Missing {
		fmt.Fprintf(w, "  %s\n", why)
	}
}

// Heading is the table's name and title.
func (d *TableData) Heading() string {
	if d.Title == "" {
		return d.Name
	}
	return d.Name + ": " + d.Title
}

// Markdown is the table as a page has it.
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
			line[k] = strings.NewReplacer("|", "\\|", "\n", " ").Replace(cell)
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(line)) + "\n")
		}
	}
	for i, why := range d.Missing {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "- %s\n", why)
	}
	return b.String()
}

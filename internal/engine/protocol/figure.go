package protocol

import "fmt"

// Kind determines how the values of a figure may be used.
type Kind uint8

const (
	// Counter is the kind of a figure that never decreases during the life of a replica. The difference of two
	// readings is the number of events between them. After a restart, and in a new incarnation, it starts at 0.
	Counter Kind = iota + 1
	// Gauge is the kind of a figure that describes a current state. It may decrease, and differences of its readings are
	// not meaningful.
	Gauge
)

// String returns the name of the kind in Prometheus and in the documentation.
func (k Kind) String() string {
	switch k {
	case Counter:
		return "counter"
	case Gauge:
		return "gauge"
	default:
		return fmt.Sprintf("kind %d", uint8(k))
	}
}

// Topic is the subject of a figure, and the title of a panel on the engines dashboard.
type Topic string

// The topics, in the order of the dashboard.
const (
	AboutTransactions Topic = "Transactions by kind"
	AboutBatches      Topic = "Batches and epochs"
	AboutConflicts    Topic = "Waits and conflicts"
	AboutLogs         Topic = "Logs and messages"
	AboutRecovery     Topic = "Leaders, members and recovery"
	AboutWork         Topic = "Work of the protocol"
)

// Topics returns all topics, in the order of the dashboard.
func Topics() []Topic {
	return []Topic{AboutTransactions, AboutBatches, AboutConflicts, AboutLogs, AboutRecovery, AboutWork}
}

// Units of gauges that are positions on a scale, not counts: a sum of them over nodes is meaningless.
const (
	UnitPosition = "position" // in a log
	UnitTerm     = "term"     // of a leader
)

// Figure declares a figure that the replicas of an engine report. Metrics, claims, dashboards, results and the engine's
// page are derived from it. Figures with the same name in several engines have the same Kind, Unit and Topic.
type Figure struct {
	// Name is snake_case, and unique within the engine.
	Name string
	Kind Kind
	// Unit is a plural noun for the counted things, such as transactions; or UnitPosition or UnitTerm.
	Unit string
	// Doc is a sentence or two for the engine's page.
	Doc   string
	Topic Topic
}

// Figures that several engines share.
var (
	// TransactionsTaken is the figure of engines whose nodes accept the transactions of their own clients.
	TransactionsTaken = Figure{
		Name: "transactions", Kind: Counter, Unit: "transactions", Topic: AboutTransactions,
		Doc: "Transactions accepted from own clients.",
	}
	// TransactionsCoordinated is the figure of engines whose nodes coordinate transactions.
	TransactionsCoordinated = Figure{
		Name: "transactions", Kind: Counter, Unit: "transactions", Topic: AboutTransactions,
		Doc: "Transactions accepted as a coordinator.",
	}
	// LogEntries is the figure of engines that count the entries of their logs.
	LogEntries = Figure{
		Name: "log_entries", Kind: Counter, Unit: "entries", Topic: AboutLogs, Doc: "Entries added to a log.",
	}
)

// Reading is the current value of a figure.
type Reading struct {
	Name  string
	Value int64
}

// Figure returns the declaration of a figure.
func (e *Engine) Figure(name string) (Figure, bool) {
	for _, f := range e.Figures {
		if f.Name == name {
			return f, true
		}
	}
	return Figure{}, false
}

// ByKind returns the readings of a replica as two maps by name. It omits readings that the engine does not declare,
// because it is unknown whether they may be subtracted; tests of engines reject such readings.
func (e *Engine) ByKind(readings []Reading) (counters, gauges map[string]int64) {
	counters, gauges = map[string]int64{}, map[string]int64{}
	for _, r := range readings {
		// An undeclared figure has the zero Kind, which matches neither case.
		switch f, _ := e.Figure(r.Name); f.Kind {
		case Counter:
			counters[r.Name] = r.Value
		case Gauge:
			gauges[r.Name] = r.Value
		}
	}
	return counters, gauges
}

// FigureWatch checks the readings of one replica, from its start, against the declarations of its engine.
type FigureWatch struct {
	engine *Engine
	// last are the latest readings, and kinds the kinds of their figures.
	last  []Reading
	kinds []Kind
}

// NewFigureWatch returns a watch for a replica without readings so far.
func NewFigureWatch(e *Engine) *FigureWatch { return &FigureWatch{engine: e} }

// Look checks the replica's next readings. It returns an error if the engine does not declare a reading, or if a
// counter is negative or has fallen. Each call must have the same figures in the same order as the first.
func (w *FigureWatch) Look(readings []Reading) error {
	if w.kinds == nil {
		if err := w.first(readings); err != nil {
			return err
		}
	}
	if len(readings) != len(w.last) {
		return fmt.Errorf("a replica of engine %s reports %d figures, and reported %d before; it must report the same for as long as it lives",
			w.engine.Name, len(readings), len(w.last))
	}
	for i, r := range readings {
		was := &w.last[i]
		switch {
		// last and kinds are kept by position, so a figure that moves would be compared with another figure.
		case r.Name != was.Name:
			return fmt.Errorf("figure %d of a replica of engine %s is %s, and was %s before; their order must stay", i+1, w.engine.Name, r.Name, was.Name)
		case w.kinds[i] == Counter && r.Value < was.Value:
			return fmt.Errorf("counter %s of engine %s fell from %d to %d; declare it as a gauge, or count what happened", r.Name, w.engine.Name, was.Value, r.Value)
		}
		was.Value = r.Value
	}
	return nil
}

// first records the figures that the replica reports. A counter must be at least 0.
func (w *FigureWatch) first(readings []Reading) error {
	kinds, last := make([]Kind, 0, len(readings)), make([]Reading, 0, len(readings))
	seen := make(map[string]bool, len(readings))
	for _, r := range readings {
		f, declared := w.engine.Figure(r.Name)
		switch {
		case !declared:
			return fmt.Errorf("engine %s reports %s, which Engine.Figures does not declare", w.engine.Name, r.Name)
		case seen[r.Name]:
			return fmt.Errorf("engine %s reports %s twice", w.engine.Name, r.Name)
		}
		seen[r.Name] = true
		// The value stays 0 here, so Look also refuses a counter that is negative in its first reading.
		kinds, last = append(kinds, f.Kind), append(last, Reading{Name: r.Name})
	}
	w.kinds, w.last = kinds, last
	return nil
}

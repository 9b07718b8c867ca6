package result

import "fmt"

const (
	// maxTpmCPerWarehouse is the most tpmC, in thousandths, that ten terminals of a warehouse reach with the keying and think
	// times of TPC-C (clause 4.2.2; its comment has the figure).
	maxTpmCPerWarehouse = 12_860
	// terminalsPerWarehouse is the number of terminals of a warehouse (clause 4.2.2).
	terminalsPerWarehouse = 10
)

// TPCC says by which rules of TPC-C a tpmC was measured.
type TPCC struct {
	// Warehouses of all regions, and Terminals: their clients.
	Warehouses int64 `json:"warehouses"`
	Terminals  int64 `json:"terminals"`
	// KeyingAndThinkTimePercent is the percentage of the standard's keying and think times; at 0 the figure is not a tpmC of the
	// standard.
	KeyingAndThinkTimePercent int64 `json:"keyingAndThinkTimePercent"`
	// EfficiencyPPM is the tpmC in parts per million of the most that the warehouses admit; only with all keying and think times.
	EfficiencyPPM int64 `json:"efficiencyPPM,omitempty"`
}

// fillTpmC counts committed new orders per minute and compares them with the standard's maximum.
func (d *Document) fillTpmC(r *Report, in *Inputs) {
	orders := int64(0)
	for _, t := range d.Transactions {
		if t.Type == in.TpmCType {
			orders += t.Committed
		}
	}
	measured := r.DurationMicroseconds * int64(r.Repetitions)
	perMinute := ratio(measured, 1, orders, 60e6)
	d.Summary.TpmC = &perMinute
	spec := in.Workload.TPCC
	if spec == nil {
		return
	}
	homes := in.Topology.Homes
	if homes == 0 {
		homes = len(in.Topology.Regions)
	}
	t := &TPCC{
		Warehouses:                int64(spec.WarehousesPerPartition) * int64(in.Topology.Partitions) * int64(homes),
		Terminals:                 int64(in.Load.ClientsPerRegion) * int64(len(in.Topology.Regions)),
		KeyingAndThinkTimePercent: int64(spec.KeyingAndThinkTimePercent),
	}
	d.Summary.TPCC = t
	if spec.RowsPercent > 0 && spec.RowsPercent < 100 {
		d.Notes = append(d.Notes, fmt.Sprintf("warehouses with %d%% of the rows break clause 1.2 of TPC-C: the figure is not a tpmC of the standard", spec.RowsPercent))
	}
	if t.Warehouses == 0 || t.KeyingAndThinkTimePercent == 0 {
		return
	}
	if t.KeyingAndThinkTimePercent == 100 {
		t.EfficiencyPPM = ratio(measured, t.Warehouses*maxTpmCPerWarehouse, orders, 60e6, 1000, 1e6)
	}
	if t.Terminals > terminalsPerWarehouse*t.Warehouses {
		d.Notes = append(d.Notes, fmt.Sprintf("%d terminals on %d warehouses break clause 4.2.2 of TPC-C, which has %d a warehouse: the figure is not a tpmC of the standard; "+
			"let spec.load.clientsPerRegion be at most %d, or workload.tpcc.warehousesPerPartition larger", t.Terminals, t.Warehouses, terminalsPerWarehouse,
			max(1, terminalsPerWarehouse*t.Warehouses/int64(len(in.Topology.Regions)))))
	}
}

// TpmCInWords says the tpmC in words, and by which rules it was measured; empty for a workload without it.
func (s *Summary) TpmCInWords() string {
	if s.TpmC == nil {
		return ""
	}
	text := fmt.Sprintf("tpmC %d: new orders committed per minute", *s.TpmC)
	switch t := s.TPCC; {
	case t == nil:
	case t.KeyingAndThinkTimePercent == 0:
		text += ", no keying or think times"
	case t.KeyingAndThinkTimePercent != 100:
		text += fmt.Sprintf(", %d%% of the keying and think times", t.KeyingAndThinkTimePercent)
	default:
		text += fmt.Sprintf(", %s of 12.86 a warehouse (%d warehouses)", formatPPM(t.EfficiencyPPM), t.Warehouses)
	}
	return text
}

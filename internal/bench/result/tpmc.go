package result

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

const (
	// maxTpmCPerWarehouse is the maximum tpmC, in thousandths, of the ten terminals of a warehouse with the keying
	// and think times of TPC-C. The comment of clause 4.2.2 states this figure.
	maxTpmCPerWarehouse = 12_860
	// terminalsPerWarehouse is the number of terminals of a warehouse (clause 4.2.2).
	terminalsPerWarehouse = 10
)

// TPCC describes the extent to which a measured tpmC follows the rules of TPC-C.
type TPCC struct {
	// Warehouses is the number of warehouses of all regions, and Terminals the number of clients of all regions.
	Warehouses int64 `json:"warehouses"`
	Terminals  int64 `json:"terminals"`
	// KeyingAndThinkTimePercent is the percentage of the standard's keying and think times. At 0, the figure is not a
	// tpmC in the sense of the standard.
	KeyingAndThinkTimePercent int64 `json:"keyingAndThinkTimePercent"`
	// EfficiencyPPM is the tpmC in parts per million of the maximum for the number of warehouses. It is set only with
	// full keying and think times and without deviations.
	EfficiencyPPM int64 `json:"efficiencyPPM,omitempty"`
	// Deviations lists the parameters of the workload that violate the standard, with the violated clauses.
	Deviations []string `json:"deviations,omitempty"`
}

// deviations returns the parameters of the workload that the standard does not allow. The maximum of 12.86 per
// warehouse assumes the standard's mix.
func deviations(spec *v1alpha1.TPCC) (out []string) {
	for _, mix := range append([]v1alpha1.TPCCMix{spec.Mix}, spec.MixPhases...) {
		if mix.Payment < 43 || mix.OrderStatus < 4 || mix.Delivery < 4 || mix.StockLevel < 4 ||
			mix.UpdateStock+mix.UpdateBalance+mix.SelectBalance > 0 {
			out = append(out,
				"a mix with less than 43% payment, 4% orderStatus, 4% delivery and 4% stockLevel, "+
					"or with other types (clause 5.2.3)")
			break
		}
	}
	if spec.RollbackPercent != 1 {
		out = append(out, fmt.Sprintf("rollbackPercent %d (clause 2.4.1.4 has 1)", spec.RollbackPercent))
	}
	if r := &spec.Remote; r.OrderLinePercent == nil || *r.OrderLinePercent != 1 || r.NewOrderPercent != nil ||
		r.DistributionRatioPercent != nil {
		out = append(out, "other remote order lines than 1% (clause 2.4.1.5)")
	}
	if spec.Remote.PaymentPercent != 15 {
		out = append(out, fmt.Sprintf("remote.paymentPercent %d (clause 2.5.1.2 has 15)", spec.Remote.PaymentPercent))
	}
	if spec.ByLastNamePercent != 60 {
		out = append(out, fmt.Sprintf("byLastNamePercent %d (clauses 2.5.1.2 and 2.6.1.2 have 60)",
			spec.ByLastNamePercent))
	}
	return out
}

// fillTpmC sets the number of committed new orders per minute and compares it with the standard's maximum.
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
	t.Deviations = deviations(spec)
	// The table already states that there are no keying or think times; notes on other rules would add nothing.
	if t.Warehouses == 0 || t.KeyingAndThinkTimePercent == 0 {
		return
	}
	if len(t.Deviations) > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("the figure is not a tpmC of the standard: the workload has %s",
			strings.Join(t.Deviations, ", and ")))
	}
	// With shorter think times or another mix, the maximum per warehouse does not apply.
	if t.KeyingAndThinkTimePercent == 100 && len(t.Deviations) == 0 {
		t.EfficiencyPPM = ratio(measured, t.Warehouses*maxTpmCPerWarehouse, orders, 60e6, 1000, 1e6)
	}
	if t.Terminals > terminalsPerWarehouse*t.Warehouses {
		d.Notes = append(d.Notes, fmt.Sprintf("%d terminals on %d warehouses break clause 4.2.2 of TPC-C, which has %d a warehouse: the figure is not a tpmC of the standard; "+
			"let spec.load.clientsPerRegion be at most %d, or workload.tpcc.warehousesPerPartition larger", t.Terminals, t.Warehouses, terminalsPerWarehouse,
			max(1, terminalsPerWarehouse*t.Warehouses/int64(len(in.Topology.Regions)))))
	}
}

// TpmCInWords returns the tpmC in words, with the rules by which it was measured; empty for a workload without tpmC.
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
	case len(t.Deviations) > 0:
		text += ", with another workload than the standard's"
	default:
		text += fmt.Sprintf(", %s of 12.86 a warehouse (%d warehouses)", formatPPM(t.EfficiencyPPM), t.Warehouses)
	}
	return text
}

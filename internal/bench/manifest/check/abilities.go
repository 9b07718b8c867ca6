package check

import (
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/fault"
	targets "github.com/geobench/geobench/internal/bench/target/catalog"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// EngineCatalog is the engines that can be deployed.
type EngineCatalog interface {
	// Names of all engines, sorted.
	Names() []string
	// Lookup an engine by name.
	Lookup(name string) (*protocol.Engine, bool)
}

// Abilities describe the capabilities of the environment that runs the manifests.
type Abilities struct {
	// Engines that can be deployed.
	Engines EngineCatalog
	// Targets are the databases of others that can be reached by spec.external; nil for none.
	Targets EngineCatalog
	// Pods: databases that are programs of any image can be deployed. Clients lists the supported clients of such
	// databases, by spec.pods.client.
	Pods    bool
	Clients EngineCatalog
	// Emulations that work, Auto included.
	Emulations []v1alpha1.Emulation
	// Verifications that work.
	Verifications []v1alpha1.Verification
	// Faults that can be injected, as the fields of a fault are called.
	Faults []string
	// Timeline is the most that a run may measure, all repetitions together; 0 is without limit.
	Timeline time.Duration
	// Machine is the machine that runs all nodes; the zero value if nodes have separate machines or containers.
	Machine Machine
	// History limits recorded and checked histories.
	History HistoryLimits
	// RealTime: links without emulation are real, so that no fault can change the links of a database with emulation None.
	RealTime bool
	// Place is the name of the environment for messages: geobench run, for example. Empty means any environment.
	Place string
}

// Default returns the abilities of a cluster: the given engines (nil: all of package engines), programs of any image,
// every kind of network emulation, and every verification.
func Default(engines EngineCatalog) Abilities {
	if engines == nil {
		engines = builtEngines{}
	}
	return Abilities{
		Engines:    engines,
		Pods:       true,
		Clients:    targets.Targets{},
		Targets:    targets.Elsewhere{},
		Emulations: []v1alpha1.Emulation{v1alpha1.EmulationAuto, v1alpha1.EmulationChaosMesh, v1alpha1.EmulationSidecar, v1alpha1.EmulationBuiltIn, v1alpha1.EmulationNone},
		Verifications: []v1alpha1.Verification{
			v1alpha1.VerifyInvariants, v1alpha1.VerifyIsolation, v1alpha1.VerifyReadCommitted, v1alpha1.VerifySnapshotIsolation, v1alpha1.VerifySessionSnapshotIsolation,
			v1alpha1.VerifyStrongSnapshotIsolation, v1alpha1.VerifySerializable, v1alpha1.VerifySessionSerializable,
			v1alpha1.VerifyStrictSerializable, v1alpha1.VerifyConvergence,
		},
		Faults:   fault.ClusterKinds,
		Timeline: 6 * time.Hour, // longer timelines would be reported in minutes: see result.Resolution
		History:  HistoryLimits{FileBytes: deploy.MaxHistory},
		Place:    "the operator",
	}
}

// local returns the abilities of Default without containers. Every emulation except None is the emulation of the links
// by the simulator or the process.
func local(engines EngineCatalog, place string, faults []string) Abilities {
	a := Default(engines)
	a.Pods, a.Clients, a.Targets = false, nil, nil
	a.Faults, a.Timeline, a.History, a.Place = faults, 0, HistoryLimits{}, place
	return a
}

// Simulator is what geobench simulate can do: every fault, too.
func Simulator(engines EngineCatalog) Abilities {
	return local(engines, "geobench simulate", fault.SimulatorKinds)
}

// Process is what geobench run can do.
func Process(engines EngineCatalog) Abilities {
	a := local(engines, "geobench run", fault.BuiltInKinds)
	a.RealTime, a.Targets = true, targets.Elsewhere{}
	return a
}

// Isolation is what geobench isolation can do: it plays engines in the simulator, and databases that run already.
func Isolation(engines EngineCatalog) Abilities {
	a := local(engines, "geobench isolation", fault.SimulatorKinds)
	a.Targets = targets.Elsewhere{}
	return a
}

// Target returns the abilities for a running database that is not geobench's: it is loaded, measured and verified, and
// no fault is injected into it.
func Target() Abilities {
	return local(nil, "a target, whose nodes are not geobench's", nil)
}

type builtEngines struct{}

func (builtEngines) Names() []string { return engines.Names() }

func (builtEngines) Lookup(name string) (*protocol.Engine, bool) { return engines.Lookup(name) }

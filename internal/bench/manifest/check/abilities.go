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

// EngineCatalog is a set of engines.
type EngineCatalog interface {
	// Names returns the names of all engines, sorted.
	Names() []string
	// Lookup returns the engine with this name.
	Lookup(name string) (*protocol.Engine, bool)
}

// Abilities describes the capabilities of the environment that runs the manifests.
type Abilities struct {
	// Engines are the engines that can be deployed.
	Engines EngineCatalog
	// Targets are the third-party databases that spec.external can name. It is nil if there are none.
	Targets EngineCatalog
	// Pods is set if databases that run programs in arbitrary images can be deployed. Clients are the kinds of such
	// databases for which a client is supported (spec.pods.client).
	Pods    bool
	Clients EngineCatalog
	// Emulations are the supported emulations, including Auto.
	Emulations []v1alpha1.Emulation
	// Verifications are the supported verifications.
	Verifications []v1alpha1.Verification
	// Faults are the kinds of faults that can be injected, named like the fields of a fault.
	Faults []string
	// Timeline is the maximum measured time of a run over all repetitions; 0 means no limit.
	Timeline time.Duration
	// Machine is the machine that runs all nodes. It is the zero value if nodes have separate machines or containers.
	Machine Machine
	// History limits the recorded and checked histories.
	History HistoryLimits
	// RealTime is set if links without emulation are real. Faults then cannot change the links of a database with
	// emulation None.
	RealTime bool
	// Place is the name of the environment in messages, for example geobench run. Empty means any environment.
	Place string
}

// Default returns the abilities of a cluster with the given engines: programs in arbitrary images, every emulation, and
// every verification. If engines is nil, the cluster has the engines of package engines.
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
		Timeline: 6 * time.Hour, // longer timelines would have a resolution of minutes: see result.Resolution
		History:  HistoryLimits{FileBytes: deploy.MaxHistory},
		Place:    "the operator",
	}
}

// local returns the abilities of Default without containers. With any emulation other than None, the simulator or the
// process itself emulates the links.
func local(engines EngineCatalog, place string, faults []string) Abilities {
	a := Default(engines)
	a.Pods, a.Clients, a.Targets = false, nil, nil
	a.Faults, a.Timeline, a.History, a.Place = faults, 0, HistoryLimits{}, place
	return a
}

// Simulator returns the abilities of geobench simulate, which supports every fault.
func Simulator(engines EngineCatalog) Abilities {
	return local(engines, "geobench simulate", fault.SimulatorKinds)
}

// Process returns the abilities of geobench run.
func Process(engines EngineCatalog) Abilities {
	a := local(engines, "geobench run", fault.BuiltInKinds)
	a.RealTime, a.Targets = true, targets.Elsewhere{}
	return a
}

// Isolation returns the abilities of geobench isolation, which runs scripts on engines in the simulator and on
// databases that already run.
func Isolation(engines EngineCatalog) Abilities {
	a := local(engines, "geobench isolation", fault.SimulatorKinds)
	a.Targets = targets.Elsewhere{}
	return a
}

// Target returns the abilities for a running database that is not one of Geobench's engines. Such a database is loaded,
// measured and verified, but no faults are injected.
func Target() Abilities {
	return local(nil, "a target, whose nodes are not geobench's", nil)
}

type builtEngines struct{}

func (builtEngines) Names() []string { return engines.Names() }

func (builtEngines) Lookup(name string) (*protocol.Engine, bool) { return engines.Lookup(name) }

package attach

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/anomalies"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/catalog"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// Levels returns the isolation levels to test on a GeoDatabase with spec.external, as values of the engine's parameter
// for the level. The GeoDatabase must have been checked. If it sets the parameter, picked is true and levels contains
// only its value. Otherwise levels contains all values.
func Levels(db *v1alpha1.GeoDatabase) (parameter string, picked bool, levels []string) {
	engine, _ := catalog.Targets{}.Lookup(db.Spec.Engine.Name)
	parameter = catalog.NamesOf(engine.Name).Levels
	if level, ok := db.Spec.Engine.Parameters[parameter]; ok {
		return parameter, true, []string{level}
	}
	return parameter, false, AllLevels(engine.Name)
}

// AllLevels returns all isolation levels of an engine, as values of the engine's parameter for the level.
func AllLevels(engine string) []string {
	e, _ := catalog.Targets{}.Lookup(engine)
	i := slices.IndexFunc(e.Parameters, func(p protocol.Parameter) bool { return p.Name == catalog.NamesOf(engine).Levels })
	return slices.Clone(e.Parameters[i].OneOf)
}

// PlayIsolation plays each case of package anomalies plays times on a GeoDatabase with spec.external, which must have
// been checked. level is one of the levels that Levels returns, and picked is set if the manifest sets it. secrets is
// as for Play.
//
// If the manifest does not set the level, and the database in its current configuration cannot provide the level, the
// result states the reason. The rows of the cases replace the rows of runs, and are dropped at the end.
func PlayIsolation(ctx context.Context, db *v1alpha1.GeoDatabase, secrets, level string, picked bool, plays int) (r *anomalies.Result, err error) {
	engine, ok := catalog.Targets{}.Lookup(db.Spec.Engine.Name)
	if !ok {
		return nil, fmt.Errorf("spec.engine.name: %q is not one of %v", db.Spec.Engine.Name, catalog.Targets{}.Names())
	}
	names := catalog.NamesOf(engine.Name)
	given := maps.Clone(db.Spec.Engine.Parameters)
	if given == nil {
		given = map[string]string{}
	}
	// Set the number of connections that the cases need, and drop the rows at the end even if the manifest keeps them.
	given[names.Levels], given[names.Drop], given[sqltarget.ConnectionsParameter] = level, "true", strconv.Itoa(anomalies.LiveConnections)
	if names.Writes != "" {
		// The cases need single statements, because a play continues once its statement is answered or waits for another
		// transaction.
		given[names.Writes] = names.Waits
	}
	if names.Form != "" {
		given[names.Form] = sqltarget.FormProcedures // the cases need rows, regardless of the workload's form
	}
	params, errs := engine.Resolve(given)
	if len(errs) > 0 {
		return nil, fmt.Errorf("spec.engine.parameters.%w", errs[0])
	}
	t := &geo.Topology{Regions: db.Spec.RegionNames(), Partitions: 1, Replicas: 1}
	r = &anomalies.Result{
		Database: db.Name, Engine: engine.Name, Parameters: map[string]string{names.Levels: level}, Level: engine.Promises(params).String(), Plays: plays,
		Network: anomalies.Network{Regions: t.Regions},
	}
	for _, p := range engine.Parameters {
		// The result omits parameters that were set above or that do not affect isolation.
		own := []string{names.Drop, names.Place, sqltarget.ConnectionsParameter, sqltarget.TLSParameter}
		if v := params[p.Name]; v != p.Default && !slices.Contains(own, p.Name) {
			r.Parameters[p.Name] = v
		}
	}
	c := deploy.ClientOf(db, t)
	s := server(c)
	if err := readSecret(&s, engine.Name, secrets, c.Secret); err != nil {
		return nil, problems(db.Name, err)
	}
	opened, err := catalog.Targets{}.Open(ctx, engine.Name, t, s, params, sqltarget.Session())
	var field *target.FieldError
	switch {
	case !picked && errors.As(err, &field) && field.Field == sqltarget.ParameterField(names.Levels):
		r.Refused = strings.TrimPrefix(field.Error(), field.Field+": ")
		return r, nil
	case err != nil:
		return nil, problems(db.Name, err)
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	described := opened.Describe()
	described.Promises = r.Level
	r.Target = &described
	l := &anomalies.Live{Topology: t, Promises: engine.Promises(params), Steps: opened, Clients: func(region geo.Region) *target.Statements {
		return opened.Clients(region).(*target.Statements)
	}}
	defer l.Close()
	if r.Cases, err = l.PlayAll(ctx, plays); err != nil {
		return nil, problems(db.Name, fmt.Errorf("GeoDatabase %s, %s %s: %w", db.Name, names.Levels, level, err))
	}
	return r, nil
}

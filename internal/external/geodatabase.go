package external

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/local"
	"github.com/geobench/geobench/internal/manifest/check"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/result"
	"github.com/geobench/geobench/internal/target"
	"github.com/geobench/geobench/internal/target/catalog"
	"github.com/geobench/geobench/internal/target/sqltarget"
)

// Plan plans a run on a GeoDatabase with spec.external. Both have been checked.
func Plan(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase) (*plan.Plan, error) {
	engine, ok := catalog.Targets{}.Lookup(db.Spec.Engine.Name)
	if !ok {
		return nil, fmt.Errorf("spec.engine.name: %q is not one of %v", db.Spec.Engine.Name, catalog.Targets{}.Names())
	}
	return local.PlanExternal(run, db, engine)
}

// Play runs a plan of Plan on its database. secrets is the folder of the Secrets' files, or empty. What cannot be known before the
// database is asked, and is a mistake in the GeoDatabase, is check.Problems. Cancelled as local.Run.
func Play(ctx context.Context, p *plan.Plan, secrets string, report local.Report) (d *result.Document, err error) {
	report(local.Progress{Stage: "connecting to " + p.Engine.Name})
	db, err := open(ctx, p, secrets)
	if err != nil {
		return nil, problems(p.Database.Name, err)
	}
	defer func() {
		// Of a database that died meanwhile the document tells already.
		if wrong := db.Close(); wrong != nil && (d == nil || d.Verdict != v1alpha1.VerdictInvalid) {
			err = errors.Join(err, wrong)
		}
	}()
	return local.On(ctx, p, db, report)
}

// open opens a database that catalog has.
func open(ctx context.Context, p *plan.Plan, secrets string) (sqltarget.Database, error) {
	x := p.Database.Spec.External
	s := sqltarget.Server{Database: x.Database}
	if err := readSecret(&s, p.Engine.Name, secrets, x.SecretRef); err != nil {
		return nil, err
	}
	for _, region := range p.Topology.Regions {
		for _, e := range x.Endpoints {
			if e.Region == region {
				s.Endpoints = append(s.Endpoints, sqltarget.Endpoint{Region: region, Address: e.Address})
			}
		}
	}
	return catalog.Targets{}.Open(ctx, p.Engine.Name, &p.Topology, s, p.Params)
}

// problems names the GeoDatabase that has a field wrong.
func problems(database string, err error) error {
	var field *target.FieldError
	if !errors.As(err, &field) {
		return err
	}
	return check.Problems{{Object: "GeoDatabase " + database, Field: field.Field, Value: field.Value, Message: field.Message}}
}

// readSecret reads the keys of a Secret from files, as Kubernetes mounts them: FOLDER/NAME/username, password and ca.crt. Without a folder,
// user and password are those of the environment.
func readSecret(s *sqltarget.Server, engine, folder string, ref *v1alpha1.LocalReference) error {
	const field = "spec.external.secretRef.name"
	user, password := catalog.Targets{}.Environment(engine)
	switch {
	case ref == nil:
		return nil
	case folder == "" && os.Getenv(user) != "":
		return nil
	case folder == "":
		return &target.FieldError{Field: field, Value: ref.Name, Message: fmt.Sprintf("there are no Secrets here: put username and password into files %s/username and %s/password of a folder "+
			"and name it with --secrets, or set %s and %s", ref.Name, ref.Name, user, password)}
	}
	for _, key := range []struct {
		name string
		to   *string
	}{{"username", &s.User}, {"password", &s.Password}} {
		text, err := os.ReadFile(filepath.Join(folder, ref.Name, key.name))
		if err != nil {
			return &target.FieldError{Field: field, Value: ref.Name, Message: fmt.Sprintf("the key %s cannot be read: %v; --secrets names a folder with a folder %s, whose files are the Secret's keys username, password and, if need be, ca.crt",
				key.name, err, ref.Name)}
		}
		*key.to = strings.TrimRight(string(text), "\r\n")
	}
	if ca := filepath.Join(folder, ref.Name, "ca.crt"); fileExists(ca) {
		s.CAFile = ca
	}
	return nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

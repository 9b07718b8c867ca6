package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/catalog"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// Plan plans a run on a GeoDatabase with spec.external. The caller must have checked both manifests.
func Plan(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase) (*plan.Plan, error) {
	engine, ok := catalog.Targets{}.Lookup(db.Spec.Engine.Name)
	if !ok {
		return nil, fmt.Errorf("spec.engine.name: %q is not one of %v", db.Spec.Engine.Name, catalog.Targets{}.Names())
	}
	return inprocess.PlanExternal(run, db, engine)
}

// Play runs a plan from Plan on its database. secrets is the folder with the files of Secrets; empty if there is none.
// Play returns errors in the GeoDatabase that only the server can detect as check.Problems. It handles cancellation
// like inprocess.Run.
func Play(ctx context.Context, p *plan.Plan, secrets string, report inprocess.Report) (d *result.Document, err error) {
	report(inprocess.Progress{Stage: "connecting to " + p.Engine.Name})
	c := deploy.ClientOf(p.Database, &p.Topology)
	s := server(c)
	if err := readSecret(&s, p.Engine.Name, secrets, c.Secret); err != nil {
		return nil, problems(p.Database.Name, err)
	}
	db, err := catalog.Targets{}.Open(ctx, p.Engine.Name, &p.Topology, s, p.Params, sqltarget.Session())
	if err != nil {
		return nil, problems(p.Database.Name, err)
	}
	defer func() {
		// If the database failed during the run, the document already reports this, so ignore an error from closing the
		// database.
		if wrong := db.Close(); wrong != nil && (d == nil || d.Verdict != v1alpha1.VerdictInvalid) {
			err = errors.Join(err, wrong)
		}
	}()
	d, err = inprocess.On(ctx, p, db, report)
	return d, workloadProblem(p, err)
}

// workloadProblem converts an error about an unsupported workload into a problem of the run. It returns other errors
// unchanged.
func workloadProblem(p *plan.Plan, err error) error {
	var field *target.FieldError
	if !errors.As(err, &field) || !strings.HasPrefix(field.Field, "spec.workload") {
		return err
	}
	return check.Problems{{Object: "BenchmarkRun " + p.Run.Name, Field: field.Field, Value: field.Value, Message: field.Message}}
}

// Open opens the database that d.Client describes, for loading and auditing the data of a run. session is the name of
// the run's database sessions. folder contains the keys of the database's Secret as files. If the GeoDatabase has an
// error, Open returns it as a *target.FieldError.
func Open(ctx context.Context, d *deploy.Database, folder, session string) (sqltarget.Database, error) {
	s, params, err := settings(ctx, d, folder)
	if err != nil {
		return nil, err
	}
	db, err := catalog.Targets{}.Open(ctx, d.Engine, &d.Topology, s, params, session)
	if err != nil {
		return nil, fieldsOf(d.Client, err)
	}
	return db, nil
}

// Join connects clients of a region to a database that another process has opened with Open for the same run. It also
// returns the round-trip time to the database. Several workers share the region's connections; index is the number of
// this worker, counted from 0.
func Join(ctx context.Context, d *deploy.Database, folder, session string, region geo.Region, index, workers int) (target.Target, time.Duration, error) {
	s, params, err := settings(ctx, d, folder)
	if err != nil {
		return nil, 0, err
	}
	all := catalog.Connections(params)
	// The difference of the rounded products distributes all connections, even if their number is not a multiple of
	// workers.
	clients, took, err := catalog.Targets{}.Join(ctx, d.Engine, &d.Topology, s, params, session, region, (index+1)*all/workers-index*all/workers)
	return clients, took, fieldsOf(d.Client, err)
}

func settings(ctx context.Context, d *deploy.Database, folder string) (s sqltarget.Server, params protocol.Params, err error) {
	engine, ok := catalog.Targets{}.Lookup(d.Engine)
	if !ok {
		return s, nil, fmt.Errorf("engine: %q is not one of %v", d.Engine, catalog.Targets{}.Names())
	}
	params, errs := engine.Resolve(d.Parameters)
	if len(errs) > 0 {
		return s, nil, fmt.Errorf("parameters.%w", errs[0])
	}
	s = server(d.Client)
	if d.Elsewhere() {
		if err := leadAway(ctx, &s); err != nil {
			return s, nil, err
		}
	}
	return s, params, fieldsOf(d.Client, readMounted(&s, folder, d.Client.Secret))
}

// leadAway returns an error for an endpoint whose name resolves to the local machine. Only this machine can detect
// that. leadAway ignores names that do not resolve, because the connection will then fail.
func leadAway(ctx context.Context, s *sqltarget.Server) error {
	for _, e := range s.Endpoints {
		host, _, err := net.SplitHostPort(e.Address)
		if err != nil {
			continue
		}
		found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if slices.ContainsFunc(found, check.OwnAddress) {
			return sqltarget.Wrong(s.Field(e), e.Address, "%s", check.OwnMessage(host))
		}
	}
	return nil
}

// fieldsOf replaces the field in an error about an external database with the corresponding field of a deployed
// database.
func fieldsOf(c *deploy.Client, err error) error {
	var wrong *target.FieldError
	if !c.Deployed || !errors.As(err, &wrong) {
		return err
	}
	field, at := wrong.Field, cmp.Or(c.Field, "spec.pods.client")
	switch {
	case strings.HasPrefix(field, "spec.external.endpoints"):
		field = at + ".region"
	case strings.HasPrefix(field, "spec.external."):
		field = at + "." + strings.TrimPrefix(field, "spec.external.")
	}
	return &target.FieldError{Field: field, Value: wrong.Value, Message: wrong.Message}
}

// server returns a Server with the database name and the endpoints of c.
func server(c *deploy.Client) sqltarget.Server {
	s := sqltarget.Server{Database: c.Database}
	for _, e := range c.Endpoints {
		s.Endpoints = append(s.Endpoints, sqltarget.Endpoint{Region: e.Region, Address: e.Address})
	}
	return s
}

// problems converts a *target.FieldError into a problem of the GeoDatabase. It returns other errors unchanged.
func problems(database string, err error) error {
	var field *target.FieldError
	if !errors.As(err, &field) {
		return err
	}
	return check.Problems{{Object: "GeoDatabase " + database, Field: field.Field, Value: field.Value, Message: field.Message}}
}

const secretField = sqltarget.SecretField + ".name"

// readSecret reads the keys of a Secret from files, in the layout in which Kubernetes mounts them:
// FOLDER/NAME/username, password and ca.crt. If there is no folder, it takes the user and the password from the
// environment.
func readSecret(s *sqltarget.Server, engine, folder, name string) error {
	user, password := catalog.Targets{}.Environment(engine)
	switch {
	case name == "":
		return nil
	case folder == "" && os.Getenv(user) != "":
		return nil
	case folder == "":
		return &target.FieldError{Field: secretField, Value: name, Message: fmt.Sprintf("there are no Secrets here: put username and password into files %s/username and %s/password of a folder "+
			"and name it with --secrets, or set %s and %s", name, name, user, password)}
	}
	return readKeys(s, filepath.Join(folder, name), func(key string, err error) error {
		return &target.FieldError{Field: secretField, Value: name, Message: fmt.Sprintf("the key %s cannot be read: %v; --secrets names a folder with a folder %s, whose files are the Secret's keys username, password and, if need be, ca.crt",
			key, err, name)}
	})
}

// readMounted reads the keys of a Secret that is mounted at folder. A key that was added after the pod started is
// missing there.
func readMounted(s *sqltarget.Server, folder, name string) error {
	if name == "" {
		return &target.FieldError{Field: sqltarget.SecretField, Message: "no Secret is named: name one with the keys username and password, in the namespace of the GeoDatabase"}
	}
	return readKeys(s, folder, func(key string, _ error) error {
		return &target.FieldError{Field: secretField, Value: name, Message: fmt.Sprintf("there is no such Secret, or it has no key %s: make it, for example with "+
			"kubectl create secret generic %s --from-literal=username=... --from-literal=password=..., and run again", key, name)}
	})
}

// readKeys reads the keys of a Secret from the files in a folder. missing returns the error for a key without a file.
// ca.crt is optional. If the key username is missing, readKeys uses the key user, which the PostgreSQL operators of
// Crunchy and Percona write.
func readKeys(s *sqltarget.Server, folder string, missing func(key string, err error) error) error {
	for _, key := range []struct {
		name, alias string
		to          *string
	}{{"username", "user", &s.User}, {"password", "", &s.Password}} {
		text, err := os.ReadFile(filepath.Join(folder, key.name))
		if err != nil && key.alias != "" {
			if other, e := os.ReadFile(filepath.Join(folder, key.alias)); e == nil {
				text, err = other, nil
			}
		}
		if err != nil {
			return missing(key.name, err)
		}
		// Remove trailing newlines: editors and echo append them, and they are not part of the key.
		*key.to = strings.TrimRight(string(text), "\r\n")
	}
	if ca := filepath.Join(folder, "ca.crt"); fileExists(ca) {
		s.CAFile = ca
	}
	return nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

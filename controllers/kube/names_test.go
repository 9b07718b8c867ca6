package kube

import (
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/geobench/geobench/api/v1alpha1"
)

func TestNames(t *testing.T) {
	db := func(name string) *v1alpha1.GeoDatabase {
		return &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	run := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("r", 32), UID: "uid"}}
	long := strings.Repeat("x", 24)
	for _, name := range []string{
		RegionName(db("d"), "us-west-2"), RegionName(db(strings.Repeat("d", 27)), long), RegionName(db("9.lives"), "eu"),
		WorkerName(run, long), ReportName(run, long, 63), PodName(db(strings.Repeat("d", 27)), long, 575),
	} {
		if errs := validation.IsDNS1035Label(name); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
	if got := RegionName(db("d"), "us-west-2"); got != "d-us-west-2" {
		t.Errorf("a short name became %s", got)
	}
	again := run.DeepCopy()
	again.Status.RunID = "2"
	if WorkerName(run, "a") == WorkerName(again, "a") {
		t.Error("two attempts share a Job")
	}
	again = run.DeepCopy()
	if run.Status.Execution, again.Status.Execution = NewExecution(), NewExecution(); WorkerName(run, "a") == WorkerName(again, "a") {
		t.Error("two executions of one runID share a Job")
	}
}

func TestTruncate(t *testing.T) {
	if got := Truncate(strings.Repeat("µ", 100), 50); len(got) > 50 || !regexp.MustCompile(`^µ+\.\.\.$`).MatchString(got) {
		t.Errorf("got %q", got)
	}
}

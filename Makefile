# `make help` lists what there is to make. Two commands do all the set-up: `make demo` and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE   ?= $(if $(GEOBENCH_CACHE),$(GEOBENCH_CACHE),$(HOME)/.cache/geobench)
IMAGE   ?= localhost/geobench:dev
CLUSTER ?= local
CLUSTERCMD := go run -C hack/cluster .
TOOL       := go run -C hack/tools .
# As many digits of the commit in every clone, whatever else it holds.
VERSION := $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo devel)
LDFLAGS := -s -w -X github.com/geobench/geobench/internal/base/version.Version=$(VERSION)

# EVERYDAY are the targets that make help prints first.
EVERYDAY := demo build test lint generate e2e
.PHONY: help
help: ## Show this list; ALL=1 shows the options of each target as well
	@awk -v everyday="$(EVERYDAY)" -v all="$(ALL)" -F ':.*## ' ' \
		function line(name) { what = text[name]; if (!all) sub(/( \(|: |; ).*/, "", what); printf "  %-18s %s\n", name, what } \
		/^##@/ { groups[++n] = substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { text[$$1] = $$2; if (n) of[n] = of[n] " " $$1 } \
		END { print "Every day"; k = split(everyday, first, " "); for (i = 1; i <= k; i++) { line(first[i]); printed[first[i]] = 1 } \
			for (g = 1; g <= n; g++) { print groups[g]; k = split(of[g], names, " "); for (i = 1; i <= k; i++) if (!(names[i] in printed)) line(names[i]) } }' $(MAKEFILE_LIST)

##@ Use it
.PHONY: demo
demo: ## Run the quickstart on a real Kubernetes (CLUSTER=current: your context; else a local node) and print the result
	@PROMETHEUS="$(PROMETHEUS)" hack/demo.sh "$(CLUSTER)" "$(IMAGE)"

.PHONY: build
build: bin/geobench ## Build bin/geobench

.PHONY: bin/geobench
bin/geobench:
	@CGO_ENABLED=0 go build -tags full -trimpath -buildvcs=auto -ldflags "$(LDFLAGS)" -o $@ ./cmd/geobench

PREFIX ?= /usr/local
.PHONY: install
install: bin/geobench ## Install geobench, the kubectl plugin, manual pages and completion below PREFIX (/usr/local; DESTDIR for packages)
	hack/install.sh "$(DESTDIR)$(PREFIX)"

##@ Test it
# Tests have small heaps: collected once they are five times what is live, the explorer takes a sixth less CPU.
GENEROUS := GOGC=400
.PHONY: test
test: ## Run all tests except the chart's (make lint) and the end-to-end tests (make e2e)
	KUBEBUILDER_ASSETS="$$($(CLUSTERCMD) build envtest | tail -1)" $(GENEROUS) hack/test.sh -tags full -parallel 4 -timeout 20m ./...
	cd hack/cluster && go test ./...
	cd hack/chaosmesh && go test ./...

.PHONY: race
race: ## Run the tests of concurrent packages with the race detector
	KUBEBUILDER_ASSETS="$$($(CLUSTERCMD) build envtest | tail -1)" go test -race -timeout 30m ./internal/net/wire/... ./internal/run/node/... ./internal/bench/target/... ./internal/bench/load/... ./internal/run/inprocess/... ./internal/ops/workersync/... ./internal/run/explore/... ./controllers/...

##@ Explore scenarios and mutants
.PHONY: soak
soak: ## Explore scenarios of each engine in the simulator: SEEDS (default 10000) seeds, faults, checked histories (HOSTILE=1: extreme latencies, losses and clocks; SLOW=1: slow clients, long cuts; BUGGIFY=1: rare events on purpose; DISK=1: disk faults; REPLACE=1: lost nodes are replaced; RUNS=1: timelines, workloads and loads of runs; WIDE=1: whole ranges of parameters, retries, small thresholds, second runs; CHECKPOINTS=1: nodes write checkpoints and restart from them; CORE=1: what remains when regions are lost; INVARIANTS=1: invariants are checked after every step; SHARD=I/N: every N-th seed; STATE=FILE: continue from there)
	go run ./cmd/geobench explore --shrink --seeds "$(or $(SEEDS),10000)" $(if $(ENGINE),--engine "$(ENGINE)") $(if $(HOSTILE),--hostile) $(if $(SLOW),--slow) $(if $(BUGGIFY),--buggify) $(if $(DISK),--disk) $(if $(REPLACE),--replace) $(if $(RUNS),--runs) $(if $(CHECKPOINTS),--checkpoints) $(if $(WIDE),--wide) $(if $(CORE),--core) $(if $(INVARIANTS),--invariants) $(if $(SHARD),--shard "$(SHARD)") $(if $(STATE),--state "$(STATE)")

.PHONY: seeds
seeds: ## Explore 12 kinds of scenarios and record them in docs/seeds.md with the commit: SEEDS (default 1000) of each (ENGINE=coco,... KIND=hostile,... FOR=30m; a minute for 10 seeds of all)
	code=0; go run ./hack/seeds play -seeds "$(or $(SEEDS),1000)" -engine "$(ENGINE)" -kind "$(KIND)" -for "$(or $(FOR),0)" || code=$$?; \
	seeds=$$(go run ./hack/seeds table) && echo "$$seeds" > docs/seeds.md && exit $$code

.PHONY: coverage
coverage: ## Which statements of the protocols do scenarios alone execute? A table of packages, and what is never reached (SEEDS=200 of each of 12 kinds; ENGINE=janus,...)
	hack/coverage.sh "$(or $(SEEDS),200)" "$(ENGINE)"

.PHONY: soak-suites
soak-suites: ## Play the suites of the protocols with every seed on every topology, and for three times as long
	GEOBENCH_SUITES=thorough $(GENEROUS) go test -count 1 -timeout 60m ./internal/engine/...

.PHONY: mutants
mutants: ## Break the code in 918 places, one at a time, and hunt each mutant with tests and the explorer (AREA=janus; ONLY=expression; SHARD=I/N; goes on where it was stopped; about 80 minutes of one core)
	go run ./hack/mutants $(if $(AREA),-area "$(AREA)") $(if $(ONLY),-only "$(ONLY)") $(if $(SHARD),-shard "$(SHARD)") $(if $(STATE),-state "$(STATE)")

##@ Run for long
.PHONY: soak-databases
soak-databases: ## Inject failures, and timelines of the explorer, into PostgreSQL, MariaDB, Galera and etcd during runs: RUNS (default 100) in a row each; verdicts, answers, connections (70 min)
	GEOBENCH_FAILURES="$(or $(RUNS),100)" KUBEBUILDER_ASSETS="$$($(CLUSTERCMD) build envtest | tail -1)" go test -count 1 -timeout 120m -v -run 'FailsInTheMiddleOfARun|TimelinesOnRealDatabases' ./internal/run/attach

.PHONY: kill-nodes
kill-nodes: ## Kill nodes in real time of all engines that replace them: RUNS (default 20) in a row, and no data is lost (7 min)
	GEOBENCH_KILLS="$(or $(RUNS),20)" go test -count 1 -timeout 20m -v -run 'TestRunReplacements|TestWriterIsReplaced' ./internal/run/inprocess

.PHONY: journal-hour
journal-hour: ## A node with a journal takes 10,000 SmallBank transactions per second for an hour of virtual time: its files, how often the journal is cut short, how long it stands still (ENGINE, default slog; 15 min)
	GEOBENCH_HOUR="$(or $(ENGINE),slog)" go test -count 1 -timeout 60m -v -run 'TestJournalsStayShort' ./internal/run/node

.PHONY: crowd
crowd: ## Measure twenty runs at once; a thousand wait for one database beside two hundred that hang: lateness of faults, requests to the API server (7 min)
	GEOBENCH_CROWD=1 KUBEBUILDER_ASSETS="$$($(CLUSTERCMD) build envtest | tail -1)" go test -count 1 -timeout 20m -v -run 'TestCrowd|TestTwentyRuns' ./controllers

.PHONY: hostile
hostile: bin/geobench ## Send hostile manifests to the released operator in 512 MiB: memory, requests, twenty runs whose API server restarts (10 min)
	GEOBENCH_OPERATOR="$(CURDIR)/bin/geobench" KUBEBUILDER_ASSETS="$$($(CLUSTERCMD) build envtest | tail -1)" go test -count 1 -timeout 30m -v -run 'TestHostileNamespace|TestHostileExperiments|TestTwentyRunsOfAProcess' ./controllers

##@ Test on a real Kubernetes node
.PHONY: e2e
e2e: ## Run the end-to-end tests on the local node
	hack/e2e.sh "$(IMAGE)"

.PHONY: e2e-network
e2e-network: ## Run PostgreSQL over an emulated network on the local node: delays, loss, rate, partitions that heal (Debian 12; 4 min)
	GEOBENCH_E2E_NETWORK=1 hack/e2e.sh "$(IMAGE)" -run 'TestPostgresOverThreeRegions|TestLossRateAndPartition|TestPartitionCutsAndHeals'

.PHONY: cluster-chaos
cluster-chaos: ## Run the tests of the real Chaos Mesh on the local node (Debian 12, C compiler; 10 min, 7 more the first time)
	hack/chaos.sh "$(IMAGE)"

.PHONY: e2e-databases
e2e-databases: ## Deploy PostgreSQL, Galera and etcd over three regions by name, and PostgreSQL by spec.roles, on the local node and measure them: SmallBank with a cut, TPC-C (Debian 12; 10 min)
	GEOBENCH_E2E_DATABASES=1 hack/e2e.sh "$(IMAGE)" -run 'TestDatabase'

.PHONY: e2e-mesh
e2e-mesh: ## Play a run outside of a mesh and in one on the local node: real Envoys beside nodes and workers, mutual TLS, bytes, a proxy that ends (Debian 12, pip; 6 min)
	GEOBENCH_E2E_MESH=1 hack/e2e.sh "$(IMAGE)" -run 'TestMesh'

.PHONY: test-istiod
test-istiod: ## A real istiod beside a real API server injects into Geobench's pods, signs, and configures an Envoy (root, Debian 12, pip; 2 min, many more the first time)
	hack/istiod.sh

.PHONY: lint-mesh
lint-mesh: ## Istio's own analyzers (istioctl analyze) on the chart and on what the operator makes for databases and runs (a minute; 10 the first time)
	CGO_ENABLED=0 go test -C hack/tools/pins/istio -trimpath -tags disable_pgv -count 1 -v -timeout 30m .

.PHONY: e2e-baseline
e2e-baseline: ## Play experiments/smallbank-cluster on the local node and compare who wins with the simulator (minutes)
	GEOBENCH_E2E_ALL=1 hack/e2e.sh "$(IMAGE)" -run 'TestExperiment$$'

.PHONY: test-oceanbase
test-oceanbase: ## Hold the clients of OceanBase to the contract on seekdb, the vendor's server of the same kernel (Python with pip; installs 54 MB from PyPI; 1 min)
	GEOBENCH_SEEKDB="$$(hack/seekdb.sh | tail -1)" go test -count 1 -run 'OceanBase' ./internal/bench/target/mysql

.PHONY: e2e-loss
e2e-loss: ## Play experiments/smallbank-cluster/packet-loss.yaml on the local node, 1% of packets lost by sidecars, beside the simulator (8 min)
	GEOBENCH_E2E_LOSS=1 hack/e2e.sh "$(IMAGE)" -run 'TestPacketLoss'

.PHONY: e2e-kills
e2e-kills: ## Delete pods of databases of all engines that replace lost nodes, under load, on the local node (18 min); make e2e does so with five
	GEOBENCH_E2E_KILLS=1 hack/e2e.sh "$(IMAGE)" -run 'TestLostNodesAreReplaced'

##@ Fuzz
.PHONY: fuzz
fuzz: ## Run all fuzz targets: FUZZTIME each (default 20s)
	hack/fuzz.sh "$(or $(FUZZTIME),20s)"

##@ Measure
.PHONY: bench-engine
bench-engine: ## Throughput and CPU per transaction of every engine at 0 to 100% multi-home, and of the worker (4 minutes)
	hack/bench-engine.sh

.PHONY: bench-pairs
bench-pairs: ## What a transaction costs the engines in the simulator beside another commit (BASE=COMMIT), in PAIRS (default 10) alternating pairs: CPU time, bytes, allocations (ENGINES; 20 s per engine)
	@hack/bench-pairs.sh "$(BASE)" "$(or $(PAIRS),10)" 20000 $(ENGINES)

.PHONY: bench-postgres
bench-postgres: ## Client CPU per transaction beside pgbench on the same PostgreSQL, in alternating pairs: in the same messages, and beside its own script (Debian's postgresql; 4 min)
	go test -run '^$$' -bench '^BenchmarkClientCPU$$' -benchtime 1x ./internal/bench/target/postgres

.PHONY: bench-forms
bench-forms: ## TPC-C as procedures and as SQL, on one PostgreSQL and one MariaDB: client CPU and throughput side by side (Debian's postgresql and mariadb-server-core; 7 min)
	go test -p 1 -run '^$$' -bench '^BenchmarkForms$$' -benchtime 1x -v ./internal/bench/target/postgres ./internal/bench/target/mysql

.PHONY: bench-go-tpc
bench-go-tpc: ## TPC-C in SQL beside go-tpc on one PostgreSQL: client CPU and tpmC in alternating pairs; TERMINALS=1: with keying and think times, at the same time (Debian's postgresql; 4 min, 10 min)
	GEOBENCH_GO_TPC="$$($(TOOL) install go-tpc | tail -1)" go test -run '^$$' -bench '^BenchmarkGoTPC$(if $(TERMINALS),Terminals,)$$' -benchtime 1x -timeout 30m -v ./internal/bench/target/postgres

.PHONY: bench-wan
bench-wan: ## What the sidecar's delays are off, what TCP carries through it and what it costs, beside a bare network (root; 1.5 min)
	go test -tags full -run '^$$' -bench '^BenchmarkWAN$$' -benchtime 1x ./internal/net/wan

##@ Dashboards and monitoring
.PHONY: check-dashboards
check-dashboards: ## Hold the dashboards to the schema of Grafana's own SDK (Python with venv; installs it from PyPI)
	python3 -m venv $(CACHE)/grafana-sdk
	$(CACHE)/grafana-sdk/bin/pip install -q 'grafana-foundation-sdk==1769699379!11.6.0'
	$(CACHE)/grafana-sdk/bin/python hack/check-dashboards.py dashboards/*.json

.PHONY: bench-metrics
bench-metrics: ## What live metrics that are scraped every second take away from the throughput (2 min)
	go test -run '^$$' -bench '^BenchmarkMetrics$$' -benchtime 1x -v ./internal/run/inprocess

.PHONY: test-dashboards
test-dashboards: bin/geobench ## Evaluate every query of the dashboards and rules on a real Prometheus that scrapes a real run
	hack/test-dashboards.sh

.PHONY: test-monitoring
test-monitoring: ## The chart's monitors and rules with a real Prometheus operator on the local node, and every query on its Prometheus
	hack/test-monitoring.sh "$(IMAGE)"

##@ GitOps and claims
.PHONY: test-gitops
test-gitops: ## A real Flux controller applies gitops/repository beside Geobench's controllers; Argo CD's own code judges objects (7 min, 10 more the first time)
	hack/test-gitops.sh

.PHONY: verify
verify: bin/geobench ## Simulate the paper's six scenarios, judge its claims, draw the plots into out/smallbank (minutes)
	bin/geobench verify experiments/smallbank --out out/smallbank

##@ Keep it right
.PHONY: lint
lint: ## gofmt, commit subjects, language, go vet, staticcheck, API conventions of the CRDs, helm lint
	hack/lint.sh

.PHONY: words
words: ## Lower the budget of language findings (hack/words/budget.txt) to the present numbers, after text was rewritten
	go run ./hack/words lower

.PHONY: changelog
changelog: ## Move the entries of docs/changes into CHANGELOG.md as the section of VERSION
	go run ./hack/changelog release "$(VERSION)"

.PHONY: generate
generate: ## Generate deepcopy functions, encodings of messages, CRDs, RBAC, dashboards, the chart's copies of them, and reference docs
	hack/generate.sh

.PHONY: check-generate
check-generate: generate ## Fail when generated files are not committed
	git diff --exit-code -- api config charts dashboards docs internal || (echo "generated files differ: commit what 'make generate' wrote" >&2; exit 1)

##@ Release it
.PHONY: sbom
sbom: image ## Write what is in the binary and the image (SPDX) and how they were built (SLSA provenance) into out; needs a clean tree
	$(TOOL) sbom $(if $(BUILDER),-builder "$(BUILDER)")

.PHONY: release
release: ## Write the files of VERSION (v0.1.0) into dist: archives for six platforms, image layout, chart, install.yaml, SBOMs, provenance (10 min; clean tree)
	$(TOOL) release -version "$(VERSION)" -o "$(CURDIR)/dist" $(if $(BUILDER),-builder "$(BUILDER)")

.PHONY: reproducible
reproducible: ## Build binary and image of the present commit twice, in other folders, with other caches, clocks and names, and compare digests (minutes)
	hack/reproducible.sh

##@ Local Kubernetes node
.PHONY: cluster-up
cluster-up: ## Start a Kubernetes node on this machine
	$(CLUSTERCMD) up

.PHONY: cluster-down
cluster-down: ## Stop it and leave nothing behind
	$(CLUSTERCMD) down

.PHONY: image
image: bin/geobench ## Make the image archive out/geobench.tar without a container engine
	@mkdir -p out
	$(CLUSTERCMD) image -name $(IMAGE) -binary $(CURDIR)/bin/geobench -o $(CURDIR)/out/geobench.tar

.PHONY: cluster-load
cluster-load: image ## Make the image and load it into the local node
	$(CLUSTERCMD) load $(CURDIR)/out/geobench.tar

.PHONY: screenshots
screenshots: bin/geobench ## Take the pictures of docs/ again: report, terminal, what the dashboards' queries return (Chromium; 3 min)
	hack/screenshots.sh docs

.PHONY: clean
clean: ## Remove what was built here (not the cache)
	rm -rf bin out

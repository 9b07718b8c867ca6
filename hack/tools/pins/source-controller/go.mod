module github.com/geobench/geobench/hack/tools/pins/source-controller

go 1.26.0

// Its custom resource definitions are all that is taken from it: nothing of it is built.
require github.com/fluxcd/source-controller v1.9.5

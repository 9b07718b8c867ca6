module github.com/geobench/geobench/hack/cluster/binaries/coredns

go 1.26.0

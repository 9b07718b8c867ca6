module github.com/geobench/geobench/images/pause

go 1.26.0

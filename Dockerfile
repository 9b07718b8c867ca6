# One image for everything: operator, nodes, workers. It holds one static binary and runs as nobody in particular.
# hack/cluster makes the same image without a container engine: `make image`.
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -tags full -trimpath -ldflags "-s -w -X github.com/geobench/geobench/internal/version.Version=${VERSION}" \
    -o /geobench ./cmd/geobench

FROM scratch
COPY --from=build /geobench /geobench
USER 65532:65532
ENTRYPOINT ["/geobench"]

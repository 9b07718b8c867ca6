# One image for everything: operator, nodes, workers. It holds one static binary and runs as nobody in particular.
# hack/cluster makes the same image without a container engine: `make image`, whose bytes `make reproducible` compares. BuildKit writes an
# image with the same bytes each time when it is told which times to write:
#   docker buildx build --build-arg VERSION=V --build-arg SOURCE_DATE_EPOCH=0 --output type=docker,dest=geobench.tar,rewrite-timestamp=true .
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
# The repository itself stays outside of the build, so VERSION is all that says which commit this is.
RUN CGO_ENABLED=0 go build -tags full -trimpath -buildvcs=false -ldflags "-s -w -X github.com/geobench/geobench/internal/base/version.Version=${VERSION}" \
    -o /geobench ./cmd/geobench

FROM scratch
COPY --from=build /geobench /geobench
USER 65532:65532
ENTRYPOINT ["/geobench"]

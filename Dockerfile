# Two static binaries on an empty base. The two images are named here and nowhere else.
ARG BUILDER=golang:1.26.8
ARG BASE=scratch

FROM ${BUILDER} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
ARG REVISION=unknown
ARG BRANCH=unknown
RUN make build VERSION="${VERSION}" REVISION="${REVISION}" BRANCH="${BRANCH}"

FROM ${BASE}
# For https Pods whose certificates a public authority signed.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/md-exporter /src/md-exporter-apiserver /
USER 65532:65532
EXPOSE 9847 9443
ENTRYPOINT ["/md-exporter"]

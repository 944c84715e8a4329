# The commands of this repository. `make help` lists them.
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
INPUT ?=
SEEDS ?= 1000
MINUTES ?= 5
WORLD ?= protocol
FUZZ_SECONDS ?= 3600
FUZZ_SEED ?= 1
FUZZ_REPLAY ?=
KILLS ?= 210
SEED ?= 1
IMAGE ?= ledgermq:dev
CHAOS_OUT ?= chaos-$(shell date +%Y%m%d-%H%M%S)
VOLUMES ?=
BENCH ?= normal
GROWING ?= full
LONG ?=
PYTHONS ?=
PEERS ?=
# One worker more than cores, because many tests wait for clusters.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PARALLEL = --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder

.PHONY: help demo test test-quick coverage check docs metrics-page dashboards manifests kubernetes-tools dist pythons sim chaos mutants gates fuzz kills bench bench-growing bench-features bench-peers bench-rocketmq format proto lock lock-peers lock-rocketmq rocketmq-clients clean image compose-up compose-demo compose-down

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.server ## three nodes, a real corpus, a killed leader, a verdict (INPUT= file or folder)
	$(BIN)/ledgermq demo $(if $(INPUT),--input "$(INPUT)")

image: $(VENV)/.server ## the container image of a node (BASE_IMAGE= what it stands on; made of Debian packages where none is)
	BIN=$(BIN) scripts/image $(IMAGE)

compose-up: image ## three nodes in containers, by docker-compose.yml; what can be set: .env.example
	BIN=$(BIN) scripts/compose up

compose-demo: image $(VENV)/.chaos ## the demo against these containers: a corpus, a killed leader, a verdict (INPUT=)
	BIN=$(BIN) scripts/compose demo $(if $(INPUT),--input "$(INPUT)")

compose-down: ## remove the containers and their network (VOLUMES=1: the data too)
	BIN=$(BIN) scripts/compose down $(if $(VOLUMES),--volumes)

test: $(VENV)/.test rocketmq-clients ## the whole test suite: in parallel, and what compares speeds alone afterwards (WORKERS=4)
	scripts/programs chromium:chromium || echo "the tests of the console in a browser are skipped"
	$(BIN)/pytest -m "not floor" $(PARALLEL)
	$(BIN)/pytest -m floor

test-quick: $(VENV)/.test ## the tests that need neither sockets nor other processes: about a minute
	$(BIN)/pytest --quick $(PARALLEL)

coverage: $(VENV)/.test rocketmq-clients ## the whole test suite, and which lines and branches it ran: coverage/index.html
	$(BIN)/pytest -m "not floor" $(PARALLEL) --cov --cov-report=term --cov-report=html:coverage

# What must fit the text of the code: planted faults, and the places that the simulator counts.
FITS := tests/mutants/test_mutants.py::test_a_mutant_fits_the_code_and_changes_it \
    tests/gates/test_gates.py::test_a_plant_fits_the_code_and_changes_it \
    tests/chaos/sim/test_sim_reach.py::test_each_place_fits_the_code

check: $(VENV)/.test ## lint, format, types, imports point one way, generated code is fresh, planted faults fit the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy ledgermq store raft ledger cluster chaos bench tests examples deploy docs/site pyspark_ledgermq pyspark_ledgermq_log pytest_ledgermq
	$(BIN)/pytest tests/test_architecture.py $(FITS)

manifests: $(VENV)/.server kubernetes-tools ## render the plain manifests of Kubernetes from the Helm chart (deploy/kubernetes)
	HELM=$(BIN)/helm scripts/kubernetes-manifests

kubernetes-tools: $(VENV)/.server ## helm, kubeconform and the schemas of Kubernetes, for tests of the chart
	scripts/kubernetes-tools $(VENV)

docs: $(VENV)/.docs ## the documents as a site that needs no network: build/site/index.html; a warning is an error
	scripts/site $(VENV) build/site
	@echo "build/site/index.html"

metrics-page: $(VENV)/.server ## write docs/METRICS.md from the code that reports the metrics
	$(BIN)/python -m cluster.node.metrics.document docs/METRICS.md

dashboards: $(VENV)/.server ## write the JSON of the Grafana dashboards (deploy/grafana)
	$(BIN)/python deploy/grafana/generate.py deploy/grafana/dashboards

sim: $(VENV)/.server ## simulate whole clusters and try to break them (SEEDS=100000 WORLD=stack MINUTES=5); again: goes on
	$(BIN)/ledgermq sim --seeds 1..$(SEEDS) --minutes $(MINUTES) --world $(WORLD) --resume sim-$(WORLD).jsonl

console-pictures: $(VENV)/.test ## the pictures of the console in docs/console, from a cluster at work
	scripts/programs chromium:chromium
	$(BIN)/python -m tests.cluster.console.pictures

dist: $(VENV)/.test ## the wheel and the source distribution, in dist/
	rm -rf dist
	$(BIN)/python -m hatchling build --directory dist

pythons: $(VENV)/.test ## test the wheel with each Python from 3.11 on that is installed here (PYTHONS="python3.12 python3.13")
	PYTHONS="$(PYTHONS)" BIN=$(BIN) scripts/pythons

bench: $(VENV)/.chaos ## measure every target on fresh clusters here, and write one page (BENCH=quick|normal|full, LONG=30)
	$(BIN)/python -m bench.run --scale $(BENCH) $(if $(LONG),--long $(LONG))

bench-growing: $(VENV)/.chaos ## connections, queues, shards and log grow: memory, rates and plots (GROWING=quick|full)
	$(BIN)/python -m bench.run_growing --scale $(GROWING)

bench-features: $(VENV)/.server ## delivery times, transactions, shared groups: each figure beside its target (ONLY="shared rate")
	$(BIN)/python -m bench.run_features $(if $(ONLY),--only $(ONLY))

bench-peers: $(VENV)/.server ## NATS, Kafka, RocketMQ, RabbitMQ and etcd beside ours: throughput, one after the other (PEERS="nats kafka")
	$(BIN)/python -m bench.run_peers $(if $(PEERS),--peers $(PEERS))

bench-rocketmq: $(VENV)/.chaos rocketmq-clients ## the same RocketMQ clients against Apache's servers and ours, in turns: ratios, latencies, CPU
	$(BIN)/python -m bench.rocketmq.run

chaos: image $(VENV)/.chaos ## five minutes of killed leaders against three containers; the page is CHAOS_OUT/report.html
	$(BIN)/ledgermq chaos run --env docker --faults kill --targets leader --seconds 300 --rate 1000 --out $(CHAOS_OUT)

mutants: $(VENV)/.server ## the planted faults, and which the simulator catches (ONLY= part of a name)
	$(BIN)/python -m tests.mutants.hunt $(if $(ONLY),--only "$(ONLY)")

gates: $(VENV)/.test ## planted faults of real nodes, and which `chaos run` catches; needs root (ONLY= part of a name, SEED=1)
	scripts/programs iptables:iptables ip:iproute2 strace:strace faketime:faketime mkfs.ext4:e2fsprogs eatmydata:eatmydata
	$(BIN)/python -m tests.gates.open_gates --control --seed $(SEED) $(if $(ONLY),--only "$(ONLY)")

fuzz: $(VENV)/.test ## call every method with hostile values, beside an acknowledged load (FUZZ_SECONDS=3600 FUZZ_SEED=1 FUZZ_REPLAY=file)
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) FUZZ_REPLAY=$(FUZZ_REPLAY) $(BIN)/pytest tests/fuzz -s -x

kills: $(VENV)/.test ## kill -9 at random instants, in each flush and write mode, and judge what is left (KILLS=210)
	$(BIN)/python -m tests.cluster.kill_loop --kills $(KILLS)

format: $(VENV)/.test ## let ruff put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: $(VENV)/.test ## generate the protobuf modules anew
	$(BIN)/python scripts/generate_proto.py

lock: $(VENV)/.test ## pin the newest versions that pyproject.toml allows, with hashes
	$(PIP) install pip-tools
	BIN=$(BIN) scripts/lock

lock-peers: $(VENV)/.test ## the same for the clients of other systems that bench-peers measures
	$(PIP) install pip-tools
	CUSTOM_COMPILE_COMMAND="make lock-peers" $(BIN)/pip-compile --quiet --upgrade --allow-unsafe --no-strip-extras \
	    --generate-hashes --no-annotate --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	    --output-file bench/peers/requirements.txt bench/peers/requirements.in

lock-rocketmq: $(VENV)/.test ## the same for the Python client of RocketMQ that tests run
	$(PIP) install pip-tools
	CUSTOM_COMPILE_COMMAND="make lock-rocketmq" $(BIN)/pip-compile --quiet --upgrade --allow-unsafe --no-strip-extras \
	    --generate-hashes --no-annotate --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	    --output-file tests/rocketmq/clients/python/requirements.txt tests/rocketmq/clients/python/requirements.in

rocketmq-clients: ## build the programs around the official RocketMQ clients, for tests (Python, Node.js, Java, Rust)
	scripts/rocketmq-clients

clean: ## remove the environment and all that tools left here
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment; a stamp says how much is in it. The pins carry hashes, so what is installed is what was tested.
$(VENV)/.server: requirements/server.txt pyproject.toml
	scripts/make-venv $(VENV)
	@echo "installing what a node needs into $(VENV)"
	$(PIP) install --require-hashes -r requirements/server.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.chaos: requirements/chaos.txt $(VENV)/.server
	@echo "installing what chaos runs, containers and measurements need into $(VENV)"
	$(PIP) install --require-hashes -r requirements/chaos.txt
	@touch $@

$(VENV)/.spark: requirements/spark.txt $(VENV)/.server scripts/java
	scripts/java
	@echo "installing Spark into $(VENV): half a gigabyte"
	$(PIP) install --require-hashes -r requirements/spark.txt
	@touch $@

$(VENV)/.docs: requirements/docs.txt $(VENV)/.server
	@echo "installing what the site of the documents needs into $(VENV)"
	$(PIP) install --require-hashes -r requirements/docs.txt
	@touch $@

$(VENV)/.test: requirements/test.txt $(VENV)/.spark
	@echo "installing what the tests need into $(VENV)"
	$(PIP) install --require-hashes -r requirements/test.txt
	@touch $@

# Everything a newcomer needs: `make demo` and `make test` set themselves up.
VENV := .venv
BIN  := $(VENV)/bin

.PHONY: dashboard-check newcomer causal-campaign deadline-campaign overlay-campaign overlay-flood help explore-atoms fuzz-atoms explore-deadlines fuzz-deadlines fuzz-epidemic replay-check durability hostile faults soak setup demo test check bench bench-peers bench-scaling bench-sequencers flame peers-setup fuzz explore audit-campaign kill-campaign pipeline-growth fuzz-filters lock clean browser watch-campaign spark-live-campaign bench-spark package-check
help:            ## this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

setup: $(VENV)/.ready   ## a virtual environment with everything pinned in requirements.lock

$(VENV)/.ready: requirements.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh $(VENV)
	@touch $@

demo: setup      ## the problem and the cure, real processes on a bundled broker, the Spark audit of what they did
	@rm -rf out/demo && mkdir -p out/demo
	@$(BIN)/unisono demo --journal out/demo/journal
	@$(BIN)/unisono pipeline audit --journal out/demo/journal --json > out/demo/audit.json
	@$(BIN)/unisono pipeline run --journal out/demo/journal --lake out/demo/lake --json > out/demo/run.json
	@$(BIN)/unisono pipeline report --lake out/demo/lake --audit out/demo/audit.json --plan out/demo/lake/plan.json --out out/demo/report.html
	@grep -m1 '"verdict"' out/demo/audit.json | tr -d '",' | sed 's/ *verdict: */audit on Spark: /'

test: check browser     ## what CI runs
	@$(BIN)/python -m pytest

dashboard-check: setup browser  ## how fast the dashboard is there, and what 10 updates a second cost
	@$(BIN)/python scripts/dashboard_check.py

newcomer:        ## from a clone to a dashboard that shows a live system, set-up included: within 5 minutes
	@python3 scripts/newcomer.py

browser: setup   ## Debian's Chromium, if there is none: for the tests of the dashboard
	@sh scripts/setup.sh --browser

check: setup     ## ruff, mypy --strict, the architecture test
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -n 0 tests/test_architecture.py

bench: setup     ## the in-process bus: total order beside none
	@$(BIN)/unisono bench core

bench-peers: setup      ## unisono beside its peers, those that are installed: about 40 minutes
	@$(BIN)/unisono bench peers

bench-scaling: setup    ## what grows with topics, subscribers, payloads, nodes: about 5 minutes
	@$(BIN)/unisono bench scaling

bench-sequencers: setup ## topics, atoms and a JetStream stream side by side: about 8 minutes
	@$(BIN)/unisono bench sequencers

flame: setup     ## where the time goes: out/flame-publisher.svg, -node.svg, -subscriber.svg
	@$(BIN)/python -m benchmarks.scaling.flame

peers-setup: setup      ## the peers that come from the system's packages, for bench-peers only
	@sh benchmarks/peers/setup.sh

explore: setup   ## every interleaving of tiny worlds, and the planted bugs
	@$(BIN)/unisono lab explore
	@$(BIN)/unisono lab bugs

explore-atoms: setup  ## every membership of 4 members and 3 groups, 3 events, every interleaving
	@$(BIN)/unisono lab explore --engine sequencing_atoms

fuzz-atoms: setup  ## ten thousand seeded worlds whose work is spread
	@$(BIN)/unisono lab fuzz --engine sequencing_atoms --seeds 10000

explore-deadlines: setup  ## deadline-causal order: every order, loss and delay of two events of three brokers
	@$(BIN)/unisono lab explore --engine deadline_causal

fuzz-deadlines: setup     ## ten thousand seeded worlds of deadline-causal order
	@$(BIN)/unisono lab fuzz --engine deadline_causal --seeds 10000

fuzz: setup      ## ten thousand seeded worlds, and a hundred of them under another hash seed
	@$(BIN)/unisono lab fuzz --seeds 10000
	@for hash in 1 2; do PYTHONHASHSEED=$$hash $(BIN)/python -c "from unisono.lab.fuzz import digests; \
	  print(*digests(range(100)))" | sha256sum; done | uniq | wc -l | grep -qx 1 && echo "100 seeds leave equal traces"

fuzz-epidemic: setup      ## ten thousand seeded worlds of dispatchers: about 3 minutes
	@$(BIN)/unisono lab fuzz --engine epidemic --seeds 10000

fuzz-filters: setup     ## a million filter texts and events: parser, matching, covering, index; about 3 minutes
	@$(BIN)/python scripts/fuzz_filters.py

audit-campaign: setup   ## each violation planted among 10 million deliveries, and none: 7 audits, about 10 minutes
	@$(BIN)/python scripts/audit_campaign.py

overlay-campaign: setup ## 20 dispatcher processes over UDP, a tenth of all datagrams lost, one killed: about a minute
	@$(BIN)/python scripts/overlay_campaign.py

causal-campaign: setup  ## a million questions and replies across topics on NATS, audited: about two minutes
	@$(BIN)/python scripts/causal_campaign.py

deadline-campaign: setup ## real processes over NATS and UDP that delay and lose, one killed, audited: about four minutes
	@for transport in nats udp; do for how in --kill --no-kill; do \
		$(BIN)/python scripts/deadline_campaign.py --transport $$transport $$how || exit 1; done; done

overlay-flood: setup    ## 100,000 forged and replayed datagrams against a dispatcher and those who use it
	@FLOOD_PACKETS=100000 $(BIN)/python -m pytest -n 0 -s -q tests/overlay/test_flood.py

kill-campaign: setup    ## the pipeline killed at random moments, its tables compared with those of a quiet run
	@$(BIN)/python scripts/kill_campaign.py

watch-campaign: setup   ## a real system watched for 10 minutes with kills, then swaps planted: about 14 minutes
	@$(BIN)/python examples/spark_ticker.py
	@$(BIN)/python scripts/watch_campaign.py

spark-live-campaign: setup ## drivers, workers, nodes and the server killed under live queries: about 10 minutes
	@$(BIN)/python scripts/spark_live_campaign.py

bench-spark: setup      ## events into Spark, rows out of it, a backlog of 5 million: about 5 minutes
	@$(BIN)/unisono bench spark

pipeline-growth: setup  ## how long the pipeline takes after a journal has grown by 1 %, beside the first run
	@$(BIN)/python scripts/pipeline_growth.py

hostile: setup   ## a million frames of a hostile client, with credentials, against a node and honest clients
	@UNISONO_HOSTILE_FRAMES=1000000 $(BIN)/python -m pytest -n 0 -s -q tests/remote/test_hostile_clients.py -k hundred

durability: setup   ## real servers, clusters and nodes killed, restarted, upgraded, out of disk: about 5 minutes
	@$(BIN)/python -m pytest -n 2 -m durability tests/ens tests/remote tests/server tests/cli
replay-check: setup   ## 100,000 events with churn: who comes late prints what was printed from the start
	@$(BIN)/python -m pytest -n 0 -s -q -m replay tests/remote/test_replay.py

faults: setup    ## real processes killed, paused, cut off, out of disk, under wrong clocks: about 40 minutes
	@$(BIN)/unisono lab faults --runs 204 --keep out/faults
	@$(BIN)/unisono lab faults --runs 24 --transport redis --keep out/faults

soak: setup      ## ten minutes of mixed load and faults, with an eye on memory
	@$(BIN)/unisono lab soak --minutes 10

.PHONY: docs
docs: $(VENV)/.docs-ready  ## out/docs/index.html: these pages, the commands and the names, with search, all of it offline
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "docs: out/docs/index.html" >&2

$(VENV)/.docs-ready: $(VENV)/.ready requirements-docs.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

package-check: setup ## sdist and wheel, installed into empty environments and used there: about a minute
	@$(BIN)/python scripts/package_check.py

lock: setup      ## pin every dependency again, with hashes
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --group dev --group peers --python-version 3.11 \
	  --custom-compile-command "make lock" pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --group pyproject.toml:docs -c requirements.lock \
	  --python-version 3.11 --custom-compile-command "make lock" -o requirements-docs.lock

clean:           ## forget the environment and the caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis out

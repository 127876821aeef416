# sjoin: streaming joins for PostgreSQL.
#
#   make                     build with the PostgreSQL of PG_CONFIG
#   make install             install there
#   make check               set up this machine, build, install, lint, every test
#   make demo                set up this machine, build, install, show it working
#   make bench               the figures, beside their baselines
#   make check-regress | check-isolation | check-pgtap | check-tap
#   make check-differential | check-properties  ROUNDS=200 SEED=n (a random seed is printed)
#   make lint
#
# The goals that are more than a compiler run are scripts in dev/; they work
# without PostgreSQL's headers, because they see to these first.

EXTENSION = sjoin
EXTVERSION = 0.1.0
MODULE_big = sjoin
OBJS = $(patsubst %.c,%.o,$(wildcard src/*.c src/*/*.c))
ALL_HEADERS = $(wildcard src/*.h src/*/*.h)
DATA_built = sql/$(EXTENSION)--$(EXTVERSION).sql
DATA = $(wildcard sql/$(EXTENSION)--*--*.sql)
PGFILEDESC = "sjoin - streaming joins"

PG_CPPFLAGS = -I$(srcdir)/src
# The last four: PostgreSQL's own headers and macros are not clean under -Wextra.
PG_CFLAGS = -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -Wno-clobbered

EXTRA_CLEAN = src/.built-for

PG_CONFIG ?= $(firstword $(wildcard /usr/lib/postgresql/15/bin/pg_config) pg_config)

# Bitcode would serve only inlining by the JIT compiler, and needs clang.
override with_llvm = no

SCRIPTED = check check-regress check-isolation check-pgtap check-tap \
	check-conformance check-traps check-properties check-differential check-oracle \
	demo bench lint setup
.PHONY: $(SCRIPTED)

ifeq ($(filter $(SCRIPTED),$(MAKECMDGOALS)),)

PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error no pg_config found: run "make setup" as root, or set PG_CONFIG)
endif
include $(PGXS)

# Objects of another PostgreSQL (with assertions, say) must not be linked in.
BUILT_FOR = src/.built-for
$(shell now="$(CFLAGS) $$(cksum < $$($(PG_CONFIG) --includedir-server)/pg_config.h)"; \
	[ "$$now" = "$$(cat $(BUILT_FOR) 2>/dev/null)" ] || echo "$$now" > $(BUILT_FOR))

# Headers are few; anything else would need a dependency generator.
$(OBJS): $(ALL_HEADERS) $(BUILT_FOR)

$(DATA_built): sql/$(EXTENSION).sql
	cp $< $@

else

ROUNDS ?= 200
SEED ?=
export ROUNDS SEED

setup:
	@dev/setup

check:
	@dev/setup
	@dev/check all

check-regress check-isolation check-pgtap check-tap check-conformance check-traps check-properties check-differential \
check-oracle lint:
	@dev/setup
	@dev/check $(patsubst check-%,%,$@)

demo:
	@dev/setup
	@dev/demo

bench:
	@dev/setup
	@bench/run $(BENCH_OPTIONS)

endif

# Shared by the scripts in dev/ and bench/: where PostgreSQL is, and how to run
# something as the user that a server may run as (PostgreSQL refuses root).

PG_CONFIG=${PG_CONFIG:-}
if [ -z "$PG_CONFIG" ]; then
	PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config
	[ -x "$PG_CONFIG" ] || PG_CONFIG=pg_config
fi
export PG_CONFIG
PG_BIN=$("$PG_CONFIG" --bindir 2>/dev/null || true)
PG_BIN=${PG_BIN:-/usr/lib/postgresql/15/bin}
PORT=${SJOIN_PORT:-54815}

# The user that servers run as: whoever calls, or for root an ordinary one.
server_user() {
	if [ "$(id -u)" != 0 ]; then
		id -un
	elif id postgres >/dev/null 2>&1; then
		echo postgres
	else
		echo nobody
	fi
}

# Runs a command as that user, in a folder it can enter.
as_server_user() {
	if [ "$(id -u)" != 0 ]; then
		"$@"
	else
		(cd / && setpriv --reuid="$(server_user)" --regid="$(id -g "$(server_user)")" \
			--clear-groups env HOME=/tmp "$@")
	fi
}

# Where the clients find the server of that folder.
point_clients_to() {
	export PGHOST=$1 PGPORT=$PORT PGUSER=postgres PGDATABASE=postgres
	export PATH="$PG_BIN:$PATH"
	unset PGOPTIONS PGSERVICE PGPASSWORD PGHOSTADDR PGSSLMODE PGTZ PGDATESTYLE
}

# Into the folders of the PostgreSQL in use: version 15 looks nowhere else for
# extensions, so this needs the right to write there (dev/setup runs as root).
build_and_install() {
	make -s -j"$(nproc)" all
	make -s install
	if [ -f test/module/Makefile ]; then
		make -s -C test/module all
		make -s -C test/module install
	fi
}

say() { printf '%s\n' "$*"; }

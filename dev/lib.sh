# Shared by the scripts in dev/ and bench/: where PostgreSQL is, a private copy
# of it, and how to run something as the user that a server may run as
# (PostgreSQL refuses root).

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

# Links everything in folder $1 into folder $2, but for files of sjoin's.
link_all() {
	mkdir -p "$2"
	find "$1" -mindepth 1 -maxdepth 1 ! -name 'sjoin*' -exec ln -s {} "$2/" \;
}

# Makes a copy of PostgreSQL's programs in folder $1, with links to the rest,
# and puts it in use.  The programs look for libraries and extensions relative
# to where they lie, so what is installed there is seen by no other server, and
# nothing of the system is touched.  (Version 15 has no setting that would name
# another folder of extensions.)
private_postgres() {
	local bin=$1$PG_BIN lib share include
	lib=$("$PG_CONFIG" --pkglibdir)
	share=$("$PG_CONFIG" --sharedir)
	include=$("$PG_CONFIG" --includedir-server)
	mkdir -p "$bin" "$(dirname "$1$include")"
	cp -pL "$PG_BIN"/* "$bin/"
	link_all "$lib" "$1$lib"
	link_all "$share" "$1$share"
	rm "$1$share/extension"
	link_all "$share/extension" "$1$share/extension"
	ln -s "$include" "$1$include"
	if [ "$("$bin/pg_config" --pkglibdir)" = "$1$lib" ]; then
		use_postgres "$bin"
	else
		echo "this PostgreSQL cannot be moved: installing sjoin into $lib" >&2
	fi
}

# Everything from now on uses the PostgreSQL of this bin folder.
use_postgres() {
	export PG_CONFIG=$1/pg_config SJOIN_PRIVATE=yes
	PG_BIN=$1
}

# Builds with the PostgreSQL in use and installs there.
build_and_install() {
	make -s -j"$(nproc)" all && make -s install || return 1
	if [ -f test/module/Makefile ]; then
		make -s -C test/module all && make -s -C test/module install
	fi
}

# Where the clients find the server of that folder.
point_clients_to() {
	export PGHOST=$1 PGPORT=$PORT PGUSER=postgres PGDATABASE=postgres
	export PATH="$PG_BIN:$PATH"
	unset PGOPTIONS PGSERVICE PGPASSWORD PGHOSTADDR PGSSLMODE PGTZ PGDATESTYLE
}

say() { printf '%s\n' "$*"; }

# What the TAP tests share: a server with sjoin, two streams, and the comparison with the batch answer.
package Sjoin;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(sjoin_node two_streams left_join wait_and_verify worker_pid await_server await_worker kill_and_start disturb writer changing_writer at);

# A running server; %options as of init, and preload => 0
sub sjoin_node
{
	my ($name, %options) = @_;
	my $preload = delete $options{preload} // 1;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%options);
	$node->append_conf('postgresql.conf', q{
max_worker_processes = 16
restart_after_crash = on
max_prepared_transactions = 10
client_min_messages = warning
timezone = 'UTC'
});
	$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sjoin'
sjoin.restart_delay = '50ms'
sjoin.state_memory = '64MB'
sjoin.idle_timeout = 0
}) if $preload;
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION sjoin') if $preload;
	return $node;
}

# Tables a and b, both streams without watermark delay
sub two_streams
{
	my ($node) = @_;
	$node->safe_psql('postgres', q{
		CREATE TABLE a (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, k int, ts timestamptz);
		CREATE TABLE b (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, k int, ts timestamptz);
		SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s');
		SELECT sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
	});
}

# The join 'result': a left join over 0 .. 5 seconds
sub left_join
{
	my ($node, $options, $name) = @_;
	$options = $options ? ", $options" : '';
	$name //= 'result';
	$node->safe_psql('postgres', qq{
		SELECT sjoin.create_join('$name', 'SELECT a.id AS a_id, b.id AS b_id, a.k FROM a LEFT JOIN b
			ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s'''$options)});
	# rows that come before the worker has read the tables are history, which is never late
	$node->safe_psql('postgres', "SELECT sjoin.wait_for('$name')");
}

# Everything committed is in the result, and it is the batch answer
sub wait_and_verify
{
	my ($node, $name, $result) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$result //= 'result';
	is($node->safe_psql('postgres', "SELECT sjoin.wait_for('$result', timeout => '60 s')"), 't', "$name: wait_for");
	is( $node->safe_psql('postgres',
			"SELECT * FROM sjoin.verify('$result') WHERE difference IN ('missing', 'extra', 'duplicate')"),
		'', "$name: verify");
}

sub worker_pid
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		'SELECT pid FROM sjoin.stat_workers WHERE datname = current_database()');
}

# Waits until the query says true, also while the server is down.  poll_query_until hands the query to psql's standard input,
# which nobody reads when psql cannot connect.
sub poll_through
{
	my ($node, $query) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my ($out, $err);
		IPC::Run::run [ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $query ], '<', \undef, '>', \$out, '2>', \$err;
		return 1 if $out eq "t\n";
		select(undef, undef, undef, 0.1);
	}
	return 0;
}

# The server takes connections again
sub await_server
{
	my ($node) = @_;
	return poll_through($node, 'SELECT true');
}

# Another worker than the one given works
sub await_worker
{
	my ($node, $not) = @_;
	$not ||= 0;
	return poll_through($node, "SELECT count(*) = 1 FROM sjoin.stat_workers WHERE datname = current_database() AND pid <> $not");
}

# kill -9 of the postmaster, and a new one as soon as the children of the old have noticed
sub kill_and_start
{
	my ($node) = @_;
	my @children = split /\n/, $node->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity');

	$node->kill9;
	while (kill 0, @children)
	{
		select(undef, undef, undef, 0.01);
	}
	$node->start;
}

# What can happen to a worker: 'worker terminated', 'worker killed', 'server crashed', or nothing
sub disturb
{
	my ($node, $how) = @_;
	my $pid = $how =~ /worker/ ? worker_pid($node) : 0;
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") if $how eq 'worker terminated';
	kill 'KILL', $pid if $how eq 'worker killed';
	if ($how eq 'server crashed')
	{
		$node->stop('immediate');
		$node->start;
	}
}

# Starts clients that run a script of pgbench's until they are killed or have run it $transactions times
sub start_pgbench
{
	my ($node, $name, $transactions, $sql) = @_;
	my $script = $node->basedir . "/$name.sql";
	append_to_file($script, $sql) unless -f $script;
	return IPC::Run::start(
		[ 'pgbench', '-n', '-c', '2', '-t', $transactions, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
		'>', \my $out, '2>', \my $err);
}

# A client that writes pairs and lonely rows
sub writer
{
	my ($node, $transactions) = @_;
	return start_pgbench($node, 'writer', $transactions, q{
\set k random(1, 1000)
BEGIN;
INSERT INTO a (k, ts) VALUES (:k, timestamptz '2024-01-01 10:00+00' + (SELECT count(*) FROM pg_stat_activity) * interval '1 ms');
INSERT INTO b (k, ts) SELECT :k + g, timestamptz '2024-01-01 10:00+00' + g * interval '3 s' FROM generate_series(0, 2) g;
COMMIT;
});
}

# One that updates and deletes rows, too: of each key at most two of a, so that nobody waits for the other for long
sub changing_writer
{
	my ($node, $transactions) = @_;
	return start_pgbench($node, 'changing_writer', $transactions, q{
\set k random(1, 50)
\set other random(1, 50)
BEGIN;
INSERT INTO a (k, ts) VALUES (:k, timestamptz '2024-01-01 10:00+00');
INSERT INTO b (k, ts) SELECT :k + g, timestamptz '2024-01-01 10:00+00' + g * interval '3 s' FROM generate_series(0, 2) g;
COMMIT;
UPDATE b SET id = DEFAULT WHERE id = (SELECT min(id) FROM b WHERE k = :other);
UPDATE a SET k = :k WHERE id = (SELECT max(id) FROM a WHERE k = :other);
DELETE FROM b WHERE id IN (SELECT id FROM b WHERE k = :k ORDER BY id DESC OFFSET 3);
DELETE FROM a WHERE id IN (SELECT id FROM a WHERE k = :k ORDER BY id DESC OFFSET 2);
});
}

# A literal: so many seconds after the beginning of these tests' time
sub at
{
	my ($seconds) = @_;
	return "(timestamptz '2024-01-01 10:00:00+00' + interval '$seconds s')";
}

1;

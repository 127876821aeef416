# Clean restarts of the server and ends of the worker: the join goes on where it was.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('restart');
two_streams($node);
left_join($node, "allowed_lateness => '0 s'");

sub advance
{
	my ($seconds) = @_;
	$node->safe_psql('postgres',
		"SELECT sjoin.advance_watermark('a', " . at($seconds) . "), sjoin.advance_watermark('b', " . at($seconds) . ')');
}

my $time = 0;
for my $how ('clean restart', 'worker terminated', 'worker terminated twice', 'worker cancelled')
{
	$node->safe_psql('postgres', "INSERT INTO a (k, ts) VALUES (1, " . at($time + 1) . '), (2, ' . at($time + 1) . '), (3, ' . at($time + 1) . ')');
	$node->safe_psql('postgres', "INSERT INTO b (k, ts) VALUES (1, " . at($time + 2) . ')');
	advance($time + 3);
	wait_and_verify($node, "before: $how");
	my $pid = worker_pid($node);
	if ($how eq 'clean restart')
	{
		$node->restart;
	}
	elsif ($how eq 'worker cancelled')
	{
		$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	}
	else
	{
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		ok(await_worker($node, $pid), 'another worker');
		$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . worker_pid($node) . ')') if $how =~ /twice/;
	}
	$node->safe_psql('postgres', "INSERT INTO b (k, ts) VALUES (2, " . at($time + 6) . ')');
	wait_and_verify($node, "partner after: $how");
	advance($time + 7);
	wait_and_verify($node, "deadline after: $how");
	is( $node->safe_psql('postgres',
			'SELECT k, b_id IS NULL FROM result WHERE a_id > (SELECT max(id) - 3 FROM a) ORDER BY k'),
		"1|f\n2|f\n3|t", "result after: $how");
	$time += 10;
}

# Rows written while the worker is away are there when it comes back.
my $load = writer($node, 300);
for (1 .. 5)
{
	my $pid = worker_pid($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") if $pid =~ /^\d+$/;
	await_worker($node, $pid || 0);
}
$load->finish;
wait_and_verify($node, 'load with dying workers');
is($node->safe_psql('postgres', 'SELECT watermark IS NOT NULL FROM sjoin.joins'), 't', 'the watermark survived');

# A worker that nobody needs ends.
$node->safe_psql('postgres', "SELECT sjoin.drop_join('result')");
ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM sjoin.stat_workers WHERE datname = current_database()'),
	'no worker without a join');
$node->stop;
done_testing();

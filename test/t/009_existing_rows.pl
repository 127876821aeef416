# A join over many rows that are there already, with writers beside it, and a worker or server that dies while it reads them.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('existing');
two_streams($node);
$node->safe_psql('postgres', q{
	SELECT sjoin.drop_stream('a'), sjoin.drop_stream('b');
	SELECT sjoin.create_stream('a', 'ts', watermark_delay => '1 day');
	SELECT sjoin.create_stream('b', 'ts', watermark_delay => '1 day');
	INSERT INTO a (k, ts) SELECT g % 50000, timestamptz '2024-01-01 10:00+00' + g % 977 * interval '1 s' FROM generate_series(1, 150000) g;
	INSERT INTO b (k, ts) SELECT g % 60000, timestamptz '2024-01-01 10:00+00' + g % 971 * interval '1 s' FROM generate_series(1, 150000) g});

for my $how ('undisturbed', 'worker terminated', 'worker killed', 'server crashed')
{
	my $load = writer($node, 400);
	$node->safe_psql('postgres', q{
		SELECT sjoin.create_join('result', 'SELECT a.id AS a_id, b.id AS b_id, a.k FROM a LEFT JOIN b
			ON a.k = b.k AND b.ts BETWEEN a.ts - interval ''100 s'' AND a.ts + interval ''100 s''')});
	await_worker($node) if $how =~ /worker/;
	disturb($node, $how);
	$load->finish;
	$node->poll_query_until('postgres', q{SELECT sjoin.wait_for('result', timeout => '60 s')});
	wait_and_verify($node, $how);
	is( $node->safe_psql('postgres', q{SELECT count(*) FROM result WHERE b_id IS NOT NULL}),
		$node->safe_psql('postgres', q{SELECT count(*) FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - interval '100 s' AND a.ts + interval '100 s'}),
		"$how: all pairs");
	# what the reading of the tables left behind survives a crash
	$node->stop('immediate');
	$node->start;
	$node->poll_query_until('postgres', q{SELECT sjoin.wait_for('result', timeout => '60 s')});
	$node->safe_psql('postgres', q{INSERT INTO b (k, ts) SELECT g, '2024-01-01 10:00:30+00' FROM generate_series(1, 500) g});
	wait_and_verify($node, "$how, then a crash");
	$node->safe_psql('postgres', q{SELECT sjoin.drop_join('result')});
}
$node->stop;
done_testing();

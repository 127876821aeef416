# A crash loses no row, writes none twice, and forgets no partner.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('crash');
two_streams($node);
left_join($node, "allowed_lateness => '0 s'");

# A row whose partner has left the state is matched for good.
$node->safe_psql('postgres', 'INSERT INTO a (k, ts) VALUES (1, ' . at(10) . ')');
$node->safe_psql('postgres', 'INSERT INTO b (k, ts) VALUES (1, ' . at(10) . ')');
$node->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', " . at(13) . "), sjoin.advance_watermark('b', " . at(13) . ')');
wait_and_verify($node, 'partner expired');
$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', " . at(20) . "), sjoin.advance_watermark('b', " . at(20) . ')');
wait_and_verify($node, 'after the crash');
is($node->safe_psql('postgres', 'SELECT a_id, b_id FROM result'), '1|1', 'the matched row is not padded');

# A row that waits for its partner goes on waiting, and is padded when due.
$node->safe_psql('postgres', 'INSERT INTO a (k, ts) VALUES (2, ' . at(21) . '), (3, ' . at(21) . ')');
wait_and_verify($node, 'waiting rows');
$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', 'INSERT INTO b (k, ts) VALUES (3, ' . at(26) . ')');
wait_and_verify($node, 'partner after the crash');
$node->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', " . at(27) . "), sjoin.advance_watermark('b', " . at(27) . ')');
wait_and_verify($node, 'deadline after the crash');
is($node->safe_psql('postgres', 'SELECT k, b_id IS NULL FROM result ORDER BY k'), "1|f\n2|t\n3|f", 'joined and padded');

# A late row stays refused.
$node->safe_psql('postgres', 'INSERT INTO b (k, ts) VALUES (2, ' . at(22) . ')');
wait_and_verify($node, 'late row');
$node->stop('immediate');
$node->start;
wait_and_verify($node, 'late row after the crash');
is($node->safe_psql('postgres', 'SELECT count(*) FROM sjoin.late_rows'), '1', 'one late row');
is($node->safe_psql('postgres', 'SELECT count(*) FROM result'), '3', 'the result is as it was');

# Mid-load: the worker is killed, then the whole server.
$node->safe_psql('postgres', q{
	SELECT sjoin.drop_join('result');
	TRUNCATE a, b;
	SELECT sjoin.drop_stream('a'), sjoin.drop_stream('b');
	SELECT sjoin.create_stream('a', 'ts', watermark_delay => '1 day');
	SELECT sjoin.create_stream('b', 'ts', watermark_delay => '1 day');
});
left_join($node);
for my $victim ('worker', 'postmaster')
{
	my $before = $node->safe_psql('postgres', 'SELECT count(*) FROM a');
	my $load = writer($node, 100000);
	$node->poll_query_until('postgres', "SELECT count(*) > $before + 500 FROM a");
	if ($victim eq 'worker')
	{
		kill 'KILL', worker_pid($node);
		$load->finish;
		await_server($node);
	}
	else
	{
		kill_and_start($node);
		$load->finish;
	}
	wait_and_verify($node, "$victim killed in mid-load");
	cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM result WHERE b_id IS NOT NULL'), '>', 100, 'pairs were written');
}
$node->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', '2025-01-01'), sjoin.advance_watermark('b', '2025-01-01')");
wait_and_verify($node, 'end');
is($node->safe_psql('postgres', 'SELECT state_rows FROM sjoin.stat_joins'), '0', 'the state is empty');
$node->stop;
done_testing();

# The guard against rows from the future by the setting of the server, and which statistics survive a restart.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('clock_guard');
$node->safe_psql('postgres', 'CREATE EXTENSION sjoin_test');

# Rows of a and b so many minutes ahead of the clock, which is set to that time of day
sub rows_ahead
{
	my ($clock, $minutes, $key) = @_;
	my $time = "timestamptz '2024-01-01 $clock+00'";
	$node->safe_psql('postgres', "SELECT sjoin_test.set_clock($time)");
	$node->safe_psql('postgres', "INSERT INTO a (k, ts) VALUES ($key, $time + interval '$minutes min')");
	$node->safe_psql('postgres', "INSERT INTO b (k, ts) VALUES ($key, $time + interval '$minutes min')");
	wait_and_verify($node, "$minutes min ahead at $clock");
}

# Watermark of the join and the rows of a that were counted as from the future
sub seen
{
	return $node->safe_psql('postgres', q{
		SELECT to_char(sjoin.watermark('result'), 'HH24:MI'), rows_future, (SELECT count(*) FROM result WHERE b_id IS NOT NULL)
		  FROM sjoin.stat_inputs WHERE relid = 'result'::regclass AND input = 'a'});
}

# The setting is in force: the worker has been told before whoever connects sees it, and has been round once more.
sub set_max_future
{
	my ($value) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET sjoin.max_future = '$value'");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting = '$value' FROM pg_settings WHERE name = 'sjoin.max_future'") or die;
	wait_and_verify($node, "max_future $value");
}

two_streams($node);
left_join($node, "allowed_lateness => '0 s'");

# the very first row: the join does not start with it
rows_ahead('10:00', 24 * 60, 1);
is(seen(), '|1|1', 'by default a row a minute ahead moves nothing, not even as the first');
rows_ahead('10:00', 0, 2);
is(seen(), '10:00|1|2', 'the time of the others does');
set_max_future(20 * 60 * 1000);
rows_ahead('10:01', 15, 3);
is(seen(), '10:16|1|3', 'a greater max_future');
rows_ahead('10:20', 21, 4);
is(seen(), '10:16|2|4', 'but no more than that');
set_max_future(0);
rows_ahead('10:22', 1, 5);
is(seen(), '10:16|3|5', '0 is no tolerance');
set_max_future(-1);
rows_ahead('10:25', 60, 6);
is(seen(), '11:25|3|6', '-1 is no guard');

# a stream with a setting of its own goes by that
$node->safe_psql('postgres', q{
	CREATE TABLE c (LIKE a INCLUDING ALL);
	SELECT sjoin.create_stream('c', 'ts', watermark_delay => '0 s', max_future => '1 min');
	INSERT INTO a (k, ts) VALUES (8, '2024-01-01 12:00+00');
	SELECT sjoin.create_join('other', 'SELECT a.id AS a_id, c.id AS c_id FROM a JOIN c ON a.k = c.k AND c.ts BETWEEN a.ts AND a.ts + interval ''5 s''', with_data => false);
	SELECT sjoin.wait_for()});
$node->safe_psql('postgres', "INSERT INTO c (k, ts) VALUES (7, '2024-01-01 12:00+00')");
$node->safe_psql('postgres', "INSERT INTO a (k, ts) VALUES (7, '2024-01-01 12:00+00')");
wait_and_verify($node, 'a stream with its own setting', 'other');
is( $node->safe_psql('postgres', "SELECT input, rows_future FROM sjoin.stat_inputs WHERE relid = 'other'::regclass ORDER BY 1"),
	"a|0\nc|1", 'its own setting');

# a change of a row that was written before the join began
$node->safe_psql('postgres', 'UPDATE a SET id = DEFAULT WHERE k = 8');

# Counters outlive everything; percentiles and the time of the last row begin again with the server.
my $counters = q{
	SELECT join_name, input, rows_in, rows_matched, rows_late, rows_null_key, rows_future, rows_filtered, rows_unknown FROM sjoin.stat_inputs ORDER BY 1, 2;
	SELECT join_name, rows_out, rows_retracted, rows_unmatched FROM sjoin.stat_joins ORDER BY 1;
	SELECT join_name, (SELECT string_agg(reason, ' ') FROM sjoin.advise(relid) WHERE setting = 'time range') FROM sjoin.stat_joins ORDER BY 1};
my $percentiles = q{
	SELECT bool_and(lateness_p99 IS NOT NULL AND clock_offset_p50 IS NOT NULL AND last_row_at IS NOT NULL) FROM sjoin.stat_inputs WHERE join_name = 'result';
	SELECT bool_or(lateness_p99 IS NOT NULL OR clock_offset_p50 IS NOT NULL OR last_row_at IS NOT NULL) FROM sjoin.stat_inputs};
wait_and_verify($node, 'before restarts', $_) for ('result', 'other');
my $before = $node->safe_psql('postgres', $counters);
my $expired = 'SELECT join_name, input, rows_expired FROM sjoin.stat_inputs ORDER BY 1, 2';
my $expired_before = $node->safe_psql('postgres', $expired);
like($expired_before, qr/^result\|a\|[1-9]/m, 'some rows have expired');
like($before, qr/^other\|a\|2\|1\|0\|0\|0\|0\|1$/m, 'a row that the join did not know');
is($node->safe_psql('postgres', $percentiles), "t\nt", 'percentiles are there');
for my $how ('worker terminated', 'clean restart', 'server crashed')
{
	my $pid = worker_pid($node);
	$how eq 'clean restart' ? $node->restart : disturb($node, $how);
	ok(await_worker($node, $how =~ /worker/ ? $pid : 0), "$how: a worker");
	wait_and_verify($node, $how, $_) for ('result', 'other');
	is($node->safe_psql('postgres', $counters), $before, "$how: counters");
	is($node->safe_psql('postgres', $expired), $expired_before, "$how: expired rows") if $how =~ /worker/;
	is($node->safe_psql('postgres', $percentiles), $how =~ /worker/ ? "t\nt" : "f\nf", "$how: percentiles");
}
$node->stop;
done_testing();

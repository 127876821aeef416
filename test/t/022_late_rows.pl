# Late rows through restarts and crashes: counted once, a join that stops before them, and replays that happen once.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('late_rows');
two_streams($node);
left_join($node, "allowed_lateness => '0 s'", 'kept');
left_join($node, "allowed_lateness => '0 s', late_rows => 'drop'", 'dropped');

my @disturbances = ('', 'worker terminated', 'worker killed', 'server crashed');
my ($late_a, $late_b) = (0, 0);

sub value
{
	return $node->safe_psql('postgres', $_[0]);
}

sub disturb_and_wait
{
	my ($how) = @_;
	my $pid = worker_pid($node);
	disturb($node, $how);
	return if $how eq '';
	ok(await_server($node), "$how: the server is back");
	ok(await_worker($node, $pid), "$how: another worker");
}

# -- counted exactly once, for each input, whatever happens
my $time = 0;
for my $how (@disturbances, @disturbances)
{
	$time += 10;
	value("INSERT INTO a (k, ts) VALUES (1, " . at($time) . "); INSERT INTO b (k, ts) VALUES (1, " . at($time) . ")");
	value("INSERT INTO a (k, ts) SELECT 1, " . at($time - 1) . " FROM generate_series(1, 3)");
	$late_a += 3;
	disturb($node, $how);
	ok(await_server($node), "the server is back after: $how");
	value("INSERT INTO b (k, ts) SELECT 1, " . at($time - 1) . " FROM generate_series(1, 2)");
	$late_b += 2;
	for my $join ('kept', 'dropped')
	{
		wait_and_verify($node, "$join after: $how", $join);
		is( value("SELECT string_agg(input || rows_late, ' ' ORDER BY input) FROM sjoin.stat_inputs WHERE join_name = '$join'"),
			"a$late_a b$late_b", "$join: late rows of each input, after: $how");
	}
}
is(value("SELECT count(*) || ' ' || count(DISTINCT (input, row_data)) FROM sjoin.late_rows WHERE result = 'kept'"),
	($late_a + $late_b) . ' ' . ($late_a + $late_b), 'each is listed once, with its row');
is(value("SELECT count(*) FROM sjoin.late_rows WHERE reason <> 'late' OR watermark <= event_time OR row_data->>'ts' IS NULL"),
	'0', 'with reason, watermark and row');
is(value("SELECT count(*) FROM sjoin.late_rows WHERE result = 'dropped'"), '0', 'dropped rows are not listed');

# -- replayed once, whatever happens
my $replayed = 0;
for my $how (@disturbances)
{
	value("SELECT sjoin.pause_join('kept')");
	value("SELECT sjoin.replay_late('kept', ARRAY(SELECT late_id FROM sjoin.late_rows WHERE result = 'kept' AND replayed_at IS NULL ORDER BY late_id LIMIT 5)) FROM generate_series(1, 2)");
	$replayed += 5;
	disturb_and_wait($how);
	value("SELECT sjoin.resume_join('kept')");
	wait_and_verify($node, "replayed after: $how", 'kept');
	disturb_and_wait($how);
	wait_and_verify($node, "replayed before: $how", 'kept');
	is(value("SELECT count(*) FROM sjoin.late_rows WHERE replayed_at IS NOT NULL"), $replayed, "the same late rows are replayed, and once: $how");
}

# a batch that has been fed and cannot be written, and is then lost
my $lock = $node->background_psql('postgres');
$lock->query_safe('BEGIN; LOCK TABLE kept IN EXCLUSIVE MODE');
my $errors = value("SELECT errors FROM sjoin.stat_joins WHERE join_name = 'kept'");
value("SELECT sjoin.replay_late('kept')");
ok($node->poll_query_until('postgres', "SELECT errors > $errors FROM sjoin.stat_joins WHERE join_name = 'kept'"), 'the batch waits for the table');
kill_and_start($node);
wait_and_verify($node, 'all replayed', 'kept');
is(value("SELECT count(*) FROM sjoin.late_rows WHERE replayed_at IS NULL"), '0', 'none is left');
is(value("SELECT count(*) FROM (SELECT a.id, b.id, a.k FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval '5 s' EXCEPT ALL SELECT a_id, b_id, k FROM kept) x"),
	'0', 'the result has all rows of the tables');
is(value("SELECT sjoin.replay_late('kept')"), '0', 'and there is nothing to replay');
$node->restart;
value("INSERT INTO b (k, ts) VALUES (1, " . at($time + 1) . ")");
wait_and_verify($node, 'a row in time after all that', 'kept');

# -- late_rows => 'error': stops before the transaction, and stays there
value("SELECT sjoin.drop_join('dropped')");
left_join($node, "allowed_lateness => '0 s', late_rows => 'error', with_data => false", 'strict');
$time += 10;
value("SELECT sjoin.pause_join('strict')");
value("INSERT INTO a (k, ts) VALUES (2, " . at($time) . "); INSERT INTO b (k, ts) VALUES (2, " . at($time) . ")");
value("INSERT INTO a (k, ts) VALUES (2, " . at($time) . ")");
value("INSERT INTO a (k, ts) VALUES (2, " . at($time) . "); INSERT INTO b (k, ts) VALUES (2, " . at($time - 9) . ")");
$node->safe_psql('postgres', "BEGIN; INSERT INTO a (k, ts) VALUES (2, " . at($time + 1) . "); INSERT INTO b (k, ts) VALUES (2, " . at($time - 9) . "); COMMIT");
value("INSERT INTO a (k, ts) VALUES (2, " . at($time + 2) . ")");
value("SELECT sjoin.resume_join('strict')");

sub is_stopped
{
	my ($when) = @_;
	ok($node->poll_query_until('postgres', "SELECT state = 'failed' AND last_error LIKE 'a row of input \"b\" with event time % is late: the watermark of the join is %' FROM sjoin.joins WHERE join_name = 'strict'"),
		"failed $when");
	is(value("SELECT sjoin.wait_for('strict')"), 'f', "nothing will come $when");
	is(value("SELECT count(*) FROM strict WHERE b_id IS NOT NULL"), '3', "everything before the late row is written $when");
	is(value("SELECT last_sqlstate FROM sjoin.joins WHERE join_name = 'strict'"), '55000', "the error $when");
	is(value("SELECT string_agg(DISTINCT difference, ' ') FROM sjoin.verify('strict')"), '', "verify $when");
}
is_stopped('at first');
$errors = value("SELECT errors FROM sjoin.stat_joins WHERE join_name = 'strict'");
$node->reload;
for my $i (1 .. 3)
{
	value("INSERT INTO a (k, ts) VALUES (2, " . at($time + 2) . ")");
	wait_and_verify($node, 'another join goes on', 'kept');
}
is(value("SELECT errors FROM sjoin.stat_joins WHERE join_name = 'strict'"), $errors, 'it is not tried again by itself');
for my $how (@disturbances)
{
	disturb_and_wait($how);
	is_stopped("after: $how");
}
value("SELECT sjoin.resume_join('strict')");
is_stopped('when it is tried again');
is(value("SELECT count(*) FROM sjoin.late_rows WHERE result = 'strict'"), '0', 'nothing is recorded of what was not consumed');

# with another setting it goes on: what was late is kept, and can be replayed
value("SELECT sjoin.alter_join('strict', late_rows => 'keep')");
wait_and_verify($node, 'late rows are kept now', 'strict');
is(value("SELECT count(*) FROM sjoin.late_rows WHERE result = 'strict' AND reason = 'late'"), '2', 'both');
disturb_and_wait('server crashed');
wait_and_verify($node, 'after a crash', 'strict');
is(value("SELECT sjoin.replay_late('strict')"), '2', 'they can be replayed');
wait_and_verify($node, 'with its late rows', 'strict');
value("SELECT sjoin.alter_join('strict', late_rows => 'error')");
wait_and_verify($node, 'an alteration changes nothing', 'strict');
value("INSERT INTO b (k, ts) VALUES (2, " . at($time - 9) . ")");
ok($node->poll_query_until('postgres', "SELECT state = 'failed' FROM sjoin.joins WHERE join_name = 'strict'"), 'the next late row stops it again');
is(value("SELECT string_agg(DISTINCT difference, ' ') FROM sjoin.verify('strict')"), '', 'verify when it has stopped again');
value("SELECT sjoin.refresh_join('strict')");
wait_and_verify($node, 'started over', 'strict');
is(value("SELECT state FROM sjoin.joins WHERE join_name = 'strict'"), 'running', 'it runs');

done_testing();

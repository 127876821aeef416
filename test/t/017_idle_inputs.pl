# Inputs that fall silent (T7): each form, over restarts, with the clock in the test's hand.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('idle');
$node->safe_psql('postgres', 'CREATE EXTENSION sjoin_test');
my $elapsed = 0;

sub sql { return $node->safe_psql('postgres', $_[0]) }

# The worker has ended the turn in which it saw the clock: it answers a second request in a later one.
sub worker_looks
{
	sql(q{SELECT sjoin.wait_for('one', timeout => '60 s'), sjoin.wait_for('one', timeout => '60 s')});
	return;
}

# Lets minutes pass, in steps that the worker sees one by one.
sub passes
{
	for my $minutes (@_)
	{
		$elapsed += $minutes;
		sql("SELECT sjoin_test.set_clock(now() + interval '$elapsed min')");
		worker_looks();
	}
	worker_looks();
	return;
}

sub at { return sprintf("timestamptz '2024-01-01 10:00:00+00' + interval '%s min'", $_[0]) }

# Minutes of a watermark after ten o'clock, whole ones: what the test itself takes does not show.
sub watermark
{
	my ($result) = @_;
	return sql("SELECT coalesce(floor(extract(epoch FROM sjoin.watermark('$result') - " . at(0) . ") / 60)::text, 'none')");
}

sub padded { return sql("SELECT count(*) FROM $_[0] WHERE r_id IS NULL") }

sub differences
{
	my ($result, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sql("SELECT * FROM sjoin.verify('$result') WHERE difference <> 'settled'"), '', "$name: the result is the batch answer");
	return;
}

# Two streams l_NAME, r_NAME and their left join NAME: partners come within five minutes.
sub make_join
{
	my ($name, $left, $right) = @_;
	sql("SET client_min_messages = warning;
		CREATE TABLE l_$name (id int, k int, ts timestamptz); CREATE TABLE r_$name (id int, k int, ts timestamptz);
		SELECT sjoin.create_stream('l_$name', 'ts', watermark_delay => '0 s', $left), sjoin.create_stream('r_$name', 'ts', watermark_delay => '0 s', $right);
		SELECT sjoin.create_join('$name', 'SELECT l.id, r.id AS r_id FROM l_$name l LEFT JOIN r_$name r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval ''5 min''')");
	worker_looks();
	return;
}

sub left_row { return sql("INSERT INTO l_$_[0] VALUES ($_[1], $_[1], " . at($_[2]) . ')') }
sub right_row { return sql("INSERT INTO r_$_[0] VALUES ($_[1], $_[1], " . at($_[2]) . ')') }

my $idle = q{idle_timeout => '60 min'};
my $never = q{idle_timeout => '0 s'};

# One quiet input: it moves on with the clock from when it is found idle, while the other goes on.
make_join('one', $never, $idle);
left_row('one', 1, 0);
right_row('one', 9, 0);
passes(30, 29);
left_row('one', 2, 100);
worker_looks();
is(watermark('one'), '0', 'the join waits for the quiet input');
passes(2);
is(watermark('one'), '0', 'found idle, it is where it was');
is(sql(q{SELECT string_agg(input || ' ' || idle, ', ' ORDER BY input) FROM sjoin.stat_inputs WHERE join_name = 'one'}), 'l false, r true', 'shown by input');
is(sql(q{SELECT string_agg(stream || ' ' || idle, ', ' ORDER BY stream) FROM sjoin.streams}), 'l_one false, r_one true', 'and by stream');
passes(4);
is(watermark('one') . ' ' . padded('one'), '4 0', 'and moves with the clock');
passes(3);
is(watermark('one') . ' ' . padded('one'), '7 1', 'the unmatched row comes out by itself');
passes(200);
is(watermark('one') . ' ' . padded('one'), '100 1', 'not beyond the input that is not idle');
left_row('one', 3, 110);
worker_looks();
passes(1);
is(watermark('one') . ' ' . padded('one'), '110 2', 'which it does not hold back');
right_row('one', 3, 112);
worker_looks();
is(sql('SELECT r_id FROM one WHERE id = 3'), '3', 'a row of it is joined');
right_row('one', 8, 20);
left_row('one', 4, 300);
worker_looks();
passes(59);
cmp_ok(watermark('one'), '>=', 207, 'its clock is not rewound by its rows');
is(sql('SELECT reason, row_data->>$$id$$ FROM sjoin.late_rows'), 'late|8', 'an old row of it is late');
differences('one', 'one quiet input');

# Time before a row is not time without one.
make_join('before', $never, $idle);
left_row('before', 1, 0);
right_row('before', 9, 0);
worker_looks();
$elapsed += 59;
sql("SELECT sjoin_test.set_clock(now() + interval '$elapsed min'); INSERT INTO r_before VALUES (8, 8, " . at(1) . ')');
worker_looks();
passes(2);
is(sql(q{SELECT idle FROM sjoin.stat_inputs WHERE join_name = 'before' AND input = 'r'}), 'f', 'it begins with the row');
differences('before', 'before a row');

# All inputs quiet: the greatest of their watermarks, then with the clock; the last row of a finished load comes out.
make_join('all_quiet', $idle, $idle);
left_row('all_quiet', 1, 0);
left_row('all_quiet', 2, 50);
right_row('all_quiet', 9, 40);
passes(59);
is(watermark('all_quiet'), '40', 'before the timeout');
passes(2);
is(watermark('all_quiet') . ' ' . padded('all_quiet'), '50 1', 'all are idle: where the furthest one is');
passes(4);
is(watermark('all_quiet') . ' ' . padded('all_quiet'), '54 1', 'then with the clock');
passes(3);
is(watermark('all_quiet') . ' ' . padded('all_quiet'), '57 2', 'the last row of the load');
right_row('all_quiet', 2, 53);
worker_looks();
is(sql('SELECT r_id FROM all_quiet WHERE id = 2'), '2', 'a partner that is accepted later corrects it');
cmp_ok(watermark('all_quiet'), '>=', 57, 'a woken input rewinds nothing');
differences('all_quiet', 'all inputs quiet');

# An input that never had a row starts at the join's first event and moves with the clock only.
make_join('never_a_row', $idle, $idle);
sql("INSERT INTO l_never_a_row SELECT g, g, " . at(0) . " + g * interval '36 min' FROM generate_series(0, 1000) g");
passes(61);
is(watermark('never_a_row'), '0', 'a history of weeks, nothing of the other side yet');
passes(10);
is(watermark('never_a_row') . ' ' . padded('never_a_row'), '10 1', 'a little of it is given up');
sql("INSERT INTO r_never_a_row SELECT g, g, " . at(0) . " + g * interval '36 min' FROM generate_series(1, 1000) g");
worker_looks();
is(sql('SELECT count(*) FROM never_a_row WHERE r_id IS NOT NULL'), '1000', 'the history of the other side finds its partners');
differences('never_a_row', 'an input without rows');

# Left out of the minimum.
make_join('ignored', $never, "$idle, on_idle => 'ignore'");
left_row('ignored', 1, 0);
right_row('ignored', 9, 0);
left_row('ignored', 2, 100);
passes(59);
is(watermark('ignored'), '0', 'not idle yet');
passes(2);
is(watermark('ignored') . ' ' . padded('ignored'), '100 1', 'ignored: the other one decides');
right_row('ignored', 8, 101);
left_row('ignored', 3, 200);
worker_looks();
is(watermark('ignored'), '101', 'it is waited for again');
passes(61);
is(watermark('ignored') . ' ' . padded('ignored'), '200 2', 'until it is quiet again');
differences('ignored', 'ignore');

make_join('both_ignored', "$idle, on_idle => 'ignore'", "$idle, on_idle => 'ignore'");
left_row('both_ignored', 1, 0);
right_row('both_ignored', 9, 50);
passes(61);
is(watermark('both_ignored') . ' ' . padded('both_ignored'), '50 1', 'all left out: the greatest');
passes(100);
is(watermark('both_ignored'), '50', 'and there it stays');
differences('both_ignored', 'all ignored');

# Waited for, however long.
make_join('held', $idle, "$idle, on_idle => 'hold'");
left_row('held', 1, 0);
left_row('held', 2, 100);
right_row('held', 9, 0);
passes(61, 100000);
is(watermark('held') . ' ' . padded('held'), '0 0', 'hold');
sql(q{SELECT sjoin.advance_watermark('r_held', } . at(50) . ')');
worker_looks();
is(watermark('held') . ' ' . padded('held'), '50 1', 'advance_watermark releases what waits');
sql(q{SELECT sjoin.alter_stream('r_held', on_idle => 'advance')});
worker_looks();
passes(10);
cmp_ok(watermark('held'), '>=', 100, 'altered: it is idle, and the furthest watermark counts');
sql(q{SELECT sjoin.alter_stream('r_held', on_idle => 'hold')});
worker_looks();
my $before = watermark('held');
left_row('held', 3, 100000);
passes(1000);
is(watermark('held'), $before, 'altered back: it is waited for again');
sql(q{SELECT sjoin.alter_stream('r_held', reset => '{on_idle, idle_timeout}')});
is(sql(q{SELECT idle_timeout, on_idle FROM sjoin.streams WHERE stream = 'r_held'}), '00:00:00|advance', 'reset to the parameter');
differences('held', 'hold');

# A transaction that has written and is still open has rows to come.
make_join('open', $never, $idle);
left_row('open', 1, 0);
right_row('open', 9, 0);
left_row('open', 2, 100);
my $writer = $node->background_psql('postgres');
$writer->query_safe('BEGIN; INSERT INTO r_open VALUES (1, 1, ' . at(3) . ')');
passes(61, 100);
is(watermark('open') . ' ' . padded('open'), '0 0', 'an open writer keeps its stream from being idle');
$writer->query_safe('COMMIT');
worker_looks();
is(sql('SELECT r_id FROM open WHERE id = 1'), '1', 'its row finds its partner');
sql('BEGIN; INSERT INTO r_open VALUES (7, 7, ' . at(4) . "); PREPARE TRANSACTION 'idle'");
passes(61, 100);
is(watermark('open'), '3', 'so does a prepared transaction');
sql("ROLLBACK PREPARED 'idle'");
passes(1);
passes(50);
cmp_ok(watermark('open'), '>=', 50, 'without them it is');
differences('open', 'open writers');

# So do those that make rows come and go as a whole; a vacuum does not.
make_join('whole', $never, $idle);
sql("SELECT sjoin.drop_join('whole'); SELECT sjoin.drop_stream('r_whole'); DROP TABLE r_whole;
	CREATE TABLE r_whole (id int, k int, ts timestamptz) PARTITION BY LIST (k);
	CREATE TABLE r_whole_1 PARTITION OF r_whole FOR VALUES IN (1, 9); CREATE TABLE r_whole_2 (LIKE r_whole);
	SET client_min_messages = warning; SELECT sjoin.create_stream('r_whole', 'ts', watermark_delay => '0 s', $idle);
	SELECT sjoin.create_join('whole', 'SELECT l.id, r.id AS r_id FROM l_whole l LEFT JOIN r_whole r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval ''5 min''')");
left_row('whole', 1, 0);
right_row('whole', 9, 0);
left_row('whole', 2, 100);
worker_looks();
for my $change ('TRUNCATE r_whole', 'TRUNCATE r_whole_1', 'DROP TABLE r_whole_1', 'ALTER TABLE r_whole DETACH PARTITION r_whole_1', 'ALTER TABLE r_whole ATTACH PARTITION r_whole_2 FOR VALUES IN (2)',
	'LOCK TABLE r_whole IN EXCLUSIVE MODE')
{
	$writer->query_safe("BEGIN; $change");
	passes(61, 100);
	is(watermark('whole') . ' ' . padded('whole'), '0 0', "open: $change");
	$writer->query_safe('ROLLBACK');
	sql("INSERT INTO r_whole VALUES (10, 9, " . at(0) . ')');    # quiet from here on
	worker_looks();
}
$writer->query_safe('BEGIN; LOCK TABLE r_whole_1 IN SHARE UPDATE EXCLUSIVE MODE');
passes(61, 50);
cmp_ok(watermark('whole'), '>=', 50, 'a lock like that of a vacuum');
$writer->query_safe('ROLLBACK');
$writer->quit;
differences('whole', 'tables that change as a whole');

# Only running time counts: not that of a pause.
make_join('paused', $never, $idle);
left_row('paused', 1, 0);
right_row('paused', 9, 0);
left_row('paused', 2, 100);
worker_looks();
sql(q{SELECT sjoin.pause_join('paused')});
worker_looks();
passes(1000);
sql(q{SELECT sjoin.resume_join('paused')});
worker_looks();
is(watermark('paused'), '0', 'paused time does not count');
passes(61, 10);
is(watermark('paused'), '10', 'running time does');
differences('paused', 'pause');

# Idleness and the time so far survive a crash and a restart.
make_join('kept', $never, $idle);
left_row('kept', 1, 0);
right_row('kept', 9, 0);
left_row('kept', 2, 100);
passes(50);

# The clock of the test is the real one again after a start.
sub starts_again
{
	my ($mode) = @_;
	$node->stop($mode);
	$node->start;
	$elapsed = 0;
	return;
}
starts_again('immediate');
passes(0, 8, 3, 4);
is(watermark('kept'), '4', 'fifty minutes before a crash count');
starts_again('fast');
passes(0, 3);
is(watermark('kept') . ' ' . padded('kept'), '7 1', 'still idle after a restart');
starts_again('immediate');
passes(0, 3);
is(watermark('kept') . ' ' . padded('kept'), '10 1', 'and after a crash');
differences('kept', 'restarts');
differences($_, 'at the end') for ('one', 'all_quiet', 'never_a_row', 'ignored', 'both_ignored', 'held', 'open', 'paused');

$node->stop;
done_testing();

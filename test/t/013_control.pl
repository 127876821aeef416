# Joins that are paused, resumed and started over, through restarts, crashes and load.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('control');
$node->append_conf('postgresql.conf', "sjoin.log_segment_size = '1MB'\nsjoin.state_memory = '128MB'");
$node->restart;
two_streams($node);
left_join($node, "allowed_lateness => '3 s'");
$node->safe_psql('postgres', q{SELECT sjoin.create_join('other', 'SELECT a.id AS a_id, b.id AS b_id, a.k FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', allowed_lateness => '3 s')});

my $time = 0;

# Rows around now; then event time moves on
sub load
{
	my ($transactions) = @_;
	for (1 .. $transactions)
	{
		$node->safe_psql('postgres', "
			INSERT INTO a (k, ts) SELECT $time * 1000 + g % 500, " . at($time) . " + (g % 7 - 3) * interval '1 s' FROM generate_series(1, 2000) g;
			INSERT INTO b (k, ts) SELECT $time * 1000 + g % 600, " . at($time) . " + (g % 9 - 3) * interval '1 s' FROM generate_series(1, 2000) g;");
		$time += 4;
	}
}

sub value
{
	return $node->safe_psql('postgres', $_[0]);
}

sub state_of
{
	my ($name) = @_;
	return value("SELECT state FROM sjoin.joins WHERE join_name = '$name'");
}

sub restarts
{
	return value(q{SELECT restarts FROM sjoin.stat_joins WHERE join_name = 'result'});
}

sub log_bytes
{
	return value(q{SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE relnamespace = 'sjoin'::regnamespace AND relname ~ '^log_[0-9]$'});
}

# -- the log is kept for a paused join while another one goes on
load(4);
wait_and_verify($node, 'before the pause');
my $rows = value('SELECT count(*) FROM result');
value(q{SELECT sjoin.pause_join('result')});
load(25);
wait_and_verify($node, 'the other join goes on', 'other');
is(value('SELECT count(*) FROM result'), $rows, 'the paused one does not');
cmp_ok(log_bytes(), '>', 4 * 1024 * 1024, 'the log is kept');

# -- a worker that leaves in order finds the state again; a server that starts shows the pause and rebuilds nothing
my $restarts = restarts();
my $pid = worker_pid($node);
value("SELECT pg_terminate_backend($pid)");
ok(await_worker($node, $pid), 'another worker');
ok($node->poll_query_until('postgres', q{SELECT sjoin.wait_for('other')}), 'and it works');
is(state_of('result'), 'paused', 'still paused');
value(q{SELECT sjoin.resume_join('result')});
wait_and_verify($node, 'resumed');
is(restarts(), $restarts, 'with the state that it had');
ok($node->poll_query_until('postgres', q{SELECT sum(pg_relation_size(oid)) < 16 * 1024 * 1024 FROM pg_class WHERE relnamespace = 'sjoin'::regnamespace AND relname ~ '^log_[0-9]$'}),
	'and the log is let go');

for my $how ('clean restart', 'crash')
{
	value(q{SELECT sjoin.pause_join('result')});
	load(6);
	$how eq 'crash' ? kill_and_start($node) : $node->restart;
	ok($node->poll_query_until('postgres', q{SELECT sjoin.wait_for('other')}), "$how: the other join works");
	is(value(q{SELECT state FROM sjoin.stat_joins WHERE join_name = 'result'}), 'paused', "$how: still paused");
	is(restarts(), 0, "$how: nothing is rebuilt");
	is(value(q{SELECT state_rows FROM sjoin.stat_joins WHERE join_name = 'result'}), 0, "$how: no state");
	load(6);
	value(q{SELECT sjoin.resume_join('result')});
	wait_and_verify($node, "$how: resumed");
	is(restarts(), 1, "$how: rebuilt then");
}

# -- a join created paused outlives a restart, too, and starts as of its creation
value(q{SELECT sjoin.create_join('later', 'SELECT a.id AS a_id, b.id AS b_id, a.k FROM a LEFT JOIN b
	ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''', paused => true, with_data => false)});
load(3);
kill_and_start($node);
ok($node->poll_query_until('postgres', q{SELECT sjoin.wait_for('result')}), 'the others work');
is(state_of('later'), 'paused', 'created paused, still paused');
value(q{SELECT sjoin.resume_join('later')});
wait_and_verify($node, 'created paused, resumed', 'later');
is(value('SELECT count(DISTINCT a_id) <= 6000 AND count(*) > 0 FROM later'), 't', 'rows since its creation');
value(q{SELECT sjoin.drop_join('later')});

# -- a pause while existing rows are read takes effect when they have been read
my $session = $node->background_psql('postgres');
$session->query_safe('SELECT pg_advisory_lock(1)');
value(q{
	CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
	BEGIN;
	SELECT sjoin.create_join('slow', 'SELECT a.id AS a_id, b.id AS b_id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
	CREATE TRIGGER hold BEFORE INSERT ON slow FOR EACH STATEMENT EXECUTE FUNCTION hold();
	COMMIT});
ok($node->poll_query_until('postgres', q{SELECT state = 'backfilling' FROM sjoin.joins WHERE join_name = 'slow'}), 'rows are being read');
value(q{SELECT sjoin.pause_join('slow')});
is(state_of('slow'), 'backfilling', 'shown as what it is');
is(value(q{SELECT sjoin.wait_for('slow')}), 'f', 'and not waited for');
load(1);
$session->query_safe('SELECT pg_advisory_unlock(1)');
$session->quit;
ok($node->poll_query_until('postgres', q{SELECT state = 'paused' FROM sjoin.stat_joins WHERE join_name = 'slow'}), 'then it is paused');
is(value(q{SELECT difference FROM sjoin.verify('slow')}), '', 'with the existing rows');
value(q{SELECT sjoin.resume_join('slow')});
wait_and_verify($node, 'resumed after the existing rows', 'slow');
value(q{SELECT sjoin.drop_join('slow')});

# -- a failed join is tried at once when resumed, whatever its delay
$node->append_conf('postgresql.conf', "sjoin.restart_delay = '1min'");
$node->reload;
value(q{
	CREATE TABLE mood (bad boolean);
	INSERT INTO mood VALUES (true);
	CREATE FUNCTION moody() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT bad FROM public.mood) THEN RAISE EXCEPTION 'not today' USING ERRCODE = 'insufficient_resources'; END IF; RETURN NEW; END $$;
	CREATE TRIGGER moody BEFORE INSERT ON result FOR EACH STATEMENT EXECUTE FUNCTION moody()});
load(1);
ok($node->poll_query_until('postgres', q{SELECT state = 'failed' AND last_error = 'not today' FROM sjoin.joins WHERE join_name = 'result'}), 'failed');
value('UPDATE mood SET bad = false');
value(q{SELECT sjoin.pause_join('result')});
is(value(q{SELECT state || ': ' || last_error FROM sjoin.joins WHERE join_name = 'result'}), 'paused: not today', 'the pause of a failed join clears nothing');
is(value(q{SELECT sjoin.resume_join('result')}), 't', 'resumed');
is(value(q{SELECT sjoin.wait_for('result', timeout => '20 s')}), 't', 'long before it would be tried again');
wait_and_verify($node, 'resumed after a failure');
value('UPDATE mood SET bad = true');
load(1);
ok($node->poll_query_until('postgres', q{SELECT state = 'failed' FROM sjoin.joins WHERE join_name = 'result'}), 'failed again');
value('UPDATE mood SET bad = false');
is(value(q{SELECT sjoin.resume_join('result')}), 'f', 'it was not paused');
is(value(q{SELECT sjoin.wait_for('result', timeout => '20 s')}), 't', 'but is tried at once');
wait_and_verify($node, 'and goes on');
# a failed join starts over
value('UPDATE mood SET bad = true');
load(1);
ok($node->poll_query_until('postgres', q{SELECT state = 'failed' FROM sjoin.joins WHERE join_name = 'result'}), 'failed once more');
value('UPDATE mood SET bad = false');
value(q{SELECT sjoin.refresh_join('result')});
wait_and_verify($node, 'refreshed after a failure');
is(value(q{SELECT last_error IS NULL FROM sjoin.joins WHERE join_name = 'result'}), 't', 'the error is forgotten');
$node->append_conf('postgresql.conf', "sjoin.restart_delay = '50ms'");
$node->reload;
value('DROP TRIGGER moody ON result');

# -- a worker that waits for the result while its join is started over does not write to it as the old join
value(q{TRUNCATE a, b});
my $waits = q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'result'::regclass AND NOT granted};
for my $by ('TRUNCATE', 'DELETE')
{
	value('CREATE TABLE notes (id uuid REFERENCES result ON DELETE CASCADE)') if $by eq 'DELETE';
	value(q{SELECT sjoin.refresh_join('result')});
	wait_and_verify($node, "$by: started over");
	for my $round (1 .. 5)
	{
		value('INSERT INTO a (k, ts) SELECT g, ' . at($time) . ' FROM generate_series(1, 100) g; INSERT INTO b (k, ts) VALUES (0, ' . at($time) . ')');
		value(q{SELECT sjoin.wait_for('result')});
		my $refresher = $node->background_psql('postgres');
		$refresher->query_safe(q{BEGIN; SELECT sjoin.refresh_join('result')});
		# padded rows are due now
		$time += 10;
		value("SELECT sjoin.advance_watermark('a', " . at($time) . "), sjoin.advance_watermark('b', " . at($time) . ')');
		ok($node->poll_query_until('postgres', $waits), "$by, round $round: the worker waits");
		$refresher->query_safe('COMMIT');
		$refresher->quit;
		wait_and_verify($node, "$by, round $round");
	}
	value('DROP TABLE notes') if $by eq 'DELETE';
}
# the same while its first start waits
for my $round (1 .. 3)
{
	value(q{DROP TABLE result});
	left_join_paused();
	my $refresher = $node->background_psql('postgres');
	$refresher->query_safe('BEGIN; LOCK TABLE result IN SHARE MODE');
	value(q{SELECT sjoin.resume_join('result')});
	ok($node->poll_query_until('postgres', $waits), "first start, round $round: the worker waits");
	$refresher->query_safe(q{SELECT sjoin.refresh_join('result')});
	ok($node->poll_query_until('postgres', $waits), "first start, round $round: and again");
	$refresher->query_safe('COMMIT');
	$refresher->quit;
	wait_and_verify($node, "first start, round $round");
}

sub left_join_paused
{
	value(q{SELECT sjoin.create_join('result', 'SELECT a.id AS a_id, b.id AS b_id, a.k FROM a LEFT JOIN b
		ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''', paused => true)});
	return;
}

# -- starting over under load: emptied by TRUNCATE, and by DELETE where something refers to the result
my $pairs = q{SELECT count(*) FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval '5 s'};
for my $by ('TRUNCATE', 'DELETE')
{
	value('CREATE TABLE notes (id uuid REFERENCES result ON DELETE CASCADE)') if $by eq 'DELETE';
	for my $how ('undisturbed', 'rolled back', 'worker killed', 'server crashed')
	{
		value(q{SELECT sjoin.refresh_join('result')});
		my $load = writer($node, 150);
		if ($how eq 'rolled back')
		{
			value(q{BEGIN; SELECT sjoin.refresh_join('result'); ROLLBACK}) for 1 .. 5;
		}
		else
		{
			value(q{SELECT sjoin.refresh_join('result')}) for 1 .. 3;
		}
		if ($how eq 'worker killed')
		{
			my $worker = worker_pid($node);
			kill 'KILL', $worker if $worker;
		}
		if ($how eq 'server crashed')
		{
			$node->stop('immediate');
			$node->start;
		}
		$load->finish;
		await_server($node);
		ok($node->poll_query_until('postgres', q{SELECT sjoin.wait_for('result', timeout => '60 s')}), "$by, $how: settled");
		value(q{SELECT sjoin.refresh_join('result')});
		wait_and_verify($node, "$by, $how");
		is(value('SELECT count(*) FROM result WHERE b_id IS NOT NULL'), value($pairs), "$by, $how: all pairs");
		is(value('SELECT count(*) FROM sjoin.join_stats()'), value('SELECT count(*) FROM sjoin.join_def'), "$by, $how: no slot is left over");
	}
}
$node->stop;
done_testing();

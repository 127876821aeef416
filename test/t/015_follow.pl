# The consumer of doc/follow.md follows a result under load, while worker and server die now and then: each row once, in order.
use strict;
use warnings;
use IPC::Run ();
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('follow');
two_streams($node);
left_join($node, q{output_mode => 'append', notify_channel => 'News'});

# -- what a notification says
my $heard = $node->safe_psql('postgres', q{
	LISTEN "News";
	INSERT INTO a (k, ts) SELECT g, '2024-01-01 09:00+00' FROM generate_series(-3, -1) g;
	INSERT INTO b (k, ts) SELECT g, '2024-01-01 09:00+00' FROM generate_series(-3, -1) g;
	SELECT sjoin.wait_for('result');
	SELECT 'asked once more';});
my @payloads = map { decode_json($_) } $heard =~ /Asynchronous notification "News" with payload "(\{.*\})" received/g;
is_deeply(\@payloads,
	[{ join => 'public.result', rows => 3, retracted => 0, seq => 3, watermark => '2024-01-01T09:00:00+00:00' }],
	'one notification for the batch that wrote')
	or diag($heard);
$heard = $node->safe_psql('postgres', q{
	LISTEN "News";
	INSERT INTO a (k, ts) VALUES (-4, '2024-01-01 09:00+00');
	SELECT sjoin.wait_for('result');
	SELECT 'asked once more';});
unlike($heard, qr/notification/, 'none for a batch that wrote nothing');
is($node->safe_psql('postgres', q{SELECT count(*) FROM sjoin.explain('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', notify_channel => 'News')
	WHERE explain = 'notification: on channel "News" for each batch that writes rows'}), '1', 'explain names the channel');

# -- the consumer
sub start_consumer
{
	my ($result, $after, $out) = @_;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = 'postgres';
	return IPC::Run::start([ '/usr/bin/python3', $ENV{SJOIN_DOC} . '/follow.py', "public.$result", 'News', $after ],
		'>', $out, '2>', "$out.err");
}

sub rows_in
{
	my ($file) = @_;
	return map { decode_json($_) } grep { /\}$/ } split /\n/, slurp_file($file);
}

# Waits until the consumer has seen the last row of the result, whatever else happens
sub await_rows
{
	my ($file, $result) = (@_, 'result');
	my $last = $node->safe_psql('postgres', "SELECT coalesce(max(sjoin_seq), 0) FROM $result");
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my @rows = rows_in($file);
		return @rows if @rows && $rows[-1]{sjoin_seq} >= $last;
		select(undef, undef, undef, 0.1);
	}
	diag("the consumer has not come to $last: " . slurp_file("$file.err"));
	return rows_in($file);
}

my $first_file = $node->basedir . '/first';
my $consumer = start_consumer('result', 0, $first_file);
for my $how ('undisturbed', 'worker terminated', 'worker killed', 'server crashed')
{
	my $load = writer($node, 300);
	disturb($node, $how);
	$load->finish;
	$node->poll_query_until('postgres', q{SELECT sjoin.wait_for('result', timeout => '60 s')});
	wait_and_verify($node, $how);
	is(scalar(await_rows($first_file)), $node->safe_psql('postgres', 'SELECT count(*) FROM result'), "$how: the consumer has seen as many rows");
}

# A second one goes on where the first has stopped.
my @first = await_rows($first_file);
$consumer->kill_kill;
my $second_file = $node->basedir . '/second';
$consumer = start_consumer('result', $first[-1]{sjoin_seq}, $second_file);
my $load = writer($node, 100);
$load->finish;
wait_and_verify($node, 'after the load');
my @second = await_rows($second_file);
my @seen = (@first, @second);
is_deeply([ map { $_->{sjoin_seq} } @seen ], [ 1 .. @seen ], 'each row once, in order');
is(join("\n", sort map { "$_->{sjoin_seq}|$_->{sjoin_id}|$_->{k}" } @seen),
	join("\n", sort split /\n/, $node->safe_psql('postgres', 'SELECT sjoin_seq, sjoin_id, k FROM result')), 'and they are the rows');

my $last = $seen[-1]{sjoin_seq};
my $removed = $node->safe_psql('postgres', q{SELECT sjoin.refresh_join('result')});
is($removed, scalar(@seen), 'a refresh takes out all rows');
wait_and_verify($node, 'refreshed');
my @third = await_rows($second_file);
@third = grep { $_->{sjoin_seq} > $last } @third;
is_deeply([ map { $_->{sjoin_seq} } @third ], [ $last + 1 .. $last + @third ], 'after a refresh rows come under numbers that go on');
is(scalar(@third), $node->safe_psql('postgres', 'SELECT count(*) FROM result'), 'all of them');
$consumer->kill_kill;

# -- a changelog, while rows are updated and deleted: what the consumer makes of it is the upsert table
$node->safe_psql('postgres', q{SELECT sjoin.drop_join('result'); TRUNCATE a, b});
left_join($node, q{output_mode => 'changelog', notify_channel => 'News'}, 'log');
left_join($node, '', 'truth');
my $third_file = $node->basedir . '/third';
$consumer = start_consumer('log', 0, $third_file);
for my $how ('undisturbed', 'worker terminated', 'worker killed', 'server crashed')
{
	my $changes = changing_writer($node, 200);
	disturb($node, $how);
	$changes->finish;
	$node->poll_query_until('postgres', q{SELECT sjoin.wait_for(timeout => '60 s')});
	is($node->safe_psql('postgres', q{SELECT * FROM sjoin.verify('log') WHERE difference <> 'settled'}), '', "changelog, $how: verify");
}
my (%table, %kinds);
my $sound = 1;
my @log = await_rows($third_file, 'log');
for my $row (@log)
{
	my ($id, $op) = @$row{qw(sjoin_id sjoin_op)};
	$kinds{$op}++;
	my $values = join '|', map { $_ // '' } @$row{qw(a_id k b_id)};
	if ($op eq '-D' || $op eq '-U')
	{
		$sound &&= defined $table{$id} && $table{$id} eq "$values|$row->{sjoin_version}";
		delete $table{$id};
		next;
	}
	$sound &&= !defined $table{$id};
	$table{$id} = "$values|$row->{sjoin_version}";
}
ok($sound, 'what is taken back is what was there');
is_deeply([ map { $_->{sjoin_seq} } @log ], [ 1 .. @log ], 'each row of the changelog once, in order');
is(join(' ', sort keys %kinds), '+I +U -D -U', 'of all kinds');
is(join("\n", sort map { "$_|$table{$_}" } keys %table),
	join("\n", sort split /\n/, $node->safe_psql('postgres', q{SELECT sjoin_id, a_id, k, b_id, sjoin_version FROM truth})), 'the replay is the upsert table');
$consumer->kill_kill;
$node->stop;
done_testing();

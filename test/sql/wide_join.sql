-- A wide join has no time range: how long each side stays joinable is part of the join condition.
CREATE SCHEMA wide_join;
SET search_path = wide_join;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;

CREATE TABLE account (id int, name text, seen timestamptz);
CREATE TABLE movement (no int, account int, amount int, at timestamptz);
SELECT sjoin.create_stream('account', 'seen', watermark_delay => '0 s');
SELECT sjoin.create_stream('movement', 'at', watermark_delay => '0 s');
SELECT sjoin.create_join('wide', $$
    SELECT m.no, m.amount, a.name FROM movement m LEFT JOIN account a ON a.id = m.account $$,
    timeout => '5 s', side_ttl => '{"m": "1 min", "a": "10 min"}');
SELECT sjoin.wait_for();
SELECT kind, timeout, ttl, allowed_lateness FROM sjoin.joins;

INSERT INTO account VALUES (1, 'one', '2024-01-01 10:00:00+00');
INSERT INTO movement VALUES (1, 1, 10, '2024-01-01 10:00:01+00'), (2, 2, 20, '2024-01-01 10:00:01+00');
SELECT sjoin.wait_for('wide');
SELECT no, amount, name FROM wide ORDER BY no;

-- after the timeout the row of the unknown account comes out padded ...
SELECT sjoin.advance_watermark('account', '2024-01-01 10:00:07+00'), sjoin.advance_watermark('movement', '2024-01-01 10:00:07+00');
SELECT sjoin.wait_for('wide');
SELECT no, amount, name, sjoin_version FROM wide ORDER BY no;
-- ... and the account, when it comes within the ttl, corrects it
INSERT INTO account VALUES (2, 'two', '2024-01-01 10:01:01+00');
SELECT sjoin.wait_for('wide');
SELECT no, amount, name FROM wide ORDER BY no;
-- a microsecond beyond the ttl: no partner
INSERT INTO account VALUES (1, 'later one', '2024-01-01 10:01:01.000001+00');
INSERT INTO movement VALUES (3, 2, 30, '2024-01-01 10:11:01+00'), (4, 2, 40, '2024-01-01 10:11:01.000001+00');
SELECT sjoin.wait_for('wide');
SELECT no, amount, name FROM wide ORDER BY no, name;
SELECT sjoin.advance_watermark('account', '2024-01-01 12:00+00'), sjoin.advance_watermark('movement', '2024-01-01 12:00+00');
SELECT sjoin.wait_for('wide');
SELECT no, amount, name FROM wide ORDER BY no, name;
SELECT * FROM sjoin.verify('wide');
SELECT state_rows FROM sjoin.stat_joins;
DROP SCHEMA wide_join CASCADE;

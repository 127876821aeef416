-- upsert: rows of the result are updated in place and deleted; sjoin_id stays, sjoin_version counts the steps that changed the row.
CREATE SCHEMA updates_result;
SET search_path = updates_result;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;

CREATE TABLE a (id int PRIMARY KEY, k int, ts timestamptz, v int, other int);
CREATE TABLE b (id int PRIMARY KEY, k int, ts timestamptz, v int);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s'), sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
SELECT sjoin.create_join('result', $$
    SELECT a.id AS a_id, b.id AS b_id, a.v AS a_v, b.v AS b_v
      FROM a LEFT JOIN b ON a.k = b.k AND a.other >= 0 AND b.ts BETWEEN a.ts AND a.ts + interval '10 s' $$);
SELECT sjoin.wait_for();
CREATE TABLE ids AS SELECT a_id, b_id, sjoin_id FROM result;
CREATE FUNCTION look() RETURNS TABLE (a_id int, b_id int, a_v int, b_v int, version int, same_id bool) LANGUAGE plpgsql AS $$
BEGIN
    IF NOT sjoin.wait_for() THEN RAISE 'wait_for returned false'; END IF;
    RETURN QUERY SELECT r.a_id, r.b_id, r.a_v, r.b_v, r.sjoin_version, i.sjoin_id = r.sjoin_id
      FROM result r LEFT JOIN ids i ON (i.a_id, coalesce(i.b_id, 0)) = (r.a_id, coalesce(r.b_id, 0)) ORDER BY 1, 2;
    DELETE FROM ids;
    INSERT INTO ids SELECT r.a_id, r.b_id, r.sjoin_id FROM result r;
END $$;

INSERT INTO a VALUES (1, 1, '2024-01-01 10:00:00', 10, 0), (2, 2, '2024-01-01 10:00:00', 20, 0);
INSERT INTO b VALUES (1, 1, '2024-01-01 10:00:01', 11), (2, 1, '2024-01-01 10:00:02', 12);
SELECT * FROM look();
UPDATE a SET v = 100 WHERE id = 1;
UPDATE b SET v = 120 WHERE id = 2;
SELECT * FROM look();
-- nothing that the result has changes: no write
CREATE TABLE before AS SELECT sjoin_id, xmin::text AS writer, sjoin_at FROM result;
UPDATE a SET other = 1;
UPDATE a SET v = v;
SELECT * FROM look();
SELECT count(*) FROM result r JOIN before f ON (f.sjoin_id, f.writer, f.sjoin_at) = (r.sjoin_id, r.xmin::text, r.sjoin_at);
-- another key and back: a new row each time
UPDATE b SET k = 9 WHERE id = 2;
SELECT * FROM look();
UPDATE b SET k = 1 WHERE id = 2;
SELECT * FROM look();
DELETE FROM b WHERE id = 1;
DELETE FROM a WHERE id = 2;
SELECT * FROM look();
SELECT * FROM sjoin.verify('result');
SELECT rows_out, rows_retracted FROM sjoin.stat_joins WHERE join_name = 'result';

-- SJ-034: a log by trigger lets a consumer rebuild the result: the padded row is deleted, the pair inserted, with identities of their own
CREATE TABLE log (n int GENERATED ALWAYS AS IDENTITY, op text, old result, new result);
CREATE FUNCTION log_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO updates_result.log (op, old, new) VALUES (TG_OP, CASE WHEN TG_OP <> 'INSERT' THEN OLD END, CASE WHEN TG_OP <> 'DELETE' THEN NEW END);
    RETURN NULL;
END $$;
CREATE TABLE consumer (LIKE result);
INSERT INTO consumer TABLE result;
CREATE TRIGGER log_change AFTER INSERT OR UPDATE OR DELETE ON result FOR EACH ROW EXECUTE FUNCTION log_change();
INSERT INTO a VALUES (5, 5, '2024-01-01 10:00:00', 50, 0), (6, 6, '2024-01-01 10:00:00', 60, 0);
SELECT sjoin.advance_watermark('a', '2024-01-01 10:00:10.000001'), sjoin.advance_watermark('b', '2024-01-01 10:00:10.000001');
SELECT sjoin.wait_for();
INSERT INTO b VALUES (5, 5, '2024-01-01 10:00:05', 55);
SELECT sjoin.wait_for();
UPDATE b SET v = 56 WHERE id = 5;
SELECT sjoin.wait_for();
UPDATE a SET v = 61 WHERE id = 6;
SELECT sjoin.wait_for();
DELETE FROM b WHERE id = 5;
SELECT sjoin.wait_for();
SELECT op, (old).a_id, (old).b_id, (old).a_v, (old).b_v, (old).sjoin_version AS version,
       (new).a_id, (new).b_id, (new).a_v, (new).b_v, (new).sjoin_version AS version FROM log ORDER BY n;
DO $$
DECLARE l log; gone int;
BEGIN
    FOR l IN SELECT * FROM log ORDER BY n LOOP
        IF l.op <> 'INSERT' THEN
            DELETE FROM consumer c WHERE c = l.old;
            GET DIAGNOSTICS gone = ROW_COUNT;
            IF gone <> 1 THEN RAISE 'the consumer does not have %', l.old; END IF;
        END IF;
        IF l.op <> 'DELETE' THEN INSERT INTO consumer SELECT (l.new).*; END IF;
    END LOOP;
END $$;
(TABLE consumer EXCEPT ALL TABLE result) UNION ALL (TABLE result EXCEPT ALL TABLE consumer);
SELECT * FROM sjoin.verify('result');
DROP SCHEMA updates_result CASCADE;

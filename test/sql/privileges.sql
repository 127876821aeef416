-- Who may do and see what; a user's code runs with the rights of the result's owner.
CREATE SCHEMA privileges;
SET search_path = privileges;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;
CREATE ROLE sjoin_regress_owner;
CREATE ROLE sjoin_regress_reader;
GRANT USAGE, CREATE ON SCHEMA privileges TO sjoin_regress_owner;
GRANT USAGE ON SCHEMA privileges TO sjoin_regress_reader;

-- an ordinary user makes tables, streams and a join, and owns the result
SET ROLE sjoin_regress_owner;
CREATE TABLE a (id int, k int, ts timestamptz);
CREATE TABLE b (id int, k int, ts timestamptz);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s');
SELECT sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
CREATE FUNCTION who(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN current_user; END $$;
SELECT sjoin.create_join('result', $$
    SELECT a.id AS a_id, b.id AS b_id, who(a.id) AS target, who(b.id) AS other
      FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval '5 s'
     WHERE who(a.id) = 'sjoin_regress_owner' AND who(a.id + b.id) = 'sjoin_regress_owner' $$);
SELECT sjoin.wait_for('result');
SELECT tableowner FROM pg_tables WHERE tablename = 'result' AND schemaname = 'privileges';

-- a trigger and a deferred constraint of the owner's run as the owner too
CREATE TABLE noted (what text, who text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SET search_path = privileges AS $$
BEGIN INSERT INTO noted VALUES (TG_NAME, current_user); RETURN NULL; END $$;
CREATE TRIGGER plain AFTER INSERT ON result FOR EACH ROW EXECUTE FUNCTION note();
CREATE CONSTRAINT TRIGGER deferred AFTER INSERT ON result DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
INSERT INTO a VALUES (1, 1, '2024-01-01 10:00:00+00');
INSERT INTO b VALUES (1, 1, '2024-01-01 10:00:00+00');
INSERT INTO b VALUES (2, 1, NULL);
SELECT sjoin.wait_for('result');
SELECT a_id, b_id, target, other FROM result;
SELECT * FROM noted ORDER BY what;
SELECT input, reason FROM sjoin.late_rows;
SELECT * FROM sjoin.verify('result');

-- somebody else sees that the join is there, and not what is in it
SET ROLE sjoin_regress_reader;
SELECT join_name, owner, state, query FROM sjoin.joins;
SELECT stream, watermark FROM sjoin.streams ORDER BY 1;
SELECT join_name, rows_in, rows_out FROM sjoin.stat_joins;
SELECT input, rows_in FROM sjoin.stat_inputs ORDER BY 1;
SELECT count(*) FROM sjoin.late_rows;
SELECT * FROM sjoin.late_row;
SELECT * FROM sjoin.log_0;
SELECT * FROM sjoin.verify('result');
SELECT * FROM result;
SELECT sjoin.wait_for('result');
INSERT INTO a VALUES (9, 9, '2024-01-01 10:00:00+00');
CREATE TRIGGER mine AFTER INSERT ON a FOR EACH ROW EXECUTE FUNCTION sjoin.capture();

-- a writer needs no right on anything of sjoin's
RESET ROLE;
GRANT INSERT ON a, b TO sjoin_regress_reader;
SET ROLE sjoin_regress_reader;
INSERT INTO a VALUES (3, 3, '2024-01-01 10:00:00+00');
INSERT INTO b VALUES (3, 3, '2024-01-01 10:00:00+00');
SET ROLE sjoin_regress_owner;
SELECT sjoin.wait_for('result');
SELECT a_id, b_id, target, other FROM result ORDER BY 1;

-- row-level security of an input would hide rows from the result's owner
RESET ROLE;
CREATE TABLE secret (id int, k int, ts timestamptz);
SELECT sjoin.create_stream('secret', 'ts');
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON secret TO sjoin_regress_owner;
SET ROLE sjoin_regress_owner;
SELECT sjoin.create_join('hidden', 'SELECT a.id FROM a JOIN secret s ON s.k = a.k AND s.ts = a.ts');
RESET ROLE;

DROP SCHEMA privileges CASCADE;
DROP ROLE sjoin_regress_owner;
DROP ROLE sjoin_regress_reader;

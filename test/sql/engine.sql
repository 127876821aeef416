-- The engine by itself: unit tests and random joins, in memory of their own.
CREATE EXTENSION sjoin_test;
SELECT sjoin_test.engine_memory();
SELECT sjoin_test.engine_many_keys(20000);
SELECT sjoin_test.engine_one_key(20000);
SELECT sjoin_test.engine_far_apart();
SELECT sjoin_test.engine_compaction();
SELECT sjoin_test.engine_churn(20000);
SELECT sjoin_test.engine_deadlines(20000);
SELECT sjoin_test.engine_keyless();
SELECT sjoin_test.engine_steps();
SELECT sjoin_test.engine_versions();
SELECT sjoin_test.engine_version_memory(20000);
SELECT sjoin_test.engine_large_rows();
SELECT sjoin_test.engine_detached();
SELECT sjoin_test.engine_replay();
SELECT sjoin_test.engine_random(1, 200) > 0 AS same_seeds;
-- a failure names its seed
SELECT sjoin_test.engine_random((random() * 1e12)::bigint, 200) > 0 AS new_seeds;
SET timezone = 'America/New_York';
SELECT sjoin_test.bounds_random(5000) > 0 AS new_york;
SET timezone = 'Australia/Lord_Howe';
SELECT sjoin_test.bounds_random(5000) > 0 AS lord_howe;
DROP EXTENSION sjoin_test;

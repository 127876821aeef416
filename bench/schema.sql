-- Three pairs of tables: bare, joined by sjoin, and joined by a row trigger as one writes it by hand.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS sjoin;
DROP SCHEMA IF EXISTS bare, streams, by_hand CASCADE;
CREATE SCHEMA bare;
CREATE SCHEMA streams;
CREATE SCHEMA by_hand;

CREATE TABLE bare.orders (order_id bigint, amount int, created_at timestamptz);
CREATE TABLE bare.payments (order_id bigint, amount int, paid_at timestamptz);
CREATE TABLE streams.orders (LIKE bare.orders);
CREATE TABLE streams.payments (LIKE bare.payments);
CREATE TABLE by_hand.orders (LIKE bare.orders);
CREATE TABLE by_hand.payments (LIKE bare.payments);

SELECT sjoin.create_stream('streams.orders', 'created_at'), sjoin.create_stream('streams.payments', 'paid_at');

-- The join by hand: each new row looks the other table up by an index and writes what it finds.
CREATE INDEX ON by_hand.orders (order_id);
CREATE INDEX ON by_hand.payments (order_id);
CREATE TABLE by_hand.result (order_id bigint, amount int, paid int, created_at timestamptz, paid_at timestamptz);
CREATE FUNCTION by_hand.join_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO by_hand.result
        SELECT NEW.order_id, NEW.amount, p.amount, NEW.created_at, p.paid_at FROM by_hand.payments p
         WHERE p.order_id = NEW.order_id AND p.paid_at BETWEEN NEW.created_at AND NEW.created_at + interval '1 minute';
    RETURN NULL;
END $$;
CREATE FUNCTION by_hand.join_payment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO by_hand.result
        SELECT o.order_id, o.amount, NEW.amount, o.created_at, NEW.paid_at FROM by_hand.orders o
         WHERE o.order_id = NEW.order_id AND NEW.paid_at BETWEEN o.created_at AND o.created_at + interval '1 minute';
    RETURN NULL;
END $$;
-- The left join by hand: a padded row at once, replaced when a partner comes.
CREATE FUNCTION by_hand.left_join_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO by_hand.result
        SELECT NEW.order_id, NEW.amount, p.amount, NEW.created_at, p.paid_at FROM by_hand.payments p
         WHERE p.order_id = NEW.order_id AND p.paid_at BETWEEN NEW.created_at AND NEW.created_at + interval '1 minute';
    IF NOT FOUND THEN
        INSERT INTO by_hand.result VALUES (NEW.order_id, NEW.amount, NULL, NEW.created_at, NULL);
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION by_hand.left_join_payment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE by_hand.result SET paid = NEW.amount, paid_at = NEW.paid_at
     WHERE order_id = NEW.order_id AND paid_at IS NULL AND NEW.paid_at BETWEEN created_at AND created_at + interval '1 minute';
    IF NOT FOUND THEN
        INSERT INTO by_hand.result
            SELECT o.order_id, o.amount, NEW.amount, o.created_at, NEW.paid_at FROM by_hand.orders o
             WHERE o.order_id = NEW.order_id AND NEW.paid_at BETWEEN o.created_at AND o.created_at + interval '1 minute';
    END IF;
    RETURN NULL;
END $$;

-- What a row trigger on deletions costs that does nothing.
CREATE FUNCTION by_hand.nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;

-- Orders and their payments a second later, a millisecond apart; each tenth order is not paid when 'unpaid'.
-- rows_each = 0: all in one transaction, else transactions of so many rows.
CREATE PROCEDURE bare.load(target text, orders int, rows_each int, unpaid boolean) LANGUAGE plpgsql AS $$
DECLARE
    width int := CASE WHEN rows_each = 0 THEN orders ELSE rows_each END;
BEGIN
    FOR start IN 0 .. orders - 1 BY width LOOP
        EXECUTE format('INSERT INTO %I.orders SELECT g, g %% 1000, timestamptz ''2024-01-01'' + g * interval ''1 ms''
            FROM generate_series($1, $2) g', target) USING start, start + width - 1;
        IF rows_each > 0 THEN COMMIT; END IF;
        EXECUTE format('INSERT INTO %I.payments SELECT g, g %% 1000, timestamptz ''2024-01-01'' + g * interval ''1 ms'' + interval ''1 s''
            FROM generate_series($1, $2) g WHERE NOT $3 OR g %% 10 <> 0', target) USING start, start + width - 1, unpaid;
        IF rows_each > 0 THEN COMMIT; END IF;
    END LOOP;
END $$;

#!/usr/bin/python3
"""Follows the result of a join: prints each row once, in order, as a line of JSON.

    follow.py RESULT CHANNEL [AFTER]

RESULT has sjoin_seq (output_mode => 'append' or 'changelog'), CHANNEL is its notify_channel, and AFTER is the last number that was seen (0: from the
beginning).  Connects as libpq's environment variables say, and again when the server goes away.
"""
import json
import select
import sys
import time

import psycopg2
from psycopg2 import sql

POLL_SECONDS = 10.0                     # also look without a notification: one may have been sent while nobody listened
RECONNECT_SECONDS = 0.5
ROWS_AT_ONCE = 1000


def handle(row):
    """What is to be done with a row."""
    print(json.dumps(row), flush=True)


def rows_after(connection, result, after):
    """Yields the number and the row of all that there is after a number."""
    query = sql.SQL("SELECT sjoin_seq, to_jsonb(r) FROM {} r WHERE sjoin_seq > %s ORDER BY sjoin_seq LIMIT %s").format(
        sql.Identifier(*result.split(".")))
    while True:
        with connection.cursor() as cursor:
            cursor.execute(query, (after, ROWS_AT_ONCE))
            rows = cursor.fetchall()
        yield from rows
        if len(rows) < ROWS_AT_ONCE:
            return
        after = rows[-1][0]


def wait_for_news(connection):
    """Returns when a notification has come, or after a while."""
    if not connection.notifies:
        select.select([connection], [], [], POLL_SECONDS)
        connection.poll()
    connection.notifies.clear()


def follow(result, channel, after):
    while True:
        try:
            connection = psycopg2.connect("")
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            while True:                 # LISTEN first, then look: nothing falls between
                for seq, row in rows_after(connection, result, after):
                    handle(row)
                    after = seq
                wait_for_news(connection)
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            print(f"follow: {error}".rstrip(), file=sys.stderr)
            time.sleep(RECONNECT_SECONDS)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    try:
        follow(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else 0)
    except KeyboardInterrupt:
        pass

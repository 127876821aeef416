/*-------------------------------------------------------------------------
 *
 * verify_settled.c
 *	  Telling differences that rest on settled rows from real ones (R1).
 *
 * What became of settled rows is not followed: a retention job may delete
 * them, and its deletions are not even captured.  The result keeps their rows,
 * and the batch query no longer has them.  So where the plain comparison finds
 * differences, they are looked at again, row by row.
 *
 * A row of the result too many is settled when one of its inputs
 *
 *	is not live		its number is in the result's sjoin_id; the log knows the
 *					images that are not older than the horizon, for the rows
 *					in state are carried forward and everything later is in it
 *	is gone			the result rests on more rows that are not live and show
 *					these values than the join has accepted, the table still
 *					has, and are behind the horizon.  Rows are told apart by
 *					the columns that are plainly theirs; of an input that shows
 *					none, nobody can say.
 *
 * And there can be no more of them than the result has rows, with numbers that
 * have been given out, beyond those that the batch query explains.
 *
 * A row that is missing is settled when it is an unmatched one whose own side
 * is in the result with a partner that has gone, as often as there are such; or
 * when it had a partner and the pair was refused.
 *
 * IDENTIFICATION
 *	  src/api/verify_settled.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/verify_settled.h"
#include "catalog/pg_type.h"
#include "emit/side_output.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "store/checkpoint.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "worker/join_input.h"
#include "worker/task.h"

/* -- live rows ------------------------------------------------------------ */

/* Rows that have the same image now: a stack of their numbers. */
typedef struct ImageRows
{
	SjImageKey	key;
	List	   *seqs;			/* of int64 * */
} ImageRows;

typedef struct NumberKey
{
	int64		seq;
	int64		side;
} NumberKey;

typedef struct Number
{
	NumberKey	key;
	Oid			source;			/* of its newest image */
	SjTime		event_time;		/* the same */
	uint64		txn;			/* which has made that image */
	SjTime		before;			/* event time as that has found it */
} Number;

typedef struct LiveRows
{
	MemoryContext context;		/* the lists live here */
	SjTaskInput input[2];
	HTAB	   *images;
	HTAB	   *numbers;
	uint64		txn;			/* at hand, counted; 0: what was carried */
} LiveRows;

static HTAB *
make_hash(const char *name, Size keysize, Size entrysize)
{
	HASHCTL		ctl = {.keysize = keysize,.entrysize = entrysize,
		.hcxt = CurrentMemoryContext};

	return hash_create(name, 1024, &ctl,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
note_number(LiveRows *rows, SjSide side, Oid source, int64 seq,
			SjTime event_time)
{
	NumberKey	key = {seq, side};
	bool		found;
	Number	   *number = hash_search(rows->numbers, &key, HASH_ENTER, &found);

	if (!found || number->txn != rows->txn)
		number->before = found ? number->event_time : SJ_TIME_MIN;
	number->source = source;
	number->event_time = event_time;
	number->txn = rows->txn;
}

/*
 * The transaction takes out what it has made of the row: the net of it is that
 * the image that it has found is gone, which the join keeps if it was settled.
 */
static void
forget_stage(LiveRows *rows, SjSide side, int64 seq)
{
	NumberKey	key = {seq, side};
	Number	   *number = hash_search(rows->numbers, &key, HASH_FIND, NULL);

	if (number != NULL && number->txn == rows->txn)
		number->event_time = number->before;
}

/* The same of all rows of a table, or partition, that is truncated. */
static void
forget_stages(LiveRows *rows, SjSide side, Oid source)
{
	HASH_SEQ_STATUS status;
	Number	   *number;

	hash_seq_init(&status, rows->numbers);
	while ((number = hash_seq_search(&status)) != NULL)
		if (number->key.side == side && number->source == source &&
			number->txn == rows->txn)
			number->event_time = number->before;
}

static ImageRows *
find_image(LiveRows *rows, SjSide side, Oid source, MinimalTuple image)
{
	SjImageKey	key;
	ImageRows  *entry;
	bool		found;

	sj_image_key(rows->input[side].plan, side, source, image, &key);
	entry = hash_search(rows->images, &key, HASH_ENTER, &found);
	if (!found)
		entry->seqs = NIL;
	return entry;
}

/* The number of a row that had the image; 'otherwise' when none is known. */
static int64
take_number(LiveRows *rows, SjSide side, Oid source, MinimalTuple image,
			int64 otherwise)
{
	ImageRows  *entry = find_image(rows, side, source, image);
	int64		seq;

	if (entry->seqs == NIL)
		return otherwise;
	seq = *(int64 *) llast(entry->seqs);
	entry->seqs = list_delete_last(entry->seqs);
	return seq;
}

static void
put_number(LiveRows *rows, SjSide side, Oid source, MinimalTuple image,
		   int64 seq)
{
	ImageRows  *entry = find_image(rows, side, source, image);
	MemoryContext old = MemoryContextSwitchTo(rows->context);
	int64	   *copy = palloc(sizeof(int64));

	*copy = seq;
	entry->seqs = lappend(entry->seqs, copy);
	MemoryContextSwitchTo(old);
	note_number(rows, side, source, seq,
				sj_input_tuple_time(&rows->input[side], image));
}

static void
note_carried(void *arg, const SjCarriedRow *carried, MinimalTuple tuple)
{
	if ((carried->flags & SJ_ROW_GONE) == 0)
		put_number(arg, carried->side, carried->source, tuple, carried->seq);
}

/*
 * An UPDATE keeps the number of the row; one that a transaction has inserted,
 * too, gets the number of its last record.
 */
static void
note_record(LiveRows *rows, SjSide side, SjImageLayout *layout, Oid source,
			SjLogRecord *record, int64 seq)
{
	SjTaskInput *input = &rows->input[side];
	int64		kept = seq;
	MinimalTuple image;

	if (record->op == SJ_OP_TRUNCATE)
		forget_stages(rows, side, source);
	if (record->op != SJ_OP_INSERT && record->op != SJ_OP_UPDATE &&
		record->op != SJ_OP_DELETE)
		return;
	if (record->op != SJ_OP_INSERT)
		kept = take_number(rows, side, source,
						   sj_input_tuple(input, layout,
										  record->op == SJ_OP_UPDATE ?
										  SJ_RECORD_OLD_IMAGE(record) :
										  SJ_RECORD_IMAGE(record)), seq);
	if (record->op == SJ_OP_DELETE)
	{
		forget_stage(rows, side, kept);
		return;
	}
	image = sj_input_tuple(input, layout, SJ_RECORD_IMAGE(record));
	put_number(rows, side, source, image, kept);
	note_number(rows, side, source, seq, sj_input_tuple_time(input, image));
}

static void
note_chunk(LiveRows *rows, const SjChunk *chunk)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		SjImageLayout *layout = sj_input_layout(&rows->input[side],
												chunk->layout);
		char	   *space = chunk->data;

		for (int i = 0; layout != NULL && i < chunk->n; i++)
		{
			SjLogRecord *record = (SjLogRecord *) space;

			note_record(rows, side, layout, chunk->source, record,
						chunk->seq + i);
			space += record->size;
		}
	}
}

static void
note_log(LiveRows *rows, const SjTick *before, Snapshot snapshot)
{
	SjTickReader *reader = sj_log_open_tick(before, sj_tick_take(0, snapshot));

	for (int t = 0; t < reader->ntxns; t++)
	{
		SjLogTxn   *txn = &reader->txns[t];

		rows->txn++;
		for (int i = txn->first_chunk; i < txn->first_chunk + txn->nchunks; i++)
		{
			SjChunk		chunk;

			CHECK_FOR_INTERRUPTS();
			sj_log_read_chunk(reader, i, &chunk);
			note_chunk(rows, &chunk);
			pfree(chunk.data);
		}
	}
	sj_log_close_tick(reader);
}

TupleDesc
sj_live_desc(void)
{
	TupleDesc	desc = CreateTemplateTupleDesc(2);

	TupleDescInitEntry(desc, 1, "side", INT2OID, -1, 0);
	TupleDescInitEntry(desc, 2, "seq", INT8OID, -1, 0);
	return desc;
}

static Tuplestorestate *
store_live(LiveRows *rows, SjTime horizon)
{
	Tuplestorestate *store = tuplestore_begin_heap(false, false, work_mem);
	TupleDesc	desc = sj_live_desc();
	HASH_SEQ_STATUS status;
	Number	   *number;

	hash_seq_init(&status, rows->numbers);
	while ((number = hash_seq_search(&status)) != NULL)
	{
		Datum		value[2] = {Int16GetDatum(number->key.side),
		Int64GetDatum(number->key.seq)};
		bool		null[2] = {false, false};

		if (number->event_time >= horizon)
			tuplestore_putvalues(store, desc, value, null);
	}
	return store;
}

Tuplestorestate *
sj_live_rows(const SjJoinDef *def, const SjJoinPlan *plan,
			 const SjJoinQuery *query, const SjPosition *position,
			 Snapshot snapshot)
{
	LiveRows	rows = {.context = CurrentMemoryContext};

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		sj_input_open(&rows.input[side], side, query, plan);
	rows.images = make_hash("sjoin images", sizeof(SjImageKey),
							sizeof(ImageRows));
	rows.numbers = make_hash("sjoin numbers", sizeof(NumberKey),
							 sizeof(Number));
	if (FullTransactionIdIsValid(position->base_xid))
		sj_checkpoint_read(def->join_id, position->base_xid, note_carried,
						   &rows);
	note_log(&rows, sj_consumed_tick(def, position, position->base_tick),
			 snapshot);
	return store_live(&rows, position->clock.horizon);
}

/* -- the comparison ------------------------------------------------------- */

/* "sjoin.image_hash(ROW(...))" of the columns of one side. */
static char *
own_hash(const SjSettledSpec *spec, SjSide side)
{
	return psprintf("sjoin.image_hash(ROW(%s))",
					spec->own[side] ? spec->own[side] : "");
}

/* The rows of 'want' or 'got' with what tells them apart. */
static void
append_rows(StringInfo buf, const SjSettledSpec *spec, const char *name,
			const char *rows, const char *more)
{
	appendStringInfo(buf, "%s AS MATERIALIZED (SELECT sjoin.image_hash(ROW(%s)) AS h, "
					 "%s AS hl, %s AS hr, %s, pg_catalog.to_jsonb(sjoin_row.*) - 'sjoin_id' AS d "
					 "FROM (%s) sjoin_row(%s, sjoin_id)%s), ",
					 name, spec->compared, own_hash(spec, SJ_LEFT),
					 own_hash(spec, SJ_RIGHT), more, rows, spec->aliases,
					 spec->range);
}

/* A number in the identity of a result row, 0 for a missing side. */
static char *
number_of(SjSide side)
{
	return psprintf("('x' || pg_catalog.substr(pg_catalog.replace(sjoin_row.sjoin_id::text, '-', ''), %d, 16))::pg_catalog.bit(64)::pg_catalog.int8",
					side == SJ_LEFT ? 1 : 17);
}

/* Does 'got' rest on a row of the side that is, and not among the live ones? */
static char *
is_not_live(const SjSettledSpec *spec, SjSide side)
{
	const char *s = side == SJ_LEFT ? "l" : "r";

	return psprintf("got.%s_seq > 0 AND got.%s_seq < " INT64_FORMAT
					" AND NOT EXISTS (SELECT FROM " SJ_LIVE " v WHERE v.side = %d AND v.seq = got.%s_seq)",
					s, s, spec->next_seq, (int) side, s);
}

/* gone_l, gone_r: values of rows of a side of which the tables have too few. */
static void
append_gone(StringInfo buf, const SjSettledSpec *spec, SjSide side)
{
	const char *s = side == SJ_LEFT ? "l" : "r";

	if (spec->own[side] == NULL)
	{
		appendStringInfo(buf, "gone_%s AS (SELECT DISTINCT h%s AS h FROM got), ",
						 s, s);
		return;
	}
	appendStringInfo(buf, "gone_%s AS (SELECT g.h FROM "
					 "(SELECT h%s AS h, pg_catalog.count(DISTINCT %s_seq) AS n FROM got WHERE %s GROUP BY 1) g "
					 "LEFT JOIN (SELECT sjoin.image_hash(ROW(a.*)) AS h, pg_catalog.count(*) AS n FROM (%s) a GROUP BY 1) a ON a.h = g.h "
					 "WHERE g.n > COALESCE(a.n, 0)), ",
					 s, s, s, is_not_live(spec, side), spec->have[side]);
}

/* Does the result row 'got' rest on a row of the side that is settled? */
static char *
rests_on_settled(const SjSettledSpec *spec, SjSide side)
{
	const char *s = side == SJ_LEFT ? "l" : "r";

	return psprintf("(got.h%s IN (SELECT h FROM gone_%s) AND %s)", s, s,
					is_not_live(spec, side));
}

char *
sj_settled_comparison(const SjSettledSpec *spec)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "WITH ");
	append_rows(&buf, spec, "want", spec->want,
				"sjoin_row.sjoin_id AS refused");
	append_rows(&buf, spec, "got", spec->got,
				psprintf("%s AS l_seq, %s AS r_seq", number_of(SJ_LEFT),
						 number_of(SJ_RIGHT)));
	append_gone(&buf, spec, SJ_LEFT);
	append_gone(&buf, spec, SJ_RIGHT);
	appendStringInfo(&buf, "kept AS MATERIALIZED (SELECT got.*, %s OR %s AS settled FROM got), "
					 "bereft AS (SELECT hl, pg_catalog.count(DISTINCT l_seq) AS n FROM kept WHERE settled AND r_seq <> 0 GROUP BY hl), "
					 "w AS (SELECT h, pg_catalog.count(*) AS n, pg_catalog.count(*) FILTER (WHERE refused) + "
					 "LEAST(pg_catalog.count(*) FILTER (WHERE NOT refused), COALESCE(pg_catalog.max(bereft.n), 0)) AS settled, "
					 "(pg_catalog.array_agg(d))[1] AS d FROM want LEFT JOIN bereft USING (hl) GROUP BY h), "
					 "g AS (SELECT h, pg_catalog.count(*) AS n, pg_catalog.count(*) FILTER (WHERE settled) AS settled, "
					 "pg_catalog.count(*) FILTER (WHERE l_seq BETWEEN 0 AND " INT64_FORMAT " AND r_seq BETWEEN 0 AND " INT64_FORMAT ") AS known, "
					 "(pg_catalog.array_agg(d))[1] AS d FROM kept GROUP BY h), ",
					 rests_on_settled(spec, SJ_LEFT), rests_on_settled(spec, SJ_RIGHT),
					 spec->next_seq, spec->next_seq);
	appendStringInfoString(&buf, "diff AS (SELECT COALESCE(w.n, 0) - COALESCE(g.n, 0) AS n, w.n IS NULL AS absent, "
						   "LEAST(pg_catalog.abs(COALESCE(w.n, 0) - COALESCE(g.n, 0)), "
						   "CASE WHEN COALESCE(w.n, 0) > COALESCE(g.n, 0) THEN w.settled "
						   "ELSE LEAST(g.settled, GREATEST(g.known - COALESCE(w.n, 0), 0)) END) AS settled, "
						   "COALESCE(w.d, g.d) AS d FROM w FULL JOIN g ON w.h = g.h WHERE w.n IS DISTINCT FROM g.n), "
						   "told AS (SELECT 'settled' AS difference, settled AS n, d FROM diff WHERE settled > 0 "
						   "UNION ALL SELECT CASE WHEN n > 0 THEN 'missing' WHEN absent THEN 'extra' ELSE 'duplicate' END, "
						   "pg_catalog.abs(n) - settled, d FROM diff WHERE pg_catalog.abs(n) > settled), "
						   "numbered AS (SELECT *, pg_catalog.row_number() OVER (PARTITION BY difference ORDER BY d::text) AS i FROM told) ");
	appendStringInfo(&buf, "SELECT difference, n, d FROM numbered WHERE i <= %d "
					 "UNION ALL SELECT difference, pg_catalog.sum(n)::bigint, NULL FROM numbered WHERE i > %d GROUP BY difference",
					 spec->max_examples, spec->max_examples);
	return buf.data;
}

/*-------------------------------------------------------------------------
 *
 * stat_api.c
 *	  Statistics: what the workers keep in shared memory, as rows.
 *
 * IDENTIFICATION
 *	  src/stat/stat_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guc.h"
#include "local_time.h"
#include "miscadmin.h"
#include "shmem.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(sjoin_join_stats);
PG_FUNCTION_INFO_V1(sjoin_input_stats);
PG_FUNCTION_INFO_V1(sjoin_worker_stats);
PG_FUNCTION_INFO_V1(sjoin_event_time);

/* A row being filled from the left. */
typedef struct Row
{
	Datum		value[32];
	bool		null[32];
	int			n;
} Row;

static void
add(Row *row, Datum value, bool isnull)
{
	Assert(row->n < lengthof(row->value));
	row->value[row->n] = value;
	row->null[row->n++] = isnull;
}

static void
add_count(Row *row, pg_atomic_uint64 *count)
{
	add(row, Int64GetDatum((int64) pg_atomic_read_u64(count)), false);
}

static void
add_text(Row *row, const char *text)
{
	add(row, text ? CStringGetTextDatum(text) : (Datum) 0, text == NULL);
}

/* An event time of the join, NULL when there is none. */
static void
add_time(Row *row, const SjJoinSlot *slot, pg_atomic_uint64 *time)
{
	TimestampTz value = sj_time_to_zoned((SjTime) pg_atomic_read_u64(time),
										 slot->local_time);

	add(row, TimestampTzGetDatum(value), !IS_VALID_TIMESTAMP(value));
}

/* A time of the clock, NULL when it is 0. */
static void
add_clock_time(Row *row, TimestampTz time)
{
	add(row, TimestampTzGetDatum(time), time == 0);
}

static void
put(ReturnSetInfo *rsinfo, Row *row)
{
	Assert(row->n == rsinfo->setDesc->natts);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->value,
						 row->null);
}

/* See sj_percentile(); in ms, NULL when nothing was seen. */
static void
add_percentile(Row *row, SjHistogram *negative, SjHistogram *positive,
			   double share)
{
	double		usec = 0;
	bool		any = sj_percentile(negative, positive, share, &usec);

	add(row, Float8GetDatum(usec / 1000.0), !any);
}

static const char *
state_name(SjJoinState state)
{
	static const char *const names[] = {
		"starting", "backfilling", "rebuilding", "running", "paused",
		"failed", "stopped"
	};

	return names[state];
}

/* An error may quote the owner's data: it is shown to who may see these (P4). */
static bool
may_see_errors(Oid result)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(result));
	bool		may = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);

	if (HeapTupleIsValid(tuple))
	{
		may |= has_privs_of_role(GetUserId(),
								 ((Form_pg_class) GETSTRUCT(tuple))->relowner);
		ReleaseSysCache(tuple);
	}
	return may;
}

static void
add_state(Row *row, SjJoinSlot *slot)
{
	SjDatabaseSlot *database = sj_database_slot(MyDatabaseId, false);
	pid_t		pid = database == NULL ? 0 : database->worker_pid;
	char		error[SJ_ERROR_LENGTH];
	SjJoinState state;
	int			sqlstate;
	TimestampTz at;

	SpinLockAcquire(&slot->mutex);
	state = slot->state;
	sqlstate = slot->last_sqlstate;
	at = slot->last_error_at;
	memcpy(error, slot->last_error, SJ_ERROR_LENGTH);
	SpinLockRelease(&slot->mutex);

	add(row, Int32GetDatum(pid), pid == 0);
	add_text(row, state_name(state));
	add_text(row, at == 0 || !may_see_errors(slot->result) ? NULL : error);
	add_text(row, at == 0 ? NULL : unpack_sql_state(sqlstate));
	add_clock_time(row, at);
}

static void
add_join_counters(Row *row, SjJoinSlot *slot)
{
	SjInputStats *left = &slot->input[SJ_LEFT];
	SjInputStats *right = &slot->input[SJ_RIGHT];

	add(row, Int64GetDatum(pg_atomic_read_u64(&left->rows_in) +
						   pg_atomic_read_u64(&right->rows_in)), false);
	add_count(row, &slot->rows_out);
	add_count(row, &slot->rows_retracted);
	add(row, Int64GetDatum(pg_atomic_read_u64(&left->rows_late) +
						   pg_atomic_read_u64(&right->rows_late)), false);
	add_count(row, &slot->rows_unmatched);
	add_count(row, &slot->batches);
	add_count(row, &slot->errors);
	add_count(row, &slot->restarts);
	add(row, Float8GetDatum(pg_atomic_read_u64(&slot->total_batch_usec) / 1000.0),
		false);
	add(row, Float8GetDatum(pg_atomic_read_u64(&slot->last_batch_usec) / 1000.0),
		false);
	add_percentile(row, NULL, &slot->latency, 0.50);
	add_percentile(row, NULL, &slot->latency, 0.95);
	add_percentile(row, NULL, &slot->latency, 0.99);
	add_time(row, slot, &slot->watermark);
	add(row, Int64GetDatum(pg_atomic_read_u64(&left->state_rows) +
						   pg_atomic_read_u64(&right->state_rows)), false);
	add_count(row, &slot->state_keys);
	add(row, Int64GetDatum(pg_atomic_read_u64(&slot->state_pages) *
						   SJ_PAGE_SIZE), false);
	add_count(row, &slot->timers);
	add_time(row, slot, &slot->oldest_timer);
	add_count(row, &slot->log_bytes);
	add_clock_time(row, (TimestampTz) pg_atomic_read_u64(&slot->last_batch_at));
	add_clock_time(row, (TimestampTz) pg_atomic_read_u64(&slot->stats_reset));
}

/* The slots of this database's joins, in their order. */
static SjJoinSlot *
next_slot(int *i)
{
	while (sj_shared != NULL && *i < sj_max_joins)
	{
		SjJoinSlot *slot = &sj_shared->joins[(*i)++];

		if (slot->database == MyDatabaseId)
			return slot;
	}
	return NULL;
}

Datum
sjoin_join_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SjJoinSlot *slot;
	int			i = 0;

	InitMaterializedSRF(fcinfo, 0);
	while ((slot = next_slot(&i)) != NULL)
	{
		Row			row = {.n = 0};

		add(&row, Int32GetDatum(slot->join_id), false);
		add(&row, BoolGetDatum(slot->local_time), false);
		add_state(&row, slot);
		add_join_counters(&row, slot);
		put(rsinfo, &row);
	}
	return (Datum) 0;
}

static void
add_input_counters(Row *row, SjInputStats *input)
{
	add_count(row, &input->rows_in);
	add_count(row, &input->rows_matched);
	add_count(row, &input->rows_late);
	add_count(row, &input->rows_expired);
	add_count(row, &input->rows_null_key);
	add_count(row, &input->rows_future);
	add_count(row, &input->rows_filtered);
	add_count(row, &input->rows_unknown);
	add_count(row, &input->state_rows);
}

static void
add_input_times(Row *row, const SjJoinSlot *slot, SjInputStats *input)
{
	add_time(row, slot, &input->watermark);
	add_time(row, slot, &input->max_event_time);
	add_percentile(row, NULL, &input->lateness, 0.50);
	add_percentile(row, NULL, &input->lateness, 0.99);
	add_percentile(row, &input->clock_ahead, &input->clock_behind, 0.50);
	add_clock_time(row,
				   (TimestampTz) pg_atomic_read_u64(&input->last_row_at));
	add(row, BoolGetDatum(pg_atomic_read_u64(&input->idle) != 0), false);
}

Datum
sjoin_input_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SjJoinSlot *slot;
	int			i = 0;

	InitMaterializedSRF(fcinfo, 0);
	while ((slot = next_slot(&i)) != NULL)
	{
		for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		{
			SjInputStats *input = &slot->input[side];
			Row			row = {.n = 0};

			add(&row, Int32GetDatum(slot->join_id), false);
			add(&row, Int16GetDatum(side), false);
			add_input_counters(&row, input);
			add_input_times(&row, slot, input);
			put(rsinfo, &row);
		}
	}
	return (Datum) 0;
}

static int64
joins_of(Oid database)
{
	int64		n = 0;

	for (int i = 0; i < sj_max_joins; i++)
		if (sj_shared->joins[i].database == database)
			n++;
	return n;
}

Datum
sjoin_worker_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; sj_shared != NULL && i < SJ_MAX_DATABASES; i++)
	{
		SjDatabaseSlot *slot = &sj_shared->databases[i];
		Row			row = {.n = 0};

		if (!OidIsValid(slot->database) || slot->worker_pid == 0)
			continue;
		add(&row, Int32GetDatum(slot->worker_pid), false);
		add(&row, ObjectIdGetDatum(slot->database), false);
		add(&row, Int64GetDatum(joins_of(slot->database)), false);
		put(rsinfo, &row);
	}
	return (Datum) 0;
}

Datum
sjoin_event_time(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(sj_time_to_zoned(PG_GETARG_INT64(0),
										   PG_GETARG_BOOL(1)));
}

/*-------------------------------------------------------------------------
 *
 * task.c
 *	  A join's life in its worker: compiled from its definition, closed.
 *
 * Whatever the definition depends on (a function, a renamed column, a
 * privilege) may change while the join runs.  Invalidations set 'recheck', and
 * before its next batch the task compiles anew.  The state does not depend on
 * it: the signature of the definition must be the same, or the join stops.
 *
 * IDENTIFICATION
 *	  src/worker/task.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/privileges.h"
#include "catalog/stream_def.h"
#include "emit/attempt.h"
#include "executor/executor.h"
#include "log/event_log.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "worker/task.h"

/* -- questions of the engine ---------------------------------------------- */

static Datum
tuple_value(MinimalTuple tuple, AttrNumber attno, TupleDesc desc, bool *isnull)
{
	HeapTupleData htup = sj_heap_tuple(tuple);

	return heap_getattr(&htup, attno, desc, isnull);
}

/* SjOperator.same_key: the SQL equality of all keys (R3). */
static bool
same_key(void *arg, SjSide side_a, MinimalTuple a, SjSide side_b,
		 MinimalTuple b)
{
	SjTask	   *task = arg;
	SjTaskInput *input_a = &task->input[side_a];
	SjTaskInput *input_b = &task->input[side_b];
	MemoryContext old;
	bool		same = true;

	old = MemoryContextSwitchTo(input_a->econtext->ecxt_per_tuple_memory);
	for (int i = 0; i < input_a->nkeys && same; i++)
	{
		bool		null_a;
		bool		null_b;
		Datum		value_a = tuple_value(a, input_a->plan->key_attno[i],
										  input_a->plan->desc, &null_a);
		Datum		value_b = tuple_value(b, input_b->plan->key_attno[i],
										  input_b->plan->desc, &null_b);

		Assert(!null_a && !null_b);
		same = DatumGetBool(FunctionCall2Coll(&task->equals[i * 4 + side_a * 2 + side_b],
											  input_a->collation[i],
											  value_a, value_b));
	}
	MemoryContextSwitchTo(old);
	return same;
}

/* Rebuild: had the record or pair failed when it was consumed? */
bool
sj_failed_before(const SjTask *task, char op, SjSide side, int64 seq,
				 int64 other_seq)
{
	SjFailure	failure = {op, side, seq, other_seq};

	return task->nknown_failures > 0 &&
		bsearch(&failure, task->known_failures, task->nknown_failures,
				sizeof(SjFailure), sj_failure_compare) != NULL;
}

static bool
residual_holds(SjTask *task, MinimalTuple left, MinimalTuple right)
{
	ResetExprContext(task->pair_context);
	ExecStoreMinimalTuple(left, task->pair_slot[SJ_LEFT], false);
	ExecStoreMinimalTuple(right, task->pair_slot[SJ_RIGHT], false);
	return ExecQual(task->residual, task->pair_context);
}

/* Records that the condition of a pair failed (R8). */
static void
record_failed_pair(SjTask *task, int64 left_seq, MinimalTuple left,
				   int64 right_seq, MinimalTuple right, ErrorData *error)
{
	SjLateRow  *late;
	MemoryContext old;

	if (task->replaying)
		ReThrowError(error);	/* it did not fail then */
	old = MemoryContextSwitchTo(task->batch.context);
	late = palloc0(sizeof(SjLateRow));
	late->side = SJ_LEFT;
	late->op = SJ_OP_PAIR;
	late->reason = SJ_REASON_ERROR;
	late->seq = left_seq;
	late->other_seq = right_seq;
	late->event_time = SJ_TIME_MIN;
	late->watermark = sj_engine_clock(task->engine)->watermark;
	late->sqlstate = error->sqlerrcode;
	late->message = pstrdup(error->message);
	late->image = heap_copy_minimal_tuple(left);
	late->old_image = heap_copy_minimal_tuple(right);
	task->batch.late_rows = lappend(task->batch.late_rows, late);
	MemoryContextSwitchTo(old);
}

/* A pair under test, for sj_attempt(). */
typedef struct PairTest
{
	SjTask	   *task;
	MinimalTuple left;
	MinimalTuple right;
	bool		holds;
} PairTest;

static void
test_pair(void *arg)
{
	PairTest   *test = arg;

	test->holds = residual_holds(test->task, test->left, test->right);
}

/* The condition in a subtransaction: an error is the pair's, not the batch's. */
static SjPairVerdict
careful_verdict(SjTask *task, int64 left_seq, MinimalTuple left,
				int64 right_seq, MinimalTuple right)
{
	PairTest	test = {task, left, right, false};
	ErrorData  *error = sj_attempt(test_pair, &test,
								  sj_error_is_of_expression);

	if (error == NULL)
		return test.holds ? SJ_PAIR_YES : SJ_PAIR_NO;
	record_failed_pair(task, left_seq, left, right_seq, right, error);
	return SJ_PAIR_FAILED;
}

/* SjOperator.verdict */
static SjPairVerdict
pair_verdict(void *arg, int64 left_seq, MinimalTuple left, int64 right_seq,
			 MinimalTuple right)
{
	SjTask	   *task = arg;

	if (sj_failed_before(task, SJ_OP_PAIR, SJ_LEFT, left_seq, right_seq))
		return SJ_PAIR_FAILED;
	if (task->careful)
		return careful_verdict(task, left_seq, left, right_seq, right);
	return residual_holds(task, left, right) ? SJ_PAIR_YES : SJ_PAIR_NO;
}

/* -- compiling ------------------------------------------------------------ */

void
sj_task_stop(SjTask *task, const char *reason)
{
	task->definition_lost = true;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the join %s", reason),
			 errhint("The result stays as it is.  Drop the join and create it again.")));
}

static void
open_equalities(SjTask *task)
{
	ListCell   *lc;

	task->equals = palloc0(sizeof(FmgrInfo) * 4 *
						   list_length(task->query->keys));
	foreach(lc, task->query->keys)
	{
		SjJoinKey  *key = lfirst(lc);
		int			i = foreach_current_index(lc) * 4;

		for (int side = 0; side < 4; side++)
			fmgr_info(key->equal[side / 2][side % 2], &task->equals[i + side]);
	}
}

static void
open_pairs(SjTask *task)
{
	task->pair_context = CreateStandaloneExprContext();
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		task->pair_slot[side] =
			MakeSingleTupleTableSlot(task->plan->input[side].desc,
									 &TTSOpsMinimalTuple);
	task->pair_context->ecxt_outertuple = task->pair_slot[SJ_LEFT];
	task->pair_context->ecxt_innertuple = task->pair_slot[SJ_RIGHT];
	task->residual = task->plan->residual == NIL ? NULL :
		ExecInitQual(task->plan->residual, NULL);
}

static void
set_operator(SjTask *task)
{
	SjOperator *op = &task->op;

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		op->pad[side] = task->query->pad[side];
		op->reach[side] = sj_bounds_keep(&task->query->bounds, side);
	}
	op->final = sj_join_is_final(task->def);
	op->same_key = same_key;
	op->verdict = task->residual != NULL ? pair_verdict : NULL;
	op->arg = task;
}

/* The owner of the result, whose rights the join has. */
static Oid
read_owner(SjTask *task)
{
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(task->def->result)))
		sj_task_stop(task, "has lost its result table");
	return sj_relation_owner(task->def->result);
}

/* Reads the definition; what the user dropped or changed stops the join. */
static void
read_definition(SjTask *task)
{
	const char *problem;

	task->query = sj_join_analyze(task->def, &problem);
	if (task->query == NULL)
		sj_task_stop(task, problem);
	if (sj_join_is_final(task->def))
		task->query->bounds.timeout[SJ_LEFT] =
			task->query->bounds.timeout[SJ_RIGHT] = -1;
}

void
sj_task_compile(SjTask *task)
{
	MemoryContext old;
	SjSandbox	sandbox;

	/* what invalidations come from here on make it do so again */
	task->recheck = false;
	task->check_settings = true;
	if (task->plan_context != NULL)
		MemoryContextDelete(task->plan_context);
	task->plan_context = AllocSetContextCreate(task->context, "sjoin plan",
											   ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(task->plan_context);

	task->owner = read_owner(task);
	sj_sandbox_enter(&sandbox, task->owner, task->def->time_zone);
	read_definition(task);
	sj_check_input_privileges(task->query);
	task->plan = sj_join_plan(task->query);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		sj_input_open(&task->input[side], side, task->query, task->plan);
	open_equalities(task);
	open_pairs(task);
	task->writer = sj_result_open(task->def, task->plan);
	sj_sandbox_leave(&sandbox);
	set_operator(task);

	MemoryContextSwitchTo(old);
	if (task->has_position)
		sj_task_apply_settings(task, &task->position.base.settings);
}

/* -- settings and positions ----------------------------------------------- */

/* The settings as they are now. */
void
sj_task_settings(SjTask *task, SjLogSettings *settings)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		SjStreamDef *stream = sj_stream_def_get(task->query->input[side].relid);

		if (stream == NULL)
			sj_task_stop(task, "has lost a stream");
		settings->delay[side] = sj_stream_delay(stream);
		settings->max_future[side] = sj_stream_max_future(stream);
	}
	settings->allowed_lateness = sj_join_lateness(task->def, task->query);
}

void
sj_task_apply_settings(SjTask *task, const SjLogSettings *settings)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		task->op.delay[side] = settings->delay[side];
		task->input[side].max_future = settings->max_future[side];
	}
	task->op.allowed_lateness = settings->allowed_lateness;
}

void
sj_clock_to_log(const SjClock *clock, SjLogClock *log_clock)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		log_clock->input[side] = clock->input[side];
		log_clock->max_event_time[side] = clock->max_event_time[side];
	}
	log_clock->watermark = clock->watermark;
	log_clock->horizon = clock->horizon;
}

void
sj_clock_from_log(const SjLogClock *log_clock, SjClock *clock)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		clock->input[side] = log_clock->input[side];
		clock->max_event_time[side] = log_clock->max_event_time[side];
	}
	clock->watermark = log_clock->watermark;
	clock->horizon = log_clock->horizon;
}

/*
 * What the join has seen when it has consumed the tick with this number: that
 * tick, or at its very start the snapshot of its creation.  Memory in the
 * current context.
 */
SjTick *
sj_consumed_tick_if_kept(const SjJoinDef *def, const SjPosition *position,
						 int64 number)
{
	if (number == position->base.start_tick)
		return sj_tick_deserialize(def->start, number);
	return sj_tick_load(number);
}

SjTick *
sj_consumed_tick(const SjJoinDef *def, const SjPosition *position,
				 int64 number)
{
	SjTick	   *tick = sj_consumed_tick_if_kept(def, position, number);

	if (tick == NULL)
		elog(ERROR, "tick " INT64_FORMAT " is not in the log", number);
	return tick;
}

/* Replaces a remembered tick; NULL: there is none. */
void
sj_task_set_tick(SjTask *task, SjTick **to, const SjTick *tick)
{
	MemoryContext old = MemoryContextSwitchTo(task->context);
	SjTick	   *copy = tick == NULL ? NULL : sj_tick_copy(tick);

	if (*to != NULL)
	{
		if ((*to)->xip != NULL)
			pfree((*to)->xip);
		pfree(*to);
	}
	*to = copy;
	MemoryContextSwitchTo(old);
}

/* -- what others see ------------------------------------------------------ */

static void
publish_input(SjTask *task, SjSide side, const SjClock *clock,
			  const SjEngineStats *stats)
{
	SjInputStats *shown = &task->slot->input[side];
	SjInputTotals *totals = &task->position.totals.input[side];

	pg_atomic_write_u64(&shown->rows_in, totals->rows_in);
	pg_atomic_write_u64(&shown->rows_late, totals->rows_late);
	pg_atomic_write_u64(&shown->rows_null_key, totals->rows_null_key);
	pg_atomic_write_u64(&shown->rows_future, totals->rows_future);
	pg_atomic_write_u64(&shown->rows_filtered, totals->rows_filtered);
	pg_atomic_write_u64(&shown->rows_matched, stats->matched[side]);
	pg_atomic_write_u64(&shown->rows_expired, stats->expired[side]);
	pg_atomic_write_u64(&shown->state_rows, stats->rows[side]);
	pg_atomic_write_u64(&shown->watermark, (uint64) clock->input[side]);
	pg_atomic_write_u64(&shown->max_event_time,
						(uint64) clock->max_event_time[side]);
}

/* The state is that of the position, which has been stored. */
void
sj_task_state_is_clean(SjTask *task)
{
	task->slot->state_tick = task->position.tick;
	task->slot->state_txns = task->position.txns;
	task->slot->state_clean = true;
}

/* Gives back the state, in shared memory and here. */
void
sj_task_drop_state(SjTask *task)
{
	task->engine = NULL;
	task->slot->state_clean = false;
	task->slot->state_root = SJ_NO_PAGE;
	sj_arena_reset(sj_join_slot_number(task->slot) + 1);
	MemoryContextReset(task->engine_context);
}

/* An empty state with the given clock. */
void
sj_task_create_state(SjTask *task, const SjClock *clock)
{
	MemoryContext old;

	sj_task_drop_state(task);
	old = MemoryContextSwitchTo(task->engine_context);
	task->engine = sj_engine_create(&task->arena, &task->op, clock);
	MemoryContextSwitchTo(old);
	if (task->engine == NULL)
		sj_no_memory(task);
	task->slot->state_root = sj_engine_root(task->engine);
}

/* Copies figures of the task to its slot. */
void
sj_task_publish(SjTask *task)
{
	SjJoinSlot *slot = task->slot;
	const SjClock *clock = sj_engine_clock(task->engine);
	SjEngineStats stats;

	sj_engine_stats(task->engine, &stats);
	pg_atomic_write_u64(&slot->tick, task->position.tick);
	pg_atomic_write_u64(&slot->watermark, (uint64) clock->watermark);
	pg_atomic_write_u64(&slot->horizon, (uint64) clock->horizon);
	pg_atomic_write_u64(&slot->rows_out, task->position.totals.rows_out);
	pg_atomic_write_u64(&slot->rows_retracted,
						task->position.totals.rows_retracted);
	pg_atomic_write_u64(&slot->rows_unmatched, stats.unmatched);
	pg_atomic_write_u64(&slot->state_keys, stats.keys);
	pg_atomic_write_u64(&slot->state_pages, stats.pages);
	pg_atomic_write_u64(&slot->timers, stats.timers);
	pg_atomic_write_u64(&slot->oldest_timer, (uint64) stats.oldest_timer);
	pg_atomic_write_u64(&slot->log_bytes, task->base_chunks * SJ_CHUNK_BYTES);
	publish_input(task, SJ_LEFT, clock, &stats);
	publish_input(task, SJ_RIGHT, clock, &stats);
}

/* -- life ----------------------------------------------------------------- */

/* A task for a definition, not yet compiled; NULL when no slot is free. */
SjTask *
sj_task_create(const SjJoinDef *def)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext,
												  "sjoin task",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	SjTask	   *task = palloc0(sizeof(SjTask));

	task->context = context;
	task->def = palloc(sizeof(SjJoinDef));
	*task->def = *def;
	task->def->time_zone = pstrdup(def->time_zone);
	task->def->query = pstrdup(def->query);
	task->def->start = DatumGetByteaPCopy(PointerGetDatum(def->start));
	task->def->side_ttl = def->side_ttl ? pstrdup(def->side_ttl) : NULL;
	task->recheck = true;
	task->batch.context = AllocSetContextCreate(context, "sjoin batch",
												ALLOCSET_DEFAULT_SIZES);
	task->engine_context = AllocSetContextCreate(context, "sjoin engine",
												 ALLOCSET_DEFAULT_SIZES);
	task->slot = sj_join_slot(def->join_id, true);
	MemoryContextSwitchTo(old);
	if (task->slot == NULL)
	{
		MemoryContextDelete(context);
		return NULL;
	}
	task->slot->result = def->result;
	sj_arena_open(&task->arena, sj_join_slot_number(task->slot) + 1);
	return task;
}

/* Ends a task; 'forget' gives back its slot and state, too. */
void
sj_task_close(SjTask *task, bool forget)
{
	if (forget)
		sj_join_slot_free(task->slot);
	MemoryContextDelete(task->context);
}

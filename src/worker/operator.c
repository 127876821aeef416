/*-------------------------------------------------------------------------
 *
 * operator.c
 *	  What a join is for its engine, and the engine's questions that need the
 *	  user's code: equal keys, conditions of pairs.
 *
 * IDENTIFICATION
 *	  src/worker/operator.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "emit/attempt.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "utils/datum.h"
#include "worker/task.h"

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

/* The first known failure that compares equal, or NULL. */
static const SjFailure *
find_failure(const SjTask *task, const SjFailure *failure)
{
	const SjFailure *found = bsearch(failure, task->known_failures,
									 task->nknown_failures,
									 sizeof(SjFailure), sj_failure_compare);

	while (found != NULL && found > task->known_failures &&
		   sj_failure_compare(found - 1, failure) == 0)
		found--;
	return found;
}

/* Rebuild: had the record's image failed when it was consumed? */
bool
sj_failed_before(const SjTask *task, char op, SjSide side, int64 seq)
{
	SjFailure	failure = {op, side, seq};

	return task->nknown_failures > 0 && find_failure(task, &failure) != NULL;
}

/* The same for a pair with these images. */
static bool
pair_failed_before(const SjTask *task, const SjPair *pair)
{
	SjFailure	failure = {SJ_OP_PAIR, SJ_LEFT, pair->seq[SJ_LEFT],
	pair->seq[SJ_RIGHT]};
	const SjFailure *end = task->known_failures + task->nknown_failures;
	const SjFailure *found;

	if (task->nknown_failures == 0 ||
		(found = find_failure(task, &failure)) == NULL)
		return false;
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		sj_tuple_hash(&task->plan->input[side], pair->tuple[side],
					  &failure.hash[side]);
	for (; found < end && sj_failure_compare(found, &failure) == 0; found++)
		if (memcmp(found->hash, failure.hash, sizeof(failure.hash)) == 0)
			return true;
	return false;
}

static bool
residual_holds(SjTask *task, const SjPair *pair)
{
	ResetExprContext(task->pair_context);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		ExecStoreMinimalTuple(pair->tuple[side], task->pair_slot[side], false);
	return ExecQual(task->residual, task->pair_context);
}

/*
 * Records that the condition of a pair failed (R8), or, when a row of such a
 * pair is taken out, that this is over.
 */
static void
record_failed_pair(SjTask *task, const SjPair *pair, ErrorData *error)
{
	SjLateRow  *late;
	MemoryContext old;

	if (task->replaying && pair->again)
		return;
	if (task->replaying)
		ReThrowError(error);	/* it did not fail then */
	old = MemoryContextSwitchTo(task->batch.context);
	late = palloc0(sizeof(SjLateRow));
	late->side = SJ_LEFT;
	late->op = pair->again ? SJ_OP_UNPAIR : SJ_OP_PAIR;
	late->reason = pair->again ? SJ_REASON_WITHDRAWN : SJ_REASON_ERROR;
	late->seq = pair->seq[SJ_LEFT];
	late->other_seq = pair->seq[SJ_RIGHT];
	late->event_time = SJ_TIME_MIN;
	late->watermark = sj_engine_clock(task->engine)->watermark;
	late->sqlstate = error->sqlerrcode;
	late->message = pstrdup(error->message);
	late->image = heap_copy_minimal_tuple(pair->tuple[SJ_LEFT]);
	late->old_image = heap_copy_minimal_tuple(pair->tuple[SJ_RIGHT]);
	task->batch.late_rows = lappend(task->batch.late_rows, late);
	MemoryContextSwitchTo(old);
}

/* A pair under test, for sj_attempt(). */
typedef struct PairTest
{
	SjTask	   *task;
	const SjPair *pair;
	bool		holds;
} PairTest;

static void
test_pair(void *arg)
{
	PairTest   *test = arg;

	test->holds = residual_holds(test->task, test->pair);
}

/* The condition in a subtransaction: an error is the pair's, not the batch's. */
static SjPairVerdict
careful_verdict(SjTask *task, const SjPair *pair)
{
	PairTest	test = {task, pair, false};
	ErrorData  *error = sj_attempt(test_pair, &test,
								  sj_error_is_of_expression);

	if (error == NULL)
		return test.holds ? SJ_PAIR_YES : SJ_PAIR_NO;
	record_failed_pair(task, pair, error);
	return SJ_PAIR_FAILED;
}

/* SjOperator.verdict */
static SjPairVerdict
pair_verdict(void *arg, const SjPair *pair)
{
	SjTask	   *task = arg;

	if (pair_failed_before(task, pair))
		return SJ_PAIR_FAILED;
	if (task->careful)
		return careful_verdict(task, pair);
	return residual_holds(task, pair) ? SJ_PAIR_YES : SJ_PAIR_NO;
}

/* SjOperator.range */
static void
partner_range(void *arg, SjSide side, SjTime event_time, SjTime *from,
			  SjTime *until)
{
	SjTask	   *task = arg;
	SjReach		reach;

	sj_bounds_reach(&task->query->bounds, side, event_time, &reach);
	*from = reach.from;
	*until = reach.until;
}

/* SjOperator.same_image: of the columns that the join needs. */
static bool
same_image(void *arg, SjSide side, MinimalTuple a, MinimalTuple b)
{
	SjTask	   *task = arg;
	TupleDesc	desc = task->plan->input[side].desc;
	MemoryContext old;
	bool		same = true;

	/* values that are stored packed are unpacked on the way */
	old = MemoryContextSwitchTo(task->pair_context->ecxt_per_tuple_memory);
	for (int i = 0; i < desc->natts && same; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		null_a;
		bool		null_b;
		Datum		value_a = tuple_value(a, i + 1, desc, &null_a);
		Datum		value_b = tuple_value(b, i + 1, desc, &null_b);

		same = null_a == null_b &&
			(null_a || datum_image_eq(value_a, value_b, att->attbyval,
									  att->attlen));
	}
	MemoryContextSwitchTo(old);
	ResetExprContext(task->pair_context);
	return same;
}

void
sj_task_set_operator(SjTask *task)
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
	op->range = partner_range;
	op->same_image = same_image;
	sj_versions_set_operator(task);
	op->arg = task;
}

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
#include "executor/executor.h"
#include "log/event_log.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "worker/refusals.h"

/* -- compiling ------------------------------------------------------------ */

void
sj_task_stop(SjTask *task, const char *reason)
{
	task->definition_lost = true;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the join %s", reason),
			 errhint("The result stays as it is.  sjoin.refresh_join() starts the join over if its definition is sound; otherwise drop it and create it again.")));
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
	SjLogSettings settings = task->settings;
	MemoryContext old;
	SjSandbox	sandbox;

	/* what invalidations come from here on make it do so again */
	task->recheck = false;
	task->check_settings = true;
	task->query = NULL;
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
	task->slot->local_time = !task->query->bounds.with_zone;
	open_equalities(task);
	open_pairs(task);
	task->writer = sj_result_open(task->def, task->plan);
	sj_sandbox_leave(&sandbox);
	sj_task_set_operator(task);
	sj_task_set_idleness(task);

	MemoryContextSwitchTo(old);
	if (task->has_position)
		sj_task_apply_settings(task, &settings);
}

/* -- settings and positions ----------------------------------------------- */

/* The defaults as they are now. */
void
sj_task_defaults(SjLogSettings *settings)
{
	settings->default_delay = sj_default_delay();
	settings->default_max_future = sj_default_max_future();
}

/* The settings as they are now, for a join that starts. */
void
sj_task_settings(SjTask *task, SjLogSettings *settings)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		SjStreamDef *stream = sj_stream_def_get(task->query->input[side].relid);

		if (stream == NULL)
			sj_task_stop(task, "has lost a stream");
		settings->delay[side] = stream->watermark_delay;
		settings->max_future[side] = stream->max_future;
	}
	sj_task_defaults(settings);
	settings->timeout = task->def->timeout;
	settings->shortest_timeout = settings->longest_timeout = settings->timeout;
	settings->allowed_lateness = task->def->allowed_lateness;
	settings->late_rows = task->def->late_rows;
}

/*
 * Settings of the log take hold.  Times of the task's definition follow them:
 * what the stored one says now may lie ahead in the log.  What to do with late
 * rows is not of that kind, but for the lateness that comes with it.
 */
void
sj_task_apply_settings(SjTask *task, const SjLogSettings *settings)
{
	SjJoinDef	in_force;

	task->settings = *settings;
	task->def->timeout = settings->timeout;
	task->def->allowed_lateness = settings->allowed_lateness;
	if (task->query == NULL)
		return;
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		task->op.delay[side] = settings->delay[side] >= 0 ?
			settings->delay[side] : settings->default_delay;
		task->input[side].max_future = settings->max_future[side] >= -1 ?
			settings->max_future[side] : settings->default_max_future;
	}
	if (!sj_join_is_final(task->def))
		task->query->bounds.timeout[SJ_LEFT] = settings->timeout;
	in_force = *task->def;
	in_force.late_rows = (SjLateRows) settings->late_rows;
	task->op.allowed_lateness = sj_join_lateness(&in_force, task->query);
}

void
sj_clock_to_log(const SjClock *clock, SjLogClock *log_clock)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		log_clock->input[side] = clock->input[side];
		log_clock->max_event_time[side] = clock->max_event_time[side];
		log_clock->quiet[side] = clock->quiet[side];
		log_clock->idle[side] = clock->idle[side];
		log_clock->woken[side] = clock->woken[side];
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
		clock->quiet[side] = log_clock->quiet[side];
		clock->idle[side] = log_clock->idle[side];
		clock->woken[side] = log_clock->woken[side];
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

/*
 * Adds to the totals what the engine has counted since they were added to last.
 * Rows expire after a batch has been written and are counted with the next one.
 */
void
sj_task_count(SjTask *task, SjTotals *totals)
{
	SjEngineStats *counted = &task->counted;
	SjEngineStats stats;

	sj_engine_stats(task->engine, &stats);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		totals->input[side].rows_matched += stats.matched[side] -
			counted->matched[side];
		totals->input[side].rows_expired += stats.expired[side] -
			counted->expired[side];
	}
	totals->rows_unmatched += stats.unmatched - counted->unmatched;
	totals->longest_match = Max(totals->longest_match, stats.longest_match);
	*counted = stats;
}

/* What the engine has counted so far is in the totals, or is not to be. */
void
sj_task_start_counting(SjTask *task)
{
	sj_engine_stats(task->engine, &task->counted);
}

/* The same for a state that another worker has left, with what it has shown. */
void
sj_task_go_on_counting(SjTask *task)
{
	sj_task_start_counting(task);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		task->counted.expired[side] -=
			pg_atomic_read_u64(&task->slot->input[side].rows_expired) -
			task->position.totals.input[side].rows_expired;
}

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
	pg_atomic_write_u64(&shown->rows_unknown, totals->rows_unknown);
	pg_atomic_write_u64(&shown->rows_matched, totals->rows_matched);
	pg_atomic_write_u64(&shown->rows_expired, totals->rows_expired +
						stats->expired[side] - task->counted.expired[side]);
	pg_atomic_write_u64(&shown->state_rows, stats->rows[side]);
	pg_atomic_write_u64(&shown->watermark, (uint64) clock->input[side]);
	pg_atomic_write_u64(&shown->max_event_time,
						(uint64) clock->max_event_time[side]);
	pg_atomic_write_u64(&shown->idle, (uint64) clock->idle[side]);
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
	sj_refusals_forget(task);
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
	sj_task_start_counting(task);
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
	pg_atomic_write_u64(&slot->rows_out, task->position.totals.rows_out);
	pg_atomic_write_u64(&slot->rows_retracted,
						task->position.totals.rows_retracted);
	pg_atomic_write_u64(&slot->rows_unmatched,
						task->position.totals.rows_unmatched);
	pg_atomic_write_u64(&slot->longest_match,
						task->position.totals.longest_match);
	pg_atomic_write_u64(&slot->state_keys, stats.keys);
	pg_atomic_write_u64(&slot->state_pages, stats.pages);
	pg_atomic_write_u64(&slot->timers, stats.timers);
	pg_atomic_write_u64(&slot->oldest_timer, (uint64) stats.oldest_timer);
	pg_atomic_write_u64(&slot->log_bytes, task->base_chunks * SJ_CHUNK_BYTES);
	publish_input(task, SJ_LEFT, clock, &stats);
	publish_input(task, SJ_RIGHT, clock, &stats);
}

/*
 * What the join will not look at again, for those who delete rows.  Only when
 * it is durable: after the commit of the position.
 */
void
sj_task_publish_horizon(SjTask *task)
{
	pg_write_barrier();
	pg_atomic_write_u64(&task->slot->horizon,
						(uint64) sj_engine_clock(task->engine)->horizon);
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
	task->def->notify_channel = NULL;
	sj_task_set_channel(task, def->notify_channel);
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

/* Takes over the channel to notify; NULL: none. */
void
sj_task_set_channel(SjTask *task, const char *channel)
{
	if (task->def->notify_channel != NULL)
		pfree(task->def->notify_channel);
	task->def->notify_channel = channel == NULL ? NULL :
		MemoryContextStrdup(task->context, channel);
}

/* Ends a task; 'forget' gives back its slot and state, too. */
void
sj_task_close(SjTask *task, bool forget)
{
	if (forget)
		sj_join_slot_free(task->slot);
	MemoryContextDelete(task->context);
}

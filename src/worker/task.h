/*-------------------------------------------------------------------------
 *
 * task.h
 *	  One running join in its worker.
 *
 * A task is opened (compiled) from its definition, gets its state (adopted,
 * rebuilt, or by backfill), and then runs batches.  A batch has two phases:
 * feeding the engine, and writing what the engine said together with the new
 * position.  When writing fails the batch is kept and written again, so that
 * the engine never has to undo; when feeding fails the state is thrown away
 * and rebuilt.
 *
 * IDENTIFICATION
 *	  src/worker/task.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_TASK_H
#define SJ_TASK_H

#include "sjoin.h"

#include "catalog/join_def.h"
#include "catalog/join_plan.h"
#include "catalog/stream_def.h"
#include "emit/result_table.h"
#include "emit/side_output.h"
#include "engine/engine.h"
#include "log/position.h"
#include "log/tick.h"
#include "shmem.h"
#include "worker/join_input.h"
#include "worker/sandbox.h"

typedef struct SjReplay SjReplay;

/* What the rows of a batch say about time; see timing.c. */
typedef struct SjTiming
{
	TimestampTz last_row_at;	/* when the last of them was captured; 0: none */
	SjTally		lateness;
	SjTally		clock_behind;
	SjTally		clock_ahead;
} SjTiming;

/* What has been fed and not yet been written. */
typedef struct SjBatch
{
	MemoryContext context;		/* late rows; reset when the batch is done */
	bool		fed;			/* only the writing is left */
	bool		careful;		/* a try failed: look for the rows at fault */
	bool		consumed;		/* a step of this join was in it */
	SjPosition	position;		/* after it */
	SjTick	   *tick;			/* of that position; in the task's context */
	List	   *late_rows;		/* of SjLateRow */
	SjReplay   *replay;			/* late rows that are taken in after all, in a
								 * batch of their own; NULL: none */
	int64		rows;
	SjTiming	timing[2];
	TimestampTz *captured_at;	/* of each transaction, for the latency */
	int			ntxns;
	int			allocated;
} SjBatch;

/*
 * What a transaction made of a row of one input: images in the form that
 * sj_input_tuple() gives them; NULL: there was, or is, none.
 */
typedef struct SjEdge
{
	SjSide		side;
	Oid			source;			/* partition; invalid: the stream itself */
	MinimalTuple old;
	MinimalTuple new;
	int64		seq;			/* of its last record */
} SjEdge;

typedef struct SjRefusals SjRefusals;

typedef struct SjTask
{
	/* life of the task */
	MemoryContext context;
	SjJoinDef  *def;
	SjJoinSlot *slot;
	Oid			owner;
	bool		recheck;		/* something it depends on changed */
	bool		check_settings; /* and with it perhaps the defaults */

	/* compiled; replaced as a whole by sj_task_compile() */
	MemoryContext plan_context;
	SjJoinQuery *query;
	SjJoinPlan *plan;
	SjTaskInput input[2];
	SjResultWriter *writer;
	FmgrInfo   *equals;			/* [key][side][side] */
	ExprContext *pair_context;
	TupleTableSlot *pair_slot[2];
	ExprState  *residual;		/* NULL: none */

	/* state */
	SjOperator	op;
	SjArena		arena;
	SjEngine   *engine;			/* NULL: none yet */
	MemoryContext engine_context;	/* its memory in this process */
	SjEngineStats counted;		/* figures of the engine that the totals have */
	bool		has_position;
	SjPosition	position;		/* durable */
	SjTick	   *tick;			/* of the position */
	FullTransactionId base_xmin;	/* the log is needed from here on */
	int64		first_tick;		/* and the ticks from this one */
	int64		base_chunks;	/* read since the base */
	SjBatch		batch;
	SjLogSettings settings;		/* in force where the engine is */
	SjLogSettings next_settings;	/* from the end of the step on */
	bool		settings_altered;	/* in this step */

	/* idle.c, of each input; times in usec */
	int64		idle_timeout[2];	/* 0: never idle */
	SjOnIdle	on_idle[2];
	bool		was_up_to_date; /* when idle inputs were looked for last */
	bool		woke[2];		/* a row has come since */
	int64		quiet[2];		/* running time without a row */
	int64		unmoved[2];		/* by which its watermark has not moved on yet */

	/* failures in a row, and when to try again */
	int			failures;
	TimestampTz retry_at;		/* 0: now; DT_NOEND: never */
	bool		out_of_memory;	/* given up: the state does not fit */
	bool		definition_lost;	/* given up: dropped or changed */
	bool		late_row_met;	/* given up: late_rows => error, and the next
								 * transaction has late rows */

	/* late_rows => error: a transaction with late rows comes after this place,
	 * where a batch has to end; tick 0: none is known */
	int64		late_tick;
	int32		late_txns;

	SjRefusals *refusals;	/* NULL: not needed so far */

	/* while feeding */
	bool		replaying;		/* rebuild: nothing is emitted or counted */
	bool		careful;		/* errors of a pair are caught */
	bool		reading_history;	/* rows that were there at its creation */
	SjFailure  *known_failures;	/* rebuild: what failed then */
	int			nknown_failures;
} SjTask;

/* task.c */
extern SjTask *sj_task_create(const SjJoinDef *def);
extern void sj_task_close(SjTask *task, bool forget);
extern void sj_task_set_channel(SjTask *task, const char *channel);
/* (Re)compiles; error when the definition vanished or changed. */
extern void sj_task_compile(SjTask *task);
extern void sj_task_settings(SjTask *task, SjLogSettings *settings);
extern void sj_task_apply_settings(SjTask *task, const SjLogSettings *settings);
extern void sj_task_defaults(SjLogSettings *settings);
extern void sj_task_count(SjTask *task, SjTotals *totals);
extern void sj_task_start_counting(SjTask *task);
extern void sj_task_go_on_counting(SjTask *task);
extern void sj_task_publish(SjTask *task);
extern void sj_task_publish_horizon(SjTask *task);
extern void sj_task_state_is_clean(SjTask *task);
extern void sj_task_drop_state(SjTask *task);
extern void sj_task_create_state(SjTask *task, const SjClock *clock);
extern void sj_task_set_tick(SjTask *task, SjTick **to, const SjTick *tick);
extern void sj_clock_to_log(const SjClock *clock, SjLogClock *log_clock);
extern void sj_clock_from_log(const SjLogClock *log_clock, SjClock *clock);

/* operator.c */
extern void sj_task_set_operator(SjTask *task);
extern bool sj_failed_before(const SjTask *task, char op, SjSide side,
							 int64 seq);

/* feed.c */
extern bool sj_feed_tick(SjTask *task, SjBatch *batch, const SjTick *before,
						 const SjTick *tick, int stop_after_txns,
						 int64 max_rows);
extern void sj_feed_image_safely(SjTask *task, SjBatch *batch, SjSide side,
								 SjImageLayout *layout, MinimalTuple image,
								 Oid source, int64 seq,
								 TimestampTz captured_at);
extern void sj_feed_reject(SjTask *task, SjBatch *batch, const SjLateRow *row,
						   const ErrorData *error);
extern void sj_no_memory(SjTask *task) pg_attribute_noreturn();

/* change.c */
extern void sj_change_apply(SjTask *task, SjBatch *batch, const SjEdge *edge);
extern void sj_change_apply_safely(SjTask *task, SjBatch *batch,
								   const SjEdge *edge);
extern void sj_change_truncate(SjTask *task, SjBatch *batch, SjSide side,
							   Oid source, int64 seq);

/* late_error.c */
extern bool sj_must_stop_before_late_rows(const SjTask *task,
										  const SjBatch *batch);
extern void sj_check_late_rows(SjTask *task, const SjBatch *batch);
extern void sj_forget_late_error(SjTask *task);

/* idle.c */
extern void sj_task_set_idleness(SjTask *task);
extern void sj_task_adopt_quiet(SjTask *task);

/* versions.c */
extern void sj_versions_set_operator(SjTask *task);
extern int64 sj_version_number(const SjTask *task, int64 seq);
extern List *sj_versions_note(const SjTask *task, List *late_rows);

/* timing.c */
extern SjTime sj_timing_clock(SjTaskInput *input, TimestampTz captured_at);
extern void sj_timing_note(SjTask *task, SjBatch *batch, SjSide side,
						   SjTime event_time, SjTime clock);
extern void sj_timing_note_row(SjTask *task, SjBatch *batch, SjSide side,
							   TimestampTz captured_at);
extern void sj_timing_publish(SjTask *task, const SjBatch *batch);

/* notify.c: one NOTIFY for what a batch has written to the result */
extern void sj_notify_written(const SjTask *task, const SjPosition *position,
							  int64 rows, int64 retracted);

/* rebuild.c */
extern void sj_task_rebuild(SjTask *task);
extern void sj_task_checkpoint(SjTask *task);
/* Its parts: in the transaction that stores the position, and after that. */
extern void sj_task_carry_forward(SjTask *task, SjPosition *position);
extern void sj_task_base_moved(SjTask *task);
extern bool sj_task_wants_checkpoint(const SjTask *task);

/* backfill.c */
extern void sj_task_start(SjTask *task, const SjTick *latest);

/* batch.c */
extern int64 sj_task_batch_rows(const SjTask *task);
extern bool sj_task_run_batch(SjTask *task, const SjTick *latest);
extern void sj_batch_write(SjTask *task, SjBatch *batch);
extern void sj_batch_reset(SjTask *task, SjBatch *batch);
extern void sj_batch_constraints_immediate(void);

/* The tick before which the join has consumed everything, by number. */
extern SjTick *sj_consumed_tick(const SjJoinDef *def,
								const SjPosition *position, int64 number);
/* The same, but NULL when the tick is no longer kept. */
extern SjTick *sj_consumed_tick_if_kept(const SjJoinDef *def,
										const SjPosition *position,
										int64 number);
/* Error that stops the join for good. */
extern void sj_task_stop(SjTask *task, const char *reason) pg_attribute_noreturn();

/* ticks by number, from the worker's memory or the log */
extern const SjTick *sj_worker_tick(int64 number);

#endif							/* SJ_TASK_H */

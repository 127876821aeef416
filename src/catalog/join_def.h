/*-------------------------------------------------------------------------
 *
 * join_def.h
 *	  Definitions of joins; sole owner of the column numbers of
 *	  sjoin.join_def.
 *
 * IDENTIFICATION
 *	  src/catalog/join_def.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_JOIN_DEF_H
#define SJ_JOIN_DEF_H

#include "sjoin.h"

#include "catalog/query_analysis.h"
#include "nodes/pg_list.h"
#include "utils/snapshot.h"

typedef enum SjOutputMode
{
	SJ_OUTPUT_UPSERT,
	SJ_OUTPUT_CHANGELOG,
	SJ_OUTPUT_APPEND
} SjOutputMode;

typedef enum SjEmit
{
	SJ_EMIT_AUTO,
	SJ_EMIT_FINAL
} SjEmit;

typedef enum SjLateRows
{
	SJ_LATE_KEEP,				/* in the late rows */
	SJ_LATE_DROP,				/* counted, and a hash kept */
	SJ_LATE_JOIN,				/* not late within the widest bound; the rest
								 * is kept */
	SJ_LATE_ERROR				/* stops the join */
} SjLateRows;

/* A join as create_join() was told; times in usec, -1: not given. */
typedef struct SjJoinDef
{
	int32		join_id;
	Oid			result;			/* the result table */
	Oid			definition;		/* the view that holds the query */
	SjOutputMode output_mode;
	SjEmit		emit;
	int64		timeout;
	int64		ttl;
	char	   *side_ttl;		/* text of a jsonb object, or NULL */
	int64		allowed_lateness;
	SjLateRows	late_rows;
	bool		with_data;
	char	   *time_zone;
	int64		signature;		/* sj_query_signature of the definition */
	int64		input_signature;	/* sj_input_signature */
	char	   *query;			/* as the user wrote it */
	Oid			input[2];		/* tables of the left and right input */
	bytea	   *start;			/* snapshot of its creation, after which it
								 * starts; for sj_tick_deserialize() */
	const char *kind;			/* as sjoin.joins shows it */
	const char *join_type;
	int64		lateness;		/* allowed_lateness in force, usec */
	int64		retention;		/* longest that a row is kept, usec */
	char	   *alias[2];		/* of the inputs, in the query */
	bool		paused;			/* no batch is run */
	char	   *notify_channel; /* told of each batch; NULL: none */
	int64		result_seq;		/* last sjoin_seq given before its start */
	TimestampTz created_at;
	TransactionId written_by;	/* raw xmin: another one means that somebody
								 * has changed the row */
	bool		uncommitted;	/* made or changed by the current transaction */
} SjJoinDef;

extern void sj_join_def_insert(const SjJoinDef *def);
extern void sj_join_def_delete(int32 join_id);
/* Puts 'def', which may have another number, in the place of a join. */
extern void sj_join_def_update(int32 join_id, const SjJoinDef *def);
/* Numbers of the joins that are paused as the snapshot has it. */
extern List *sj_join_def_paused(Snapshot snapshot);
/*
 * One transaction at a time makes, changes or drops joins: what is captured of
 * a stream is what all its joins need.
 */
extern void sj_join_def_lock(void);
extern SjJoinDef *sj_join_def_by_result(Oid result);	/* or NULL */
extern List *sj_join_def_all(void); /* of SjJoinDef */
extern bool sj_is_result(Oid relid);

extern const char *sj_output_mode_name(SjOutputMode mode);
extern const char *sj_emit_name(SjEmit emit);
extern const char *sj_late_rows_name(SjLateRows late_rows);

/* Do results of the join never change once written? */
extern bool sj_join_is_final(const SjJoinDef *def);
/* The shape for sj_query_analyze(), from the stored options. */
extern void sj_join_shape(const SjJoinDef *def, SjJoinShape *shape);
/*
 * allowed_lateness with its default, and of at least the widest bound where late
 * rows are to be joined (T3), usec
 */
extern int64 sj_join_lateness(const SjJoinDef *def, const SjJoinQuery *query);
/* The query of the definition view; caller has checked that it exists. */
extern Query *sj_join_definition(Oid definition);
/*
 * The parts of the join as its definition has them; NULL and the problem, as a
 * predicate, when that is not what it was created with.  May fold constants,
 * that is, run functions of the owner's: as the owner.
 */
extern SjJoinQuery *sj_join_analyze(const SjJoinDef *def,
									const char **problem);
/* The same, with an error that says what the problem is. */
extern SjJoinQuery *sj_join_query(const SjJoinDef *def);

#endif							/* SJ_JOIN_DEF_H */

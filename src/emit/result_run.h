/*-------------------------------------------------------------------------
 *
 * result_run.h
 *	  One run over changes: what the ways of writing share; private to
 *	  src/emit.
 *
 * result_table.c	the call; from changes to values
 * result_upsert.c	which rows are deleted, updated, inserted
 * result_changelog.c	which rows say so in a changelog
 * result_identity.c	the identities that are taken back, by number
 * result_group.c	lists of rows, written whole or by halves (R8)
 * result_direct.c	insertion where nothing of the user's hangs on the table
 * result_statement.c	insertion, update, deletion by statements
 * result_stored.c	what the table has
 * result_padded.c	finding unmatched rows by their values
 *
 * IDENTIFICATION
 *	  src/emit/result_run.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_RESULT_RUN_H
#define SJ_RESULT_RUN_H

#include "sjoin.h"

#include "access/heapam.h"
#include "emit/result_query.h"
#include "emit/result_table.h"
#include "emit/side_output.h"
#include "nodes/execnodes.h"
#include "utils/array.h"
#include "utils/relcache.h"
#include "utils/uuid.h"

/* What becomes of a row of the result. */
typedef enum SjRowOp
{
	SJ_ROW_INSERT,				/* +I */
	SJ_ROW_UPDATE,				/* -U and +U */
	SJ_ROW_DELETE				/* -D */
} SjRowOp;

/*
 * One row to write.  Values are tuples of the query's columns; without one
 * they are computed from the images of the change.
 */
typedef struct SjResultRow
{
	const SjChange *old;		/* its images so far, or NULL */
	const SjChange *change;		/* its images from now on, or NULL */
	MinimalTuple old_values;	/* as they were written, or NULL */
	MinimalTuple values;		/* or NULL */
	int32		old_version;	/* changelog only */
	int32		version;
	SjRowOp		op;
} SjResultRow;

typedef struct SjWriteRun SjWriteRun;
typedef struct SjRowList SjRowList;

/* Rows that are written in the same way, in this order. */
struct SjRowList
{
	void		(*write) (SjWriteRun *run, const SjRowList *list, int64 first,
						  int64 last);
	SjResultRow *rows;			/* NULL: all changes are insertions */
	const SjChange *changes;
	int64		n;
};

/* Target list and post-join condition of pairs, or of padded rows. */
typedef struct SjRowMaker
{
	ProjectionInfo *projection;
	ExprState  *post;			/* NULL: none */
} SjRowMaker;

struct SjResultWriter
{
	const SjJoinDef *def;
	const SjJoinPlan *plan;
	bool		numbered;		/* has sjoin_seq */
	bool		changelog;		/* has sjoin_op */
	Datum		op_name[4];		/* +I, +U, -D, -U */
	int			ntargets;
	TupleDesc	desc;			/* targets, then sjoin's columns */
	TupleDesc	target_desc;	/* targets */
	Datum	   *values;			/* scratch, of targets */
	bool	   *isnull;
	Datum	   *old_values;
	bool	   *old_isnull;
	ExprContext *econtext;
	TupleTableSlot *side_slot[2];
	TupleTableSlot *target_slot;
	SjRowMaker	pair;
	SjRowMaker	padded[2];
};

/* One run over changes. */
struct SjWriteRun
{
	SjResultWriter *writer;
	bool		careful;		/* leave out rows that fail (R8) */
	bool		direct;			/* insertions do without statements */
	SjTime		watermark;
	TimestampTz at;
	int64	   *result_seq;
	SjWritten  *written;
	List	   *again;			/* of SjResultRow: updates to insert */
	SjResultQuery *sub_queries; /* NULL: none in the target list */

	/* direct path: the open table */
	Relation	rel;
	EState	   *estate;
	ResultRelInfo *result_info;
	TupleTableSlot **slots;
	int			nslots;
	BulkInsertState bulk;
};

/* What an update of images does to the row that is made of them. */
typedef struct SjEffect
{
	bool		old_there;		/* the condition lets the old row through */
	bool		new_there;
	bool		equal;			/* both there, the same values */
	MinimalTuple values;		/* of the new row when it is there */
} SjEffect;

/* Row i of a list; 'space' is for one that has no place in the list. */
static inline const SjResultRow *
sj_result_row(const SjRowList *list, int64 i, SjResultRow *space)
{
	if (list->rows != NULL)
		return &list->rows[i];
	memset(space, 0, sizeof(SjResultRow));
	space->change = &list->changes[i];
	space->version = 1;
	return space;
}

/* Does the row of a changelog say two things, -U and +U? */
static inline bool
sj_result_row_is_pair(const SjWriteRun *run, const SjResultRow *row)
{
	return run->writer->changelog && row->op == SJ_ROW_UPDATE;
}

/* result_table.c */
extern bool sj_result_project(SjResultWriter *writer, const SjChange *change,
							  Datum *values, bool *isnull);
extern bool sj_result_fill(SjWriteRun *run, const SjResultRow *row, bool back,
						   Datum *values, bool *isnull);
extern void sj_result_run_sub_queries(SjWriteRun *run, const SjRowList *list,
									  int64 first, int64 last);
extern void sj_result_id(pg_uuid_t *id, const SjChange *change);
extern void sj_result_effect(SjWriteRun *run, const SjChange *old,
							 const SjChange *new, SjEffect *effect);
extern bool sj_result_can_be_computed(SjWriteRun *run,
									  const SjResultRow *row);
extern bool sj_result_is_there(SjWriteRun *run, const SjChange *change);

/* result_upsert.c, result_changelog.c: changes some of which take back */
extern void sj_result_write_upsert(SjWriteRun *run, const SjChange *changes,
								   int64 n);
extern void sj_result_write_changelog(SjWriteRun *run,
									  const SjChange *changes, int64 n);

/* result_identity.c */
typedef struct SjIdentities SjIdentities;
extern SjIdentities *sj_identities_of(const SjChange *changes, int64 n);
extern int	sj_identities_count(const SjIdentities *identities);
/* Number of an identity, from 0; -1: it is not taken back. */
extern int	sj_identity_number(const SjIdentities *identities,
							   const SjChange *change);
extern int	sj_identity_number_of_id(const SjIdentities *identities,
									 const pg_uuid_t *id);

/* result_group.c */
extern void sj_result_write_rows(SjWriteRun *run, const SjRowList *list);
extern void sj_result_insert(SjWriteRun *run, const SjRowList *list,
							 int64 first, int64 last);
extern void sj_result_refused(SjWriteRun *run, const SjChange *change,
							  char op, const ErrorData *error);
extern void sj_result_take_back_absent(SjWriteRun *run,
									   const SjChange *change);

/* result_direct.c */
extern void sj_result_check_columns(const SjResultWriter *writer);
/* false when the table needs a statement */
extern bool sj_result_open_direct(SjWriteRun *run);
extern void sj_result_insert_directly(SjWriteRun *run, const SjRowList *list,
									  int64 first, int64 last);
extern void sj_result_close_direct(SjWriteRun *run);

/* result_statement.c */
extern char *sj_result_name(const SjResultWriter *writer);
extern const char *sj_result_column(const SjResultWriter *writer, int n);
extern char *sj_result_id_condition(const SjResultWriter *writer);
extern void sj_result_insert_by_statement(SjWriteRun *run,
										  const SjRowList *list,
										  int64 first, int64 last);
extern void sj_result_update(SjWriteRun *run, const SjRowList *list,
							 int64 first, int64 last);
extern void sj_result_delete(SjWriteRun *run, const SjRowList *list,
							 int64 first, int64 last);

/* result_stored.c */
typedef void (*SjStoredVisitor) (void *arg, const pg_uuid_t *id,
								 int32 version, bool there,
								 MinimalTuple values);
/* Rows of an upsert table with these identities (changes, NULLs left out). */
extern void sj_result_read_rows(SjWriteRun *run,
								const SjChange *const *changes, int n,
								SjStoredVisitor visit, void *arg);
/* Newest rows of a changelog of these identities. */
extern void sj_result_read_log(SjWriteRun *run,
							   const SjChange *const *changes, int n,
							   SjStoredVisitor visit, void *arg);

#endif							/* SJ_RESULT_RUN_H */

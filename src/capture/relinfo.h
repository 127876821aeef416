/*-------------------------------------------------------------------------
 *
 * relinfo.h
 *	  How rows of a table become images, per backend.
 *
 * IDENTIFICATION
 *	  src/capture/relinfo.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_RELINFO_H
#define SJ_RELINFO_H

#include "sjoin.h"

#include "access/attnum.h"
#include "capture/retention.h"
#include "utils/rel.h"

/* A workspace for the columns of one row. */
typedef struct SjColumns
{
	Datum	   *value;
	bool	   *null;
} SjColumns;

/* What a row trigger needs to know; of a table and the stream it is part of. */
typedef struct SjRelInfo
{
	Oid			trigger;		/* hash key */
	bool		valid;
	Oid			relid;
	Oid			root;			/* the stream: this table or an ancestor */
	Oid			source;			/* this table, when it is not the root */
	SjStreamUse *use;			/* of the stream */
	AttrNumber	time_attno;		/* in the condition of a delete trigger, else 0 */
	int32		layout;			/* 0: nothing is captured */
	TupleDesc	desc;			/* captured columns, as in the layout */
	AttrNumber *attnos;			/* in this table, of each; 0: not there */
	AttrNumber	max_attno;		/* greatest of these */
	bool		whole;			/* an image is the row as it is */
	SjColumns	columns[2];		/* new, old */
	MemoryContext context;		/* of the above */
} SjRelInfo;

/*
 * Information for a row trigger of 'rel', whose lock the caller holds.  Good
 * until the next call.
 */
extern SjRelInfo *sj_relinfo_get(Oid trigger, Relation rel);

#endif							/* SJ_RELINFO_H */

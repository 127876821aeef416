/*-------------------------------------------------------------------------
 *
 * stream_def.h
 *	  Definitions of streams and of what is captured of them; sole owner of
 *	  the column numbers of sjoin.stream_def and sjoin.layout.
 *
 * IDENTIFICATION
 *	  src/catalog/stream_def.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_STREAM_DEF_H
#define SJ_STREAM_DEF_H

#include "sjoin.h"

#include "access/tupdesc.h"
#include "nodes/pg_list.h"

typedef enum SjOnIdle
{
	SJ_ON_IDLE_ADVANCE,
	SJ_ON_IDLE_IGNORE,
	SJ_ON_IDLE_HOLD
} SjOnIdle;

typedef struct SjStreamDef
{
	Oid			relid;
	AttrNumber	time_attno;
	int64		watermark_delay;	/* usec; -1: sjoin.watermark_delay */
	int64		idle_timeout;	/* usec; -1: sjoin.idle_timeout */
	SjOnIdle	on_idle;
	int64		max_future;		/* usec; -1: no guard; -2: sjoin.max_future */
	List	   *upsert_key;		/* of int: attribute numbers; NIL: none */
	TimestampTz created_at;
} SjStreamDef;

/*
 * A layout: which columns of a stream a chunk's images have, in ascending
 * attribute number of the stream's own table.  Never changed; a stream that
 * needs more columns gets a new one.  The columns' types are those of when it
 * was made: an image is read by them, whatever becomes of the column.
 */
typedef struct SjLayout
{
	int32		id;
	Oid			relid;
	int			natts;
	AttrNumber *attnos;
	Oid		   *typids;
	int32	   *forms;			/* length, alignment, by value; see
								 * stream_def.c */
} SjLayout;

/* The definition, in the current context; NULL when not a stream. */
extern SjStreamDef *sj_stream_def_get(Oid relid);
extern List *sj_stream_def_all(void);	/* of SjStreamDef */
extern void sj_stream_def_insert(const SjStreamDef *def);
extern void sj_stream_def_delete(Oid relid);
extern void sj_stream_def_update(const SjStreamDef *def);
/* with the settings put in for NULLs; 0: never idle; -1: no guard */
extern int64 sj_stream_delay(const SjStreamDef *def);
extern int64 sj_stream_idle_timeout(const SjStreamDef *def);
extern int64 sj_stream_max_future(const SjStreamDef *def);
extern int64 sj_default_delay(void);
extern int64 sj_default_max_future(void);
/* Are its event times of type timestamp?  Not where NULL is no stream. */
extern bool sj_stream_has_local_time(const SjStreamDef *def);

/* The layout that writers of the stream use now; NULL: nothing is captured. */
extern SjLayout *sj_layout_current(Oid relid);
extern SjLayout *sj_layout_get(int32 id);
/* What its images look like; memory in the current context. */
extern TupleDesc sj_layout_desc(const SjLayout *layout);
/* Has the column still the type that the layout has for it? */
extern bool sj_layout_fits(const SjLayout *layout, int i);
/* Makes the current layout cover 'attnos'; true when it had to change. */
extern bool sj_layout_extend(Oid relid, int natts, const AttrNumber *attnos);
extern void sj_layout_delete(Oid relid);
/* Writers of the table and of all its partitions look again at commit. */
extern void sj_stream_invalidate(Oid relid);

#endif							/* SJ_STREAM_DEF_H */

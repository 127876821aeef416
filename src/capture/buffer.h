/*-------------------------------------------------------------------------
 *
 * buffer.h
 *	  Records of the current transaction that are not in the log yet.
 *
 * Private to src/capture.
 *
 * IDENTIFICATION
 *	  src/capture/buffer.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_BUFFER_H
#define SJ_BUFFER_H

#include "sjoin.h"

#include "log/event_log.h"
#include "nodes/pg_list.h"
#include "utils/hsearch.h"

/* Chunks of one layout and source. */
typedef struct SjBuffer
{
	struct SjBuffer *next;
	int32		layout;
	Oid			source;
	char		last_op;		/* of the newest record; 0: none */
	SjChunk    *closed;			/* oldest first; seq 0: not numbered */
	int			nclosed;
	int			maxclosed;
	SjChunk		open;			/* takes the next record */
	Size		capacity;		/* of open.data */
} SjBuffer;

/* What one subtransaction has buffered. */
typedef struct SjScope
{
	struct SjScope *parent;		/* nearest ancestor with a scope */
	SubTransactionId subid;
	MemoryContext context;		/* of everything down to 'bytes' */
	SjBuffer   *buffers;
	int			nbuffers;
	HTAB	   *index;			/* of many buffers; NULL: of few */
	Size		bytes;
	List	   *departures;		/* see departure.c; in TopTransactionContext */
} SjScope;

/* The innermost scope; NULL: nothing is buffered. */
extern SjScope *sj_current_scope;
/* Bytes buffered in all scopes. */
extern Size sj_buffered_bytes;

/* The scope of the subtransaction that is running. */
extern SjScope *sj_scope_mine(void);
extern void sj_scope_pop(void);
/* Hands everything to the parent scope, which must be there. */
extern void sj_scope_merge_into_parent(void);
/* The memory goes with TopTransactionContext. */
extern void sj_scopes_forget(void);
/* Writes what the current scope holds; nothing of its ancestors. */
extern void sj_scope_write(void);

extern SjBuffer *sj_scope_buffer(SjScope *scope, int32 layout, Oid source);
/*
 * Kind of the newest record of a layout and source, of the scope or else of
 * its ancestors; 0: none that is still buffered.
 */
extern char sj_scope_last_op(const SjScope *scope, int32 layout, Oid source);
/* A record with its header filled in, the rest zero. */
extern SjLogRecord *sj_buffer_add(SjScope *scope, SjBuffer *buffer, char op,
								  Size size);

#endif							/* SJ_BUFFER_H */

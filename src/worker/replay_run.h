/*-------------------------------------------------------------------------
 *
 * replay_run.h
 *	  One replay of late rows; private to replay.c and replay_rows.c.
 *
 * IDENTIFICATION
 *	  src/worker/replay_run.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_REPLAY_RUN_H
#define SJ_REPLAY_RUN_H

#include "sjoin.h"

#include "utils/hsearch.h"
#include "worker/replay_tables.h"
#include "worker/task.h"

/* The replay of a batch; memory is the batch's. */
struct SjReplay
{
	int64	   *late_ids;		/* asked for */
	int			n;
	int			allocated;
	SjChange   *changes;		/* with partners outside of the state */
	int64		nchanges;
	int64		changes_allocated;
};

/* An image that late rows have. */
typedef struct SjReplayImage
{
	SjLateImage key;
	MinimalTuple tuple;			/* NULL: the table does not have it */
	int64		refused;		/* recorded so often as not taken in */
	int64		available;		/* of these the table has so many */
	int64		vanished;		/* and so many have gone from it */
	int64		in_state;		/* candidates: the state has so many */
} SjReplayImage;

/* A late row on its way in. */
typedef struct SjReplayRow
{
	const SjLateChoice *choice;
	SjEvent		event;
	SjReplayImage *image;
	bool		done;
} SjReplayRow;

/* An accepted row that is not in state. */
typedef struct SjReplayCandidate
{
	uint32		hash;			/* of its join key */
	bool		had_partners;
	bool		has_partners;	/* now */
	SjRow	   *row;			/* made for the changes */
} SjReplayCandidate;

typedef struct SjReplayRun
{
	SjTask	   *task;
	SjBatch    *batch;
	SjReplay   *replay;
	MemoryContext context;
	SjReplayTables tables;
	SjLateChoice *choices;
	int			nchoices;
	HTAB	   *images;			/* of late rows */
	SjReplayRow *rows;
	int			nrows;

	/* the side that candidates are looked for on */
	SjSide		side;
	HTAB	   *seen;			/* images of candidates */
	uint32	   *hashes;			/* of the keys that are of interest, sorted */
	int			nhashes;
	SjReplayCandidate *candidates[2];	/* sorted by hash */
	int			ncandidates[2];
	int			allocated[2];

	HTAB	   *padded_before;	/* numbers of rows in state that were in the
								 * result unmatched */
	SjReplayRow *row;			/* at hand */
} SjReplayRun;

/* replay_rows.c: everything that is asked of the tables; for sj_attempt() */
extern void sj_replay_look_up(void *arg);

#endif							/* SJ_REPLAY_RUN_H */

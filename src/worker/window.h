/*-------------------------------------------------------------------------
 *
 * window.h
 *	  What writers did between the creation of a join and the reading of its
 *	  tables.
 *
 * IDENTIFICATION
 *	  src/worker/window.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_WINDOW_H
#define SJ_WINDOW_H

#include "sjoin.h"

#include "worker/task.h"

/* An image that the table had when the join was created and has no more. */
typedef struct SjBygone
{
	SjSide		side;
	Oid			source;			/* partition that it was in */
	SjTime		event_time;		/* SJ_TIME_MAX: NULL */
	MinimalTuple image;
} SjBygone;

typedef struct SjWindow
{
	HTAB	   *net;			/* changes per side and image; NULL: none */
	SjBygone   *bygones;		/* in order of event time */
	int			nbygones;
} SjWindow;

/* Reads the log from the join's creation to the active snapshot. */
extern void sj_window_read(SjTask *task, SjWindow *window);

/*
 * Has the image, a tuple of the input, come with the window?  Each time it
 * says so it takes one such image for granted.
 */
extern bool sj_window_takes(SjWindow *window, const SjTaskInput *input,
							Oid source, MinimalTuple image);

#endif							/* SJ_WINDOW_H */

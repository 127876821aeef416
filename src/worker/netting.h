/*-------------------------------------------------------------------------
 *
 * netting.h
 *	  What a transaction made of the rows of one input, by value.
 *
 * IDENTIFICATION
 *	  src/worker/netting.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_NETTING_H
#define SJ_NETTING_H

#include "sjoin.h"

#include "worker/task.h"

typedef struct SjNetting SjNetting;

/* For one side of one transaction; memory in the current context. */
extern SjNetting *sj_netting_create(const SjTaskInput *input);

/*
 * First pass: every record of the transaction that is a change, in any order;
 * those of sources that were truncated after them must be left out of both
 * passes.
 */
extern void sj_netting_count(SjNetting *netting, Oid source,
							 MinimalTuple old, MinimalTuple new);

/*
 * Second pass: may the edge be applied as it is?  If not it is held, and
 * copied.  False, too, for an edge that changes nothing.
 */
extern bool sj_netting_passes(SjNetting *netting, const SjEdge *edge);

/* The edges that those held come to, in log order. */
extern SjEdge *sj_netting_compose(SjNetting *netting, int *n);

#endif							/* SJ_NETTING_H */

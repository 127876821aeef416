/*-------------------------------------------------------------------------
 *
 * replay_query.h
 *	  What the tables have for late rows that are taken in after all.
 *
 * The first two queries give first the columns that the join needs, in the order of its
 * input's tuples, then the hash of the image (uuid).  All are to run as those
 * of verify_query.h are.
 *
 * IDENTIFICATION
 *	  src/catalog/replay_query.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_REPLAY_QUERY_H
#define SJ_REPLAY_QUERY_H

#include "sjoin.h"

#include "catalog/verify_query.h"

/*
 * The rows of a table with event times from .. until and one of the hashes in
 * $1 (uuid[]), with how often the table has the image and how often it is
 * recorded as not taken in (int8 both).
 */
extern char *sj_replay_image_query(const SjJoinQuery *q,
								   const SjVerifySpec *spec, SjSide side,
								   SjTime from, SjTime until);

/*
 * The accepted rows of a side with event times from .. until, and whether they
 * have partners (boolean; of the side that is padded only).
 */
extern char *sj_replay_partner_query(const SjJoinQuery *q,
									 const SjVerifySpec *spec, SjSide side,
									 SjTime from, SjTime until);

/*
 * Another one: of the images with the hashes in $1 and event times from ..
 * until those that are more often recorded as not taken in than the table has
 * them: the hash, and how much more often (int8).
 */
extern char *sj_replay_spare_query(const SjJoinQuery *q,
								   const SjVerifySpec *spec, SjSide side,
								   SjTime from, SjTime until);

#endif							/* SJ_REPLAY_QUERY_H */

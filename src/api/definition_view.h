/*-------------------------------------------------------------------------
 *
 * definition_view.h
 *	  The view that holds the query of a join.
 *
 * IDENTIFICATION
 *	  src/api/definition_view.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_DEFINITION_VIEW_H
#define SJ_DEFINITION_VIEW_H

#include "sjoin.h"

/* A name for the view of a result that no relation of the schema has. */
extern char *sj_definition_name(const char *result, Oid namespace);
/*
 * A relation is being altered, which is not visible yet: when it is a result
 * that gets another owner or schema, its view gets them, too.
 */
extern void sj_definition_follow(Oid relid);

#endif							/* SJ_DEFINITION_VIEW_H */

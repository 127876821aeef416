/*-------------------------------------------------------------------------
 *
 * query_vars.h
 *	  Finding and replacing what an expression of the join's query reads of
 *	  its inputs, sub-queries included.
 *
 * IDENTIFICATION
 *	  src/catalog/query_vars.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_QUERY_VARS_H
#define SJ_QUERY_VARS_H

#include "sjoin.h"

#include "catalog/pg_attribute.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"

/*
 * Copies an expression, each Var of the join's own query replaced by what
 * 'replace' says.  A Var is as many levels up as it stands deep in
 * sub-queries; what replaces it must be, too.
 */
extern Node *sj_vars_replace(Node *node,
							 Node *(*replace) (void *arg, const Var *var),
							 void *arg);
/* Calls 'visit' for each of them. */
extern void sj_vars_visit(Node *node,
						  void (*visit) (void *arg, const Var *var),
						  void *arg);

/*
 * A whole-row reference to a table as the row of its columns, each of which
 * 'column' makes; 'format' says whether the cast shows when it is deparsed.
 */
extern Node *sj_whole_row(const Var *var, Oid relid, CoercionForm format,
						  Node *(*column) (void *arg, const Var *var,
										   Form_pg_attribute att),
						  void *arg);
/* NULL where 'absent' is true, else the row. */
extern Node *sj_null_if(Expr *absent, Node *row);

/* Has the expression a sub-query, and does one of them read a relation? */
extern bool sj_has_sub_query(const Node *node);
extern bool sj_reads_relations(const Node *node);
/* The relations that its sub-queries name. */
extern List *sj_relations_read(const Node *node);

#endif							/* SJ_QUERY_VARS_H */

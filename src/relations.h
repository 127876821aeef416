/*-------------------------------------------------------------------------
 *
 * relations.h
 *	  The extension's own relations, and rows as relations, by name.
 *
 * IDENTIFICATION
 *	  src/relations.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_RELATIONS_H
#define SJ_RELATIONS_H

#include "sjoin.h"

#include "access/tupdesc.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"
#include "utils/tuplestore.h"

/* OID of sjoin.<name>; InvalidOid when the extension is not installed. */
extern Oid	sj_relation_oid(const char *name);
/* Opens sjoin.<name>; error when there is none. */
extern Relation sj_open(const char *name, LOCKMODE lockmode);
/* The same, but NULL when there is none. */
extern Relation sj_try_open(const char *name, LOCKMODE lockmode);

/*
 * Gives the relation, its TOAST table and their indexes new, empty storage.
 * Caller holds AccessExclusiveLock and has an active snapshot.
 */
extern void sj_relation_empty(Relation rel);

/*
 * Makes rows a relation that statements of the current SPI connection find by
 * name.  Both belong to the caller for as long.
 */
extern void sj_register_rows(const char *name, TupleDesc desc,
							 Tuplestorestate *rows);

#endif							/* SJ_RELATIONS_H */

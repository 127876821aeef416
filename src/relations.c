/*-------------------------------------------------------------------------
 *
 * relations.c
 *	  The extension's own relations, and rows as relations, by name.
 *
 * Names of the former are looked up once per backend; a relcache message for one of them
 * (DROP EXTENSION, a rewrite) forgets them all.  Nothing is found unless the
 * extension is installed: a schema "sjoin" of somebody else's may hold
 * relations of any shape.
 *
 * IDENTIFICATION
 *	  src/relations.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "pgstat.h"
#include "relations.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define MAX_KNOWN_RELATIONS	32

typedef struct KnownRelation
{
	char		name[NAMEDATALEN];
	Oid			oid;
} KnownRelation;

static KnownRelation known[MAX_KNOWN_RELATIONS];
static int	nknown = 0;

static void
forget_relations(Datum arg, Oid relid)
{
	if (!OidIsValid(relid))
	{
		nknown = 0;
		return;
	}
	for (int i = 0; i < nknown; i++)
	{
		if (known[i].oid == relid)
		{
			nknown = 0;
			return;
		}
	}
}

static Oid
look_up(const char *name)
{
	Oid			schema;

	if (!OidIsValid(get_extension_oid("sjoin", true)))
		return InvalidOid;
	schema = get_namespace_oid("sjoin", true);
	if (!OidIsValid(schema))
		return InvalidOid;
	return get_relname_relid(name, schema);
}

static void
remember(const char *name, Oid oid)
{
	static bool registered = false;

	if (!registered)
	{
		CacheRegisterRelcacheCallback(forget_relations, (Datum) 0);
		registered = true;
	}
	if (nknown == MAX_KNOWN_RELATIONS)
		nknown = 0;
	strlcpy(known[nknown].name, name, NAMEDATALEN);
	known[nknown].oid = oid;
	nknown++;
}

Oid
sj_relation_oid(const char *name)
{
	Oid			oid;

	for (int i = 0; i < nknown; i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].oid;

	oid = look_up(name);
	if (OidIsValid(oid))
		remember(name, oid);
	return oid;
}

Relation
sj_try_open(const char *name, LOCKMODE lockmode)
{
	Oid			oid = sj_relation_oid(name);

	return OidIsValid(oid) ? try_relation_open(oid, lockmode) : NULL;
}

Relation
sj_open(const char *name, LOCKMODE lockmode)
{
	Relation	rel = sj_try_open(name, lockmode);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"sjoin.%s\" does not exist", name),
				 errhint("Install the extension with CREATE EXTENSION sjoin.")));
	return rel;
}

void
sj_relation_empty(Relation rel)
{
	ReindexParams params = {0};
	Oid			toast = rel->rd_rel->reltoastrelid;

	RelationSetNewRelfilenode(rel, rel->rd_rel->relpersistence);
	if (OidIsValid(toast))
	{
		Relation	toastrel = relation_open(toast, AccessExclusiveLock);

		RelationSetNewRelfilenode(toastrel, toastrel->rd_rel->relpersistence);
		relation_close(toastrel, NoLock);
	}
	reindex_relation(RelationGetRelid(rel), REINDEX_REL_PROCESS_TOAST, &params);
	pgstat_count_truncate(rel);
}

void
sj_register_rows(const char *name, TupleDesc desc, Tuplestorestate *rows)
{
	EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));

	enr->md.name = pstrdup(name);
	enr->md.reliddesc = InvalidOid;
	enr->md.tupdesc = desc;
	enr->md.enrtype = ENR_NAMED_TUPLESTORE;
	enr->md.enrtuples = (double) tuplestore_tuple_count(rows);
	enr->reldata = rows;
	if (SPI_register_relation(enr) != SPI_OK_REL_REGISTER)
		elog(ERROR, "could not register \"%s\" as a relation", name);
}

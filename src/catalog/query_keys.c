/*-------------------------------------------------------------------------
 *
 * query_keys.c
 *	  The key of a join: equalities between its inputs.
 *
 * An equality is usable when its operator belongs to a hash operator family
 * that also knows how to hash, and to compare with each other, values of the
 * two types in every combination: the state holds rows of both sides in one
 * table (R3).  One that is not usable is an ordinary condition, if another
 * one is; but an indeterminate collation would make every evaluation fail.
 *
 * IDENTIFICATION
 *	  src/catalog/query_keys.c
 *
 *-------------------------------------------------------------------------
 */
#include "sjoin.h"

#include "access/hash.h"
#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "catalog/query_parts.h"

/* Why an equality cannot be a key. */
typedef enum KeyFault
{
	KEY_OK,
	KEY_NOT_HASHABLE,
	KEY_NO_CROSS_TYPE,
	KEY_NO_COLLATION
} KeyFault;

/* Is 'condition' an equality of left-only and right-only expressions? */
static bool
split_equality(const SjJoinQuery *q, OpExpr *op, bool *commuted)
{
	int			reads[2];

	if (!IsA(op, OpExpr) || list_length(op->args) != 2 || op->opretset ||
		op->opresulttype != BOOLOID)
		return false;
	reads[0] = sj_expr_sides(q, linitial(op->args));
	reads[1] = sj_expr_sides(q, lsecond(op->args));
	*commuted = (reads[0] == SJ_READS_RIGHT && reads[1] == SJ_READS_LEFT);
	return *commuted ||
		(reads[0] == SJ_READS_LEFT && reads[1] == SJ_READS_RIGHT);
}

/* Equality function of a family for two types, or InvalidOid. */
static Oid
family_equal(Oid family, Oid left, Oid right)
{
	Oid			op = get_opfamily_member(family, left, right,
										 HTEqualStrategyNumber);

	return OidIsValid(op) ? get_opcode(op) : InvalidOid;
}

/* Fills in the functions of 'key' from one family; types[] as declared. */
static KeyFault
key_from_family(SjJoinKey *key, Oid family, const Oid types[2])
{
	int			a;
	int			b;

	for (a = 0; a < 2; a++)
	{
		key->hash[a] = get_opfamily_proc(family, types[a], types[a],
										 HASHSTANDARD_PROC);
		if (!OidIsValid(key->hash[a]))
			return KEY_NOT_HASHABLE;
		for (b = 0; b < 2; b++)
		{
			key->equal[a][b] = family_equal(family, types[a], types[b]);
			if (!OidIsValid(key->equal[a][b]))
				return KEY_NO_CROSS_TYPE;
		}
	}
	return KEY_OK;
}

/* Looks for a hash family with everything that the key needs. */
static KeyFault
key_functions(SjJoinKey *key, Oid opno, bool commuted)
{
	CatCList   *members = SearchSysCacheList1(AMOPOPID,
											  ObjectIdGetDatum(opno));
	KeyFault	fault = KEY_NOT_HASHABLE;
	int			i;

	for (i = 0; i < members->n_members && fault != KEY_OK; i++)
	{
		Form_pg_amop amop = (Form_pg_amop)
		GETSTRUCT(&members->members[i]->tuple);
		Oid			types[2];

		if (amop->amopmethod != HASH_AM_OID ||
			amop->amopstrategy != HTEqualStrategyNumber)
			continue;
		types[commuted ? 1 : 0] = amop->amoplefttype;
		types[commuted ? 0 : 1] = amop->amoprighttype;
		fault = key_from_family(key, amop->amopfamily, types);
	}
	ReleaseSysCacheList(members);
	return fault;
}

/* Makes a key of an equality, or says why not. */
static KeyFault
make_key(OpExpr *op, bool commuted, SjJoinKey *key)
{
	Expr	   *args[2];
	Oid			declared[2];
	int			side;

	args[commuted ? 1 : 0] = linitial(op->args);
	args[commuted ? 0 : 1] = lsecond(op->args);
	op_input_types(op->opno, &declared[commuted ? 1 : 0],
				   &declared[commuted ? 0 : 1]);

	for (side = 0; side < 2; side++)
	{
		key->expr[side] = args[side];
		key->type[side] = IsPolymorphicType(declared[side]) ||
			declared[side] == RECORDOID ?
			exprType((Node *) args[side]) : declared[side];
	}
	key->collation = op->inputcollid;

	if (!op_hashjoinable(op->opno, exprType(linitial(op->args))))
		return KEY_NOT_HASHABLE;
	if (!OidIsValid(key->collation) &&
		(OidIsValid(exprCollation((Node *) args[0])) ||
		 OidIsValid(exprCollation((Node *) args[1])) ||
		 type_is_collatable(key->type[0])))
		return KEY_NO_COLLATION;
	return key_functions(key, op->opno, commuted);
}

static void pg_attribute_noreturn()
report_fault(OpExpr *op, KeyFault fault)
{
	char	   *name = get_opname(op->opno);
	char	   *left = format_type_be(exprType(linitial(op->args)));
	char	   *right = format_type_be(exprType(lsecond(op->args)));

	switch (fault)
	{
		case KEY_NO_COLLATION:
			ereport(ERROR,
					(errcode(ERRCODE_INDETERMINATE_COLLATION),
					 errmsg("could not determine which collation to use for the key of the join"),
					 errhint("Use the COLLATE clause to set the collation explicitly.")));
			break;
		case KEY_NO_CROSS_TYPE:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("%s %s %s cannot be the key of a streaming join",
							left, name, right),
					 errdetail("Its hash operator family lacks an operator between the two types in one of the orders."),
					 errhint("Cast one side to the type of the other.")));
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("%s %s %s cannot be the key of a streaming join",
							left, name, right),
					 errdetail("The operator has no hash support."),
					 errhint("Cast both sides to one type that has, or add an equality on other columns.")));
	}
	pg_unreachable();
}

static void pg_attribute_noreturn()
report_no_equality(const SjJoinQuery *q)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("no equality between the two inputs"),
			 errdetail("A streaming join finds partners by a key: an expression of \"%s\" that equals one of \"%s\".",
					   q->input[SJ_LEFT].alias, q->input[SJ_RIGHT].alias),
			 errhint("Add a condition such as %s.id = %s.id to the join.",
					 quote_identifier(q->input[SJ_LEFT].alias),
					 quote_identifier(q->input[SJ_RIGHT].alias))));
	pg_unreachable();
}

List *
sj_take_keys(SjJoinQuery *q, List *conditions)
{
	List	   *rest = NIL;
	OpExpr	   *faulty = NULL;
	KeyFault	fault = KEY_OK;
	ListCell   *lc;

	foreach(lc, conditions)
	{
		OpExpr	   *op = lfirst(lc);
		SjJoinKey	key = {0};
		KeyFault	result = KEY_NOT_HASHABLE;
		bool		commuted;
		bool		equality = split_equality(q, op, &commuted) &&
		(op_hashjoinable(op->opno, exprType(linitial(op->args))) ||
		 strcmp(get_opname(op->opno), "=") == 0);

		if (equality)
			result = make_key(op, commuted, &key);
		if (equality && result == KEY_NO_COLLATION)
			report_fault(op, result);	/* would fail for every pair */
		if (result == KEY_OK)
		{
			q->keys = lappend(q->keys, memcpy(palloc(sizeof(key)), &key,
											  sizeof(key)));
			continue;
		}
		rest = lappend(rest, op);
		if (equality && !faulty)
		{
			faulty = op;
			fault = result;
		}
	}

	if (q->keys == NIL && faulty)
		report_fault(faulty, fault);
	if (q->keys == NIL)
		report_no_equality(q);
	return rest;
}

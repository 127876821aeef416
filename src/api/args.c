/*-------------------------------------------------------------------------
 *
 * args.c
 *	  Arguments of SQL functions: checked at the call, errors name them.
 *
 * IDENTIFICATION
 *	  src/api/args.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

text *
sj_arg_text_required(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
	return PG_GETARG_TEXT_PP(n);
}

/* The text argument, or NULL. */
char *
sj_arg_cstring(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* An interval of fixed length in usec, -1 for NULL. */
int64
sj_arg_interval(FunctionCallInfo fcinfo, int n, const char *name)
{
	Interval   *interval;
	int64		usec;

	if (PG_ARGISNULL(n))
		return -1;
	interval = PG_GETARG_INTERVAL_P(n);
	if (interval->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not contain months or years", name),
				 errhint("Their length depends on the date.  Give it in days or hours.")));
	if (pg_mul_s64_overflow(interval->day, USECS_PER_DAY, &usec) ||
		pg_add_s64_overflow(usec, interval->time, &usec))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("%s is out of range", name)));
	if (usec < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be negative", name)));
	return usec;
}

/* "a, b, c" */
static char *
choices_text(const char *const *choices, int nchoices)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < nchoices; i++)
		appendStringInfo(&buf, "%s\"%s\"", i > 0 ? ", " : "", choices[i]);
	return buf.data;
}

/* Index of the argument among the choices. */
int
sj_arg_choice(FunctionCallInfo fcinfo, int n, const char *name,
			  const char *const *choices, int nchoices)
{
	char	   *value = text_to_cstring(sj_arg_text_required(fcinfo, n, name));

	for (int i = 0; i < nchoices; i++)
		if (strcmp(value, choices[i]) == 0)
			return i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for %s: \"%s\"", name, value),
			 errhint("Valid values are %s.", choices_text(choices, nchoices))));
}

/* A relation that exists. */
Oid
sj_arg_relation(FunctionCallInfo fcinfo, int n, const char *name)
{
	Oid			relid;

	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
	relid = PG_GETARG_OID(n);
	if (get_rel_name(relid) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	return relid;
}

/* A flag; NULL counts as false. */
bool
sj_arg_flag(FunctionCallInfo fcinfo, int n)
{
	return !PG_ARGISNULL(n) && PG_GETARG_BOOL(n);
}

/* Place of a name among the names. */
static int
find_setting(const char *name, const char *const *names, int nnames)
{
	for (int i = 0; i < nnames; i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("reset names \"%s\", which is no setting", name),
			 errhint("Settings are %s.", choices_text(names, nnames))));
}

Bitmapset *
sj_arg_reset(FunctionCallInfo fcinfo, int n, int first,
			 const char *const *names, int nnames)
{
	Bitmapset  *set = NULL;
	Datum	   *elements;
	bool	   *nulls;
	int			nelements;

	if (PG_ARGISNULL(n))
		return NULL;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(n), TEXTOID, -1, false,
					  TYPALIGN_INT, &elements, &nulls, &nelements);
	for (int i = 0; i < nelements; i++)
	{
		int			place;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("reset must not contain nulls"),
					 errhint("Settings are %s.", choices_text(names, nnames))));
		place = find_setting(TextDatumGetCString(elements[i]), names, nnames);
		if (!PG_ARGISNULL(first + place))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s is both set and reset", names[place]),
					 errhint("Leave it out of one of the two.")));
		set = bms_add_member(set, place);
	}
	return set;
}

SjJoinDef *
sj_arg_join(FunctionCallInfo fcinfo, int n)
{
	Oid			relid = sj_arg_relation(fcinfo, n, "name");
	SjJoinDef  *def = sj_join_def_by_result(relid);

	if (def == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not the result of a join",
						get_rel_name(relid)),
				 errhint("View sjoin.joins lists the joins.")));
	return def;
}

/* A set of text rows. */
Datum
sj_return_lines(FunctionCallInfo fcinfo, List *lines)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	foreach(lc, lines)
	{
		Datum		value = CStringGetTextDatum(lfirst(lc));
		bool		isnull = false;

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value,
							 &isnull);
	}
	return (Datum) 0;
}

/*-------------------------------------------------------------------------
 *
 * attempt.c
 *	  Running user code so that an error of one row does not end the batch
 *	  (R8).
 *
 * IDENTIFICATION
 *	  src/emit/attempt.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "emit/attempt.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

bool
sj_error_is_of_row(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_DATA_EXCEPTION:
		case ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION:
		case ERRCODE_CARDINALITY_VIOLATION:
		case ERRCODE_WITH_CHECK_OPTION_VIOLATION:
		case ERRCODE_EXTERNAL_ROUTINE_EXCEPTION:
		case ERRCODE_EXTERNAL_ROUTINE_INVOCATION_EXCEPTION:
		case ERRCODE_PLPGSQL_ERROR:
		case ERRCODE_FEATURE_NOT_SUPPORTED:
		case ERRCODE_PROGRAM_LIMIT_EXCEEDED:
			return true;
		default:
			return false;
	}
}

bool
sj_error_is_of_expression(int sqlerrcode)
{
	return sj_error_is_of_row(sqlerrcode) ||
		(ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION &&
		 sqlerrcode != ERRCODE_INSUFFICIENT_PRIVILEGE);
}

ErrorData *
sj_attempt(void (*action) (void *arg), void *arg,
		   bool (*is_caught) (int sqlerrcode))
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		action(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;

	/* thrown on only now: outside, nobody knows of the subtransaction */
	if (error != NULL && !is_caught(error->sqlerrcode))
		ReThrowError(error);
	return error;
}

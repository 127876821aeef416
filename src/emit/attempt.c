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

/* A row refused by a policy has the code of a missing privilege. */
static bool
is_of_policy(const ErrorData *error)
{
	static const char start[] = "new row violates row-level security policy";

	return error->message_id != NULL &&
		strncmp(error->message_id, start, sizeof(start) - 1) == 0;
}

/*
 * Errors of the surroundings: what interrupted us, ran out, was locked, or is
 * not allowed.  Trying again later can help, leaving rows out cannot.
 */
static bool
is_of_surroundings(const ErrorData *error)
{
	int			sqlerrcode = error->sqlerrcode;

	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_INVALID_TRANSACTION_STATE:
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_SYSTEM_ERROR:
			return true;
		default:
			return sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ||
				(sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE &&
				 !is_of_policy(error)) ||
				sqlerrcode == ERRCODE_DATA_CORRUPTED ||
				sqlerrcode == ERRCODE_INDEX_CORRUPTED;
	}
}

bool
sj_error_is_of_expression(const ErrorData *error)
{
	return !is_of_surroundings(error);
}

/* A table that is not what we take it for refuses every row. */
bool
sj_error_is_of_row(const ErrorData *error)
{
	int			sqlerrcode = error->sqlerrcode;

	return !is_of_surroundings(error) &&
		sqlerrcode != ERRCODE_UNDEFINED_TABLE &&
		sqlerrcode != ERRCODE_UNDEFINED_COLUMN &&
		sqlerrcode != ERRCODE_DATATYPE_MISMATCH &&
		sqlerrcode != ERRCODE_WRONG_OBJECT_TYPE;
}

ErrorData *
sj_attempt(void (*action) (void *arg), void *arg,
		   bool (*is_caught) (const ErrorData *error))
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
	if (error != NULL && !is_caught(error))
		ReThrowError(error);
	return error;
}

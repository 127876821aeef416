/*-------------------------------------------------------------------------
 *
 * result_changelog.c
 *	  From changes to rows of a changelog.
 *
 * A changelog is only inserted into: step by step, and within a step first
 * what is taken back (-D), then what is updated (-U, +U), then what is new
 * (+I), so that at no row of the log two rows are there that exclude each
 * other.  A retraction repeats the values that were written: those of the
 * newest row of its identity, which is read from the table unless it is
 * written in the same run.
 *
 * Where the newest row is a retraction, or the row was refused when it came
 * (R8), there is nothing to take back.  Where there is no row, the user has
 * trimmed the log, and the values are those of the images.
 *
 * IDENTIFICATION
 *	  src/emit/result_changelog.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "emit/result_run.h"
#include "miscadmin.h"

/* An identity that is taken back in the changes, as the log stands. */
typedef struct LoggedRow
{
	const SjChange *first;		/* its first change, when it takes back */
	bool		begun;
	bool		stored;			/* the table has rows of it */
	bool		there;
	int32		version;
	MinimalTuple values;		/* NULL: those of the images */
} LoggedRow;

typedef struct Logging
{
	SjWriteRun *run;
	SjIdentities *identities;
	LoggedRow  *logged;			/* by number */
	SjResultRow *rows;			/* to write */
	int64		n;
} Logging;

/* The kinds of changes of a step, in the order in which they are logged. */
static int
kind_of(const SjChange *change)
{
	if (change->sign > 0)
		return SJ_ROW_INSERT;
	return change->update ? SJ_ROW_UPDATE : SJ_ROW_DELETE;
}

/* -- how the log stands --------------------------------------------------- */

static void
note_stored(void *arg, const pg_uuid_t *id, int32 version, bool there,
			MinimalTuple values)
{
	Logging    *log = arg;
	int			number = sj_identity_number_of_id(log->identities, id);
	LoggedRow  *row;

	if (number < 0)
		return;
	row = &log->logged[number];
	row->stored = true;
	row->there = there;
	row->version = version;
	row->values = values;
}

/* What was refused earlier, and by this run, in order. */
static SjFailure *
load_failures(const SjWriteRun *run, int *n)
{
	SjFailure  *stored = sj_failures_load(run->writer->def->join_id, n);
	List	   *recorded = run->written->late_rows;
	SjFailure  *all = palloc_extended(sizeof(SjFailure) *
									  (*n + list_length(recorded) + 1),
									  MCXT_ALLOC_HUGE);
	ListCell   *lc;

	memcpy(all, stored, sizeof(SjFailure) * *n);
	foreach(lc, recorded)
	{
		const SjLateRow *late = lfirst(lc);
		SjFailure	failure = {late->op, late->side, late->seq,
		late->other_seq};

		all[(*n)++] = failure;
	}
	qsort(all, *n, sizeof(SjFailure), sj_failure_compare);
	return all;
}

/* How often the failure is there. */
static int
count_failures(const SjFailure *failures, int n, SjFailure failure)
{
	const SjFailure *found = bsearch(&failure, failures, n, sizeof(SjFailure),
									 sj_failure_compare);
	const SjFailure *first = found;
	const SjFailure *last = found;

	if (found == NULL)
		return 0;
	while (first > failures && sj_failure_compare(first - 1, &failure) == 0)
		first--;
	while (last + 1 < failures + n &&
		   sj_failure_compare(last + 1, &failure) == 0)
		last++;
	return (int) (last - first) + 1;
}

/* Was the row refused when it came, and that is why it is not in the log? */
static bool
was_refused(const SjFailure *failures, int n, const SjChange *change)
{
	SjFailure	refused = {SJ_OP_PAIR, SJ_LEFT,
		change->left ? change->left->seq : 0,
	change->right ? change->right->seq : 0};
	SjFailure	taken_back = refused;

	taken_back.op = SJ_OP_UNPAIR;
	return count_failures(failures, n, refused) >
		count_failures(failures, n, taken_back);
}

/* Rows that were to be there and of which the table knows nothing. */
static void
judge_missing(Logging *log)
{
	int			n = sj_identities_count(log->identities);
	SjFailure  *failures = NULL;
	int			nfailures = 0;

	for (int i = 0; i < n; i++)
	{
		LoggedRow  *row = &log->logged[i];

		if (row->first == NULL || row->stored)
			continue;
		if (failures == NULL)
			failures = load_failures(log->run, &nfailures);
		row->version = 1;
		row->there = !was_refused(failures, nfailures, row->first);
	}
}

static void
read_log(Logging *log, const SjChange *changes, int64 n)
{
	int			nlogged = sj_identities_count(log->identities);
	const SjChange **before = palloc0(sizeof(SjChange *) * nlogged);

	for (int64 i = 0; i < n; i++)
	{
		int			number = sj_identity_number(log->identities, &changes[i]);

		if (number < 0 || log->logged[number].begun)
			continue;
		log->logged[number].begun = true;
		if (changes[i].sign < 0)
			log->logged[number].first = before[number] = &changes[i];
	}
	sj_result_read_log(log->run, before, nlogged, note_stored, log);
	judge_missing(log);
}

/* -- what is logged ------------------------------------------------------- */

static SjResultRow *
add_row(Logging *log, SjRowOp op)
{
	SjResultRow *row = &log->rows[log->n++];

	memset(row, 0, sizeof(SjResultRow));
	row->op = op;
	return row;
}

static void
log_insertion(Logging *log, LoggedRow *logged, const SjChange *new,
			  MinimalTuple values)
{
	SjResultRow *row = add_row(log, SJ_ROW_INSERT);

	row->change = new;
	row->values = values;
	row->version = 1;
	if (logged == NULL)
		return;
	logged->there = true;
	logged->values = values;
	logged->version = 1;
}

static void
log_deletion(Logging *log, LoggedRow *logged, const SjChange *old)
{
	SjResultRow *row;

	if (!logged->there)
	{
		sj_result_take_back_absent(log->run, old);
		return;
	}
	logged->there = false;
	if (logged->values == NULL && !sj_result_is_there(log->run, old))
		return;
	row = add_row(log, SJ_ROW_DELETE);
	row->old = old;
	row->old_values = logged->values;
	row->old_version = logged->version;
}

static void
log_update(Logging *log, LoggedRow *logged, const SjChange *old,
		   const SjChange *new)
{
	SjEffect	effect;
	SjResultRow *row;

	sj_result_effect(log->run, old, new, &effect);
	if (!effect.new_there || !effect.old_there || !logged->there)
	{
		if (effect.old_there || (logged->there && logged->values != NULL))
			log_deletion(log, logged, old);
		if (effect.new_there)
			log_insertion(log, logged, new, effect.values);
		return;
	}
	if (effect.equal)
		return;
	row = add_row(log, SJ_ROW_UPDATE);
	row->old = old;
	row->change = new;
	row->old_values = logged->values;
	row->old_version = logged->version;
	row->values = effect.values;
	row->version = ++logged->version;
	logged->values = effect.values;
}

/* The changes of one kind of a step. */
static void
log_kind(Logging *log, const SjChange *changes, int64 n, SjRowOp kind)
{
	for (int64 i = 0; i < n; i++)
	{
		const SjChange *change = &changes[i];
		int			number = sj_identity_number(log->identities, change);
		LoggedRow  *logged = number < 0 ? NULL : &log->logged[number];
		SjEffect	effect;

		CHECK_FOR_INTERRUPTS();
		if (change->sign < 0 && change->update)
		{
			Assert(i + 1 < n && changes[i + 1].sign > 0);
			i++;
		}
		if (kind_of(change) != kind)
			continue;
		if (kind == SJ_ROW_DELETE)
			log_deletion(log, logged, change);
		else if (kind == SJ_ROW_UPDATE)
			log_update(log, logged, change, &changes[i]);
		else if (logged == NULL)
			log_insertion(log, NULL, change, NULL);
		else
		{
			sj_result_effect(log->run, NULL, change, &effect);
			if (effect.new_there)
				log_insertion(log, logged, change, effect.values);
		}
	}
}

void
sj_result_write_changelog(SjWriteRun *run, const SjChange *changes, int64 n)
{
	Logging		log = {.run = run,.identities = sj_identities_of(changes, n)};
	SjRowList	list = {.write = sj_result_insert};
	int64		first;
	int64		end;

	log.logged = palloc_extended(sizeof(LoggedRow) *
								 sj_identities_count(log.identities),
								 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	log.rows = MemoryContextAllocHuge(CurrentMemoryContext,
									  sizeof(SjResultRow) * n);
	read_log(&log, changes, n);
	for (first = 0; first < n; first = end)
	{
		for (end = first; end < n && changes[end].step == changes[first].step;)
			end++;
		log_kind(&log, changes + first, end - first, SJ_ROW_DELETE);
		log_kind(&log, changes + first, end - first, SJ_ROW_UPDATE);
		log_kind(&log, changes + first, end - first, SJ_ROW_INSERT);
	}
	list.rows = log.rows;
	list.n = log.n;
	sj_result_write_rows(run, &list);
}

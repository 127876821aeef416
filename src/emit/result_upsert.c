/*-------------------------------------------------------------------------
 *
 * result_upsert.c
 *	  From changes to deletes, updates in place and inserts of a table that
 *	  shows the current truth.
 *
 * The changes of all steps are netted per identity: what was there before the
 * first of them, what is there after the last, and how many steps in between
 * changed the row.  The outcome, sjoin_version included, is the same however
 * the steps are cut into batches: a row that came back in between is at
 * version 1 again even when it looks as before, and a step that changed
 * nothing of the query's columns does not count.
 *
 * Rows that the engine takes back and the table does not have were refused
 * when they came (R8), or the user has deleted them.
 *
 * IDENTIFICATION
 *	  src/emit/result_upsert.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "emit/result_run.h"
#include "miscadmin.h"

/* An identity that is taken back in the changes. */
typedef struct NetRow
{
	bool		begun;			/* a change of it has been seen */
	const SjChange *first;		/* the row before: its images, or NULL */
	const SjChange *last;		/* the row now, or NULL */
	MinimalTuple values;		/* of the row now, or NULL */
	bool		restarted;		/* has come within the changes */
	int32		updates;		/* since, or in all */
	int32		updates_if_absent;	/* the same when the table lacks it */
	bool		stored;			/* the table has it */
	int32		version;		/* there */
} NetRow;

typedef struct Netting
{
	SjIdentities *identities;
	NetRow	   *rows;			/* by number */
	SjResultRow *inserts;
	int64		ninserts;
	SjResultRow *updates;
	int64		nupdates;
	SjResultRow *deletes;
	int64		ndeletes;
} Netting;

/* -- netting -------------------------------------------------------------- */

static void
begin(NetRow *row, const SjChange *first)
{
	if (row->begun)
		return;
	row->begun = true;
	row->first = first;
}

static void
net_deletion(NetRow *row, const SjChange *old)
{
	begin(row, old);
	row->last = NULL;
}

static void
net_insertion(NetRow *row, const SjChange *new, MinimalTuple values)
{
	begin(row, NULL);
	row->last = new;
	row->values = values;
	row->restarted = true;
	row->updates = 0;
}

static void
net_update(NetRow *row, const SjChange *old, const SjChange *new,
		   const SjEffect *effect)
{
	bool		counts = !effect->equal;

	if (!effect->new_there)
	{
		begin(row, effect->old_there ? old : NULL);
		row->last = NULL;
		return;
	}
	if (!effect->old_there)
	{
		net_insertion(row, new, effect->values);
		return;
	}
	/* the first update of a row that is not there inserts it */
	if (row->begun && counts)
		row->updates_if_absent++;
	begin(row, old);
	row->last = new;
	row->values = effect->values;
	if (counts)
		row->updates++;
}

static void
add_insert(Netting *net, const SjChange *change, MinimalTuple values,
		   int32 version)
{
	SjResultRow *row = &net->inserts[net->ninserts++];

	memset(row, 0, sizeof(SjResultRow));
	row->op = SJ_ROW_INSERT;
	row->change = change;
	row->values = values;
	row->version = version;
}

/* Follows the changes of each identity that is taken back. */
static void
net_changes(SjWriteRun *run, Netting *net, const SjChange *changes, int64 n)
{
	for (int64 i = 0; i < n; i++)
	{
		const SjChange *change = &changes[i];
		int			number = sj_identity_number(net->identities, change);
		SjEffect	effect;

		CHECK_FOR_INTERRUPTS();
		if (number < 0)
			add_insert(net, change, NULL, 1);
		else if (change->sign < 0 && change->update)
		{
			Assert(i + 1 < n && changes[i + 1].sign > 0);
			i++;
			sj_result_effect(run, change, &changes[i], &effect);
			net_update(&net->rows[number], change, &changes[i], &effect);
		}
		else if (change->sign < 0)
			net_deletion(&net->rows[number], change);
		else
		{
			sj_result_effect(run, NULL, change, &effect);
			if (effect.new_there)
				net_insertion(&net->rows[number], change, effect.values);
			else
				begin(&net->rows[number], NULL);
		}
	}
}

/* -- the table ------------------------------------------------------------ */

static void
note_stored(void *arg, const pg_uuid_t *id, int32 version, bool there,
			MinimalTuple values)
{
	Netting    *net = arg;
	int			number = sj_identity_number_of_id(net->identities, id);

	if (number < 0)
		return;
	net->rows[number].stored = true;
	net->rows[number].version = version;
}

/* Which of the rows that were there before does the table have? */
static void
look_up(SjWriteRun *run, Netting *net)
{
	int			n = sj_identities_count(net->identities);
	const SjChange **before = palloc(sizeof(SjChange *) * n);

	for (int i = 0; i < n; i++)
		before[i] = net->rows[i].first;
	sj_result_read_rows(run, before, n, note_stored, net);
}

/* -- outcome -------------------------------------------------------------- */

/* The row was there, and the table has it. */
static void
decide_stored(Netting *net, NetRow *row)
{
	SjResultRow *out;

	if (row->last != NULL && !row->restarted && row->updates == 0)
		return;
	out = row->last == NULL ? &net->deletes[net->ndeletes++] :
		&net->updates[net->nupdates++];
	memset(out, 0, sizeof(SjResultRow));
	out->op = row->last == NULL ? SJ_ROW_DELETE : SJ_ROW_UPDATE;
	out->old = row->first;
	out->change = row->last;
	out->values = row->values;
	out->version = row->updates + (row->restarted ? 1 : row->version);
}

static void
decide(SjWriteRun *run, Netting *net, NetRow *row)
{
	int32		updates = row->updates;

	if (row->first != NULL && row->stored)
	{
		decide_stored(net, row);
		return;
	}
	if (row->first != NULL)
	{
		sj_result_take_back_absent(run, row->first);
		if (!row->restarted)
			updates = row->updates_if_absent;
	}
	if (row->last != NULL)
		add_insert(net, row->last, row->values, 1 + updates);
}

static void
write_group(SjWriteRun *run, SjResultRow *rows, int64 n,
			void (*write) (SjWriteRun *run, const SjRowList *list,
						   int64 first, int64 last))
{
	SjRowList	list = {.write = write,.rows = rows,.n = n};

	sj_result_write_rows(run, &list);
}

void
sj_result_write_upsert(SjWriteRun *run, const SjChange *changes, int64 n)
{
	Netting		net = {.identities = sj_identities_of(changes, n)};
	int			nrows = sj_identities_count(net.identities);
	ListCell   *lc;

	net.rows = palloc_extended(sizeof(NetRow) * nrows,
							   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	net.inserts = MemoryContextAllocHuge(CurrentMemoryContext,
										 sizeof(SjResultRow) * n);
	net.updates = MemoryContextAllocHuge(CurrentMemoryContext,
										 sizeof(SjResultRow) * nrows);
	net.deletes = MemoryContextAllocHuge(CurrentMemoryContext,
										 sizeof(SjResultRow) * nrows);
	net_changes(run, &net, changes, n);
	look_up(run, &net);
	for (int i = 0; i < nrows; i++)
		decide(run, &net, &net.rows[i]);
	write_group(run, net.deletes, net.ndeletes, sj_result_delete);
	write_group(run, net.updates, net.nupdates, sj_result_update);
	foreach(lc, run->again)
		net.inserts[net.ninserts++] = *(SjResultRow *) lfirst(lc);
	run->again = NIL;
	write_group(run, net.inserts, net.ninserts, sj_result_insert);
}

/*-------------------------------------------------------------------------
 *
 * window.c
 *	  What writers did between the creation of a join and the reading of its
 *	  tables.
 *
 * A join begins with its creation: the rows that were there are history, what
 * was captured since is consumed in steps, however late the worker comes.  But
 * the worker reads the tables as they are when it does.  The log knows what
 * has changed meanwhile, image by image, so the tables as they were follow by
 * the arithmetic of bags: an image that came in between is skipped once in
 * what is read, one that went is put back.
 *
 * IDENTIFICATION
 *	  src/worker/window.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "emit/side_output.h"
#include "log/event_log.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"
#include "worker/window.h"

typedef struct ImageCount
{
	SjImageKey	key;
	int64		n;				/* came less went */
	MinimalTuple image;
} ImageCount;

static void
make_hash(SjWindow *window)
{
	HASHCTL		ctl = {.keysize = sizeof(SjImageKey),
		.entrysize = sizeof(ImageCount),.hcxt = CurrentMemoryContext};

	window->net = hash_create("sjoin window", 1024, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
count_image(SjWindow *window, SjTaskInput *input, SjImageLayout *layout,
			Oid source, MinimalTuple image, int n)
{
	MinimalTuple tuple = sj_input_tuple(input, layout, image);
	SjImageKey	key;
	ImageCount *count;
	bool		found;

	if (window->net == NULL)
		make_hash(window);
	sj_image_key(input->plan, input->side, source, tuple, &key);
	count = hash_search(window->net, &key, HASH_ENTER, &found);
	if (!found)
	{
		count->n = 0;
		count->image = heap_copy_minimal_tuple(tuple);
	}
	count->n += n;
}

static void
count_record(SjWindow *window, SjTaskInput *input, SjImageLayout *layout,
			 Oid source, SjLogRecord *record)
{
	switch (record->op)
	{
		case SJ_OP_INSERT:
			count_image(window, input, layout, source,
						SJ_RECORD_IMAGE(record), 1);
			break;
		case SJ_OP_UPDATE:
			count_image(window, input, layout, source,
						SJ_RECORD_IMAGE(record), 1);
			count_image(window, input, layout, source,
						SJ_RECORD_OLD_IMAGE(record), -1);
			break;
		case SJ_OP_DELETE:
			count_image(window, input, layout, source,
						SJ_RECORD_IMAGE(record), -1);
			break;
		default:
			break;
	}
}

static void
count_chunk(SjTask *task, SjWindow *window, const SjChunk *chunk)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		SjTaskInput *input = &task->input[side];
		SjImageLayout *layout = sj_input_layout(input, chunk->layout);
		char	   *space;

		for (space = chunk->data;
			 layout != NULL && space < chunk->data + chunk->len;
			 space += ((SjLogRecord *) space)->size)
			count_record(window, input, layout, chunk->source,
						 (SjLogRecord *) space);
	}
}

static int
compare_bygones(const void *a, const void *b)
{
	const SjBygone *x = a;
	const SjBygone *y = b;

	return x->event_time < y->event_time ? -1 : x->event_time > y->event_time;
}

/* The images of which more went than came. */
static void
collect_bygones(SjTask *task, SjWindow *window)
{
	HASH_SEQ_STATUS status;
	ImageCount *count;
	int			allocated = 16;

	window->bygones = palloc(sizeof(SjBygone) * allocated);
	hash_seq_init(&status, window->net);
	while ((count = hash_seq_search(&status)) != NULL)
	{
		for (; count->n < 0; count->n++)
		{
			SjBygone   *bygone;

			if (window->nbygones == allocated)
			{
				allocated *= 2;
				window->bygones = repalloc_huge(window->bygones,
												sizeof(SjBygone) * allocated);
			}
			bygone = &window->bygones[window->nbygones++];
			bygone->side = count->key.side;
			bygone->source = count->key.source;
			bygone->image = count->image;
			bygone->event_time =
				sj_input_tuple_time(&task->input[bygone->side], count->image);
			if (bygone->event_time == SJ_TIME_MIN)
				bygone->event_time = SJ_TIME_MAX;	/* as the query sorts */
		}
	}
	qsort(window->bygones, window->nbygones, sizeof(SjBygone),
		  compare_bygones);
}

void
sj_window_read(SjTask *task, SjWindow *window)
{
	SjTick	   *start = sj_tick_deserialize(task->def->start, 0);
	SjTick	   *now = sj_tick_take(0, GetActiveSnapshot());
	SjTickReader *reader = sj_log_open_tick(start, now);

	memset(window, 0, sizeof(SjWindow));
	for (int i = 0; i < reader->nchunks; i++)
	{
		SjChunk		chunk;

		CHECK_FOR_INTERRUPTS();
		sj_log_read_chunk(reader, i, &chunk);
		count_chunk(task, window, &chunk);
		pfree(chunk.data);
	}
	sj_log_close_tick(reader);
	if (window->net != NULL)
		collect_bygones(task, window);
}

bool
sj_window_takes(SjWindow *window, const SjTaskInput *input, Oid source,
				MinimalTuple image)
{
	SjImageKey	key;
	ImageCount *count;

	if (window->net == NULL)
		return false;
	sj_image_key(input->plan, input->side, source, image, &key);
	count = hash_search(window->net, &key, HASH_FIND, NULL);
	if (count == NULL || count->n <= 0)
		return false;
	count->n--;
	return true;
}

/*-------------------------------------------------------------------------
 *
 * key.c
 *	  Join keys of a state: a hash table of keys, and the rows of each key.
 *
 * The table grows and shrinks one bucket at a time (linear hashing), so no
 * insertion ever waits for the whole of it.  A key entry is shared by both
 * sides and does not hold the key: a row of the key does, and the operator
 * compares, only where the hash is equal.
 *
 * The rows of a key and side are a list in the order (event_time, seq).  A
 * search starts at the newest row, or, when that is too new, where the last
 * search ended: rows that come in any order of time, forwards, backwards or a
 * second history, find their place in a few steps.
 *
 * IDENTIFICATION
 *	  src/engine/key.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine/state.h"

#define BUCKETS_PER_PAGE ((uint32) (SJ_PAGE_SIZE / sizeof(SjHandle)))
#define MIN_BUCKETS		1024

/* ----- the table ----- */

static inline SjHandle *
bucket_at(const SjEngine *engine, uint32 bucket)
{
	uint32		page = engine->root->bucket_page[bucket / BUCKETS_PER_PAGE];

	return (SjHandle *) SJ_PAGE(engine->arena, page) +
		bucket % BUCKETS_PER_PAGE;
}

static inline uint32
bucket_of(const SjRoot *root, uint32 hash)
{
	uint32		bucket = hash & root->mask;

	return bucket < root->nbuckets ? bucket : bucket & (root->mask >> 1);
}

static bool
add_bucket_page(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	uint32		page;

	if (root->nbucket_pages == SJ_MAX_BUCKET_PAGES)
		return false;
	page = sj_page_alloc(engine, 1);
	if (page == SJ_NO_PAGE)
		return false;
	memset(SJ_PAGE(engine->arena, page), 0, SJ_PAGE_SIZE);
	root->bucket_page[root->nbucket_pages++] = page;
	return true;
}

static bool
create_table(SjEngine *engine)
{
	SjRoot	   *root = engine->root;

	if (!add_bucket_page(engine))
		return false;
	root->nbuckets = MIN_BUCKETS;
	root->mask = MIN_BUCKETS - 1;
	return true;
}

/* Divides one bucket.  Where memory is short, chains become longer. */
static void
grow_table(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	uint32		bucket = root->nbuckets;
	SjHandle   *from;
	SjHandle   *to;

	if (bucket / BUCKETS_PER_PAGE >= root->nbucket_pages &&
		!add_bucket_page(engine))
		return;
	root->nbuckets++;
	if (bucket > root->mask)
		root->mask = root->mask * 2 + 1;

	from = bucket_at(engine, bucket & (root->mask >> 1));
	to = bucket_at(engine, bucket);
	Assert(*to == SJ_NONE);
	while (*from != SJ_NONE)
	{
		SjKey	   *key = sj_key_at(engine, *from);

		if (bucket_of(root, key->hash) == bucket)
		{
			*to = *from;
			*from = key->chain;
			to = &key->chain;
			*to = SJ_NONE;
		}
		else
			from = &key->chain;
	}
}

/* Appends the last bucket to the one it once was divided from. */
static void
shrink_table(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	uint32		bucket = root->nbuckets - 1;
	SjHandle   *last = bucket_at(engine, bucket);
	SjHandle   *to = bucket_at(engine, bucket & (root->mask >> 1));

	while (*to != SJ_NONE)
		to = &sj_key_at(engine, *to)->chain;
	*to = *last;
	*last = SJ_NONE;

	root->nbuckets = bucket;
	if (bucket == (root->mask >> 1) + 1)
		root->mask >>= 1;
	if (bucket % BUCKETS_PER_PAGE == 0)
		sj_page_free(engine, root->bucket_page[--root->nbucket_pages], 1);
}

/*
 * The entry of the event's key, or SJ_NONE.
 *
 * May run user code and throw.
 */
SjHandle
sj_key_find(SjEngine *engine, const SjEvent *event)
{
	const SjOperator *op = engine->op;
	SjRoot	   *root = engine->root;
	SjHandle	handle;

	if (root->nbuckets == 0)
		return SJ_NONE;

	handle = *bucket_at(engine, bucket_of(root, event->hash));
	while (handle != SJ_NONE)
	{
		SjKey	   *key = sj_key_at(engine, handle);

		if (key->hash == event->hash)
		{
			SjSide		side;
			SjRow	   *row;

			side = key->last[SJ_LEFT] != SJ_NONE ? SJ_LEFT : SJ_RIGHT;
			row = sj_row_at(engine, key->last[side]);
			if (op->same_key(op->arg, event->side, event->tuple,
							 side, SJ_ROW_TUPLE(row)))
				return handle;
		}
		handle = key->chain;
	}
	return SJ_NONE;
}

/* ----- entries ----- */

static bool
key_page_has_room(SjEngine *engine)
{
	uint32		page = engine->root->key_pages;

	return page != SJ_NO_PAGE &&
		sj_page_header(engine, page)->used + sizeof(SjKey) <= SJ_PAGE_SIZE;
}

/* Makes room for one more key, so that sj_key_add() cannot fail. */
bool
sj_key_reserve(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	SjPageHeader *header;
	uint32		page;

	if (root->nbuckets == 0 && !create_table(engine))
		return false;
	if (root->free_keys != SJ_NONE || key_page_has_room(engine))
		return true;

	page = sj_page_alloc(engine, 1);
	if (page == SJ_NO_PAGE)
		return false;
	header = sj_page_header(engine, page);
	header->next = root->key_pages;
	header->npages = 1;
	header->used = sizeof(SjPageHeader);
	root->key_pages = page;
	return true;
}

/* Takes an entry from the free list or from the page in use. */
static SjHandle
take_entry(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	SjHandle	handle = root->free_keys;
	SjPageHeader *page;

	if (handle != SJ_NONE)
	{
		root->free_keys = sj_key_at(engine, handle)->chain;
		return handle;
	}
	page = sj_page_header(engine, root->key_pages);
	handle = sj_handle(root->key_pages, page->used);
	page->used += sizeof(SjKey);
	return handle;
}

/* A new entry without rows. */
SjHandle
sj_key_add(SjEngine *engine, uint32 hash)
{
	SjRoot	   *root = engine->root;
	SjHandle	handle = take_entry(engine);
	SjKey	   *key = sj_key_at(engine, handle);
	SjHandle   *bucket;

	if (root->nkeys >= root->nbuckets)
		grow_table(engine);

	memset(key, 0, sizeof(SjKey));
	key->hash = hash;
	bucket = bucket_at(engine, bucket_of(root, hash));
	key->chain = *bucket;
	*bucket = handle;
	root->nkeys++;
	return handle;
}

static void
remove_key(SjEngine *engine, SjHandle handle)
{
	SjRoot	   *root = engine->root;
	SjKey	   *key = sj_key_at(engine, handle);
	SjHandle   *link = bucket_at(engine, bucket_of(root, key->hash));

	while (*link != handle)
		link = &sj_key_at(engine, *link)->chain;
	*link = key->chain;
	key->chain = root->free_keys;
	root->free_keys = handle;
	root->nkeys--;

	/* two for one, so that shrinking keeps pace with leaving */
	for (int i = 0; i < 2; i++)
	{
		if (root->nbuckets > MIN_BUCKETS && root->nkeys < root->nbuckets / 2)
			shrink_table(engine);
	}
}

/* Gives back all pages of keys and buckets. */
void
sj_key_free_all(SjEngine *engine)
{
	SjRoot	   *root = engine->root;

	while (root->key_pages != SJ_NO_PAGE)
	{
		uint32		page = root->key_pages;

		root->key_pages = sj_page_header(engine, page)->next;
		sj_page_free(engine, page, 1);
	}
	root->free_keys = SJ_NONE;
	while (root->nbucket_pages > 0)
		sj_page_free(engine, root->bucket_page[--root->nbucket_pages], 1);
	root->nbuckets = 0;
	root->mask = 0;
}

/* ----- rows of a key ----- */

/*
 * The last row of a key and side with event_time <= until, or NULL.
 */
SjRow *
sj_key_seek(SjEngine *engine, SjKey *key, SjSide side, SjTime until)
{
	SjHandle	at = key->last[side];
	SjRow	   *row;

	if (at == SJ_NONE)
		return NULL;
	row = sj_row_at(engine, at);
	if (row->event_time <= until)
		return row;

	if (key->finger[side] != SJ_NONE)
	{
		at = key->finger[side];
		row = sj_row_at(engine, at);
	}
	while (row->event_time > until && row->prev != SJ_NONE)
	{
		at = row->prev;
		row = sj_row_at(engine, at);
	}
	while (row->next != SJ_NONE)
	{
		SjRow	   *next = sj_row_at(engine, row->next);

		if (next->event_time > until)
			break;
		at = row->next;
		row = next;
	}
	key->finger[side] = at;
	return row->event_time <= until ? row : NULL;
}

/* The handle of the row behind which 'row' belongs, or SJ_NONE. */
static SjHandle
find_place(SjEngine *engine, SjKey *key, const SjRow *row)
{
	SjRow	   *before;
	SjHandle	next;

	before = sj_key_seek(engine, key, row->side, row->event_time);
	while (before != NULL && before->event_time == row->event_time &&
		   before->seq > row->seq)
	{
		if (before->prev == SJ_NONE)
			return SJ_NONE;
		before = sj_row_at(engine, before->prev);
	}
	if (before == NULL)
		return SJ_NONE;

	/* its neighbours, or the key, know its handle */
	next = before->next;
	return next == SJ_NONE ? key->last[row->side] :
		sj_row_at(engine, next)->prev;
}

/* Puts a row into the list of its key and side. */
void
sj_key_link(SjEngine *engine, SjHandle key_handle, SjHandle row_handle)
{
	SjKey	   *key = sj_key_at(engine, key_handle);
	SjRow	   *row = sj_row_at(engine, row_handle);
	SjSide		side = row->side;

	row->key = key_handle;
	row->prev = find_place(engine, key, row);
	if (row->prev == SJ_NONE)
	{
		row->next = key->first[side];
		key->first[side] = row_handle;
	}
	else
	{
		SjRow	   *before = sj_row_at(engine, row->prev);

		row->next = before->next;
		before->next = row_handle;
	}

	if (row->next == SJ_NONE)
		key->last[side] = row_handle;
	else
		sj_row_at(engine, row->next)->prev = row_handle;
}

/* Takes a row out of the list of its key; the last takes the key along. */
void
sj_key_unlink(SjEngine *engine, SjRow *row)
{
	SjHandle	handle = row->key;
	SjKey	   *key = sj_key_at(engine, handle);
	SjSide		side = row->side;
	SjHandle   *to_row;
	SjHandle   *back;

	to_row = row->prev == SJ_NONE ? &key->first[side] :
		&sj_row_at(engine, row->prev)->next;
	back = row->next == SJ_NONE ? &key->last[side] :
		&sj_row_at(engine, row->next)->prev;
	if (key->finger[side] == *to_row)
		key->finger[side] = row->next != SJ_NONE ? row->next : row->prev;
	*to_row = row->next;
	*back = row->prev;

	if (key->first[SJ_LEFT] == SJ_NONE && key->first[SJ_RIGHT] == SJ_NONE)
		remove_key(engine, handle);
}

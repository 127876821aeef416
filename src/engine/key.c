/*-------------------------------------------------------------------------
 *
 * key.c
 *	  Join keys of a state: a hash table of keys, and the rows of each key.
 *
 * The table grows and shrinks one bucket at a time (linear hashing), so no
 * insertion ever waits for the whole of it.  A key entry is shared by both
 * sides and does not hold the key: a row of the key does, and the operator
 * compares, only where the hash is equal.  Rows without a key have entries of
 * their own, by the hash of their event time, that no key is compared with.
 * Upsert keys have entries of their own, too; the hash says of what kind an
 * entry is.
 *
 * The rows of a key and side are a list in the order of event time.  A search
 * starts at the newest row, or, when that is too new, where the last search
 * ended: rows that come in any order of time, forwards, backwards or a second
 * history, find their place in a few steps.
 *
 * IDENTIFICATION
 *	  src/engine/key.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine/state.h"

#include "miscadmin.h"

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

/* A row of the entry, by which it is compared. */
static SjRow *
any_row(const SjEngine *engine, const SjKey *key)
{
	SjSide		side = key->last[SJ_LEFT] != SJ_NONE ? SJ_LEFT : SJ_RIGHT;

	return sj_row_at(engine, key->last[side]);
}

/* Is it the entry of the event's key, or of those without one? */
static bool
is_key_of(const SjEngine *engine, const SjKey *key, const SjEvent *event)
{
	const SjOperator *op = engine->op;
	SjRow	   *row = any_row(engine, key);

	if (sj_row_has_key(row) != event->has_key)
		return false;
	return !event->has_key ||
		op->same_key(op->arg, event->side, event->tuple,
					 row->side, SJ_ROW_TUPLE(row));
}

/* Is it the entry of the event's upsert key? */
static bool
is_entity_of(const SjEngine *engine, const SjKey *key, const SjEvent *event)
{
	const SjOperator *op = engine->op;

	return op->same_entity(op->arg, event->side, event->tuple,
						   SJ_ROW_TUPLE(any_row(engine, key)));
}

/* The first entry with this hash that is the event's, or SJ_NONE. */
static SjHandle
find_entry(SjEngine *engine, const SjEvent *event, uint32 hash,
		   bool (*is_of) (const SjEngine *engine, const SjKey *key,
						  const SjEvent *event))
{
	SjRoot	   *root = engine->root;
	SjHandle	handle;

	if (root->nbuckets == 0)
		return SJ_NONE;

	handle = *bucket_at(engine, bucket_of(root, hash));
	while (handle != SJ_NONE)
	{
		SjKey	   *key = sj_key_at(engine, handle);

		if (key->hash == hash && is_of(engine, key, event))
			return handle;
		handle = key->chain;
	}
	return SJ_NONE;
}

/*
 * The entry of the event's key, or, when it has none, of the event times with
 * the same hash; or SJ_NONE.
 *
 * May run user code and throw.
 */
SjHandle
sj_key_find(SjEngine *engine, const SjEvent *event)
{
	return find_entry(engine, event, sj_event_hash(event), is_key_of);
}

/* The entry of the event's upsert key, likewise. */
SjHandle
sj_entity_find(SjEngine *engine, const SjEvent *event)
{
	return find_entry(engine, event, sj_entity_hash(event), is_entity_of);
}

/* ----- entries ----- */

/* How many entries, of n, there is room for. */
static uint32
count_room(SjEngine *engine, uint32 n)
{
	SjRoot	   *root = engine->root;
	uint32		room = 0;

	for (SjHandle at = root->free_keys; at != SJ_NONE && room < n;
		 at = sj_key_at(engine, at)->chain)
		room++;
	if (room < n && root->key_pages != SJ_NO_PAGE)
		room += (SJ_PAGE_SIZE - sj_page_header(engine, root->key_pages)->used) /
			sizeof(SjKey);
	return room;
}

/* Makes room for n more keys, so that sj_key_add() cannot fail. */
bool
sj_key_reserve(SjEngine *engine, uint32 n)
{
	SjRoot	   *root = engine->root;
	SjPageHeader *header;
	uint32		page;

	if (root->nbuckets == 0 && !create_table(engine))
		return false;
	if (count_room(engine, n) >= n)
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
	root->nentities += hash > SJ_HASH_BITS;
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
	root->nentities -= key->hash > SJ_HASH_BITS;

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

/* The row before or after one in a list, or NULL. */
static inline SjRow *
row_or_null(const SjEngine *engine, SjHandle at)
{
	return at == SJ_NONE ? NULL : sj_row_at(engine, at);
}

/* What orders rows of the same event time. */
static inline int64
rank_of(const SjRow *row, SjIndex index)
{
	return index == SJ_BY_KEY ? row->seq : sj_version_of(row)->version;
}

/*
 * The last row of a key and side with event_time <= until, or NULL.
 */
SjRow *
sj_key_seek(SjEngine *engine, SjKey *key, SjSide side, SjTime until,
			SjIndex index)
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
	while (row->event_time > until && sj_links(row, index)->prev != SJ_NONE)
	{
		at = sj_links(row, index)->prev;
		row = sj_row_at(engine, at);
	}
	while (sj_links(row, index)->next != SJ_NONE)
	{
		SjRow	   *next = sj_row_at(engine, sj_links(row, index)->next);

		if (next->event_time > until)
			break;
		at = sj_links(row, index)->next;
		row = next;
	}
	key->finger[side] = at;
	return row->event_time <= until ? row : NULL;
}

/* The row behind which one of this time and rank belongs, or NULL. */
SjRow *
sj_key_before(SjEngine *engine, SjKey *key, SjSide side, SjTime event_time,
			  int64 rank, SjIndex index)
{
	SjRow	   *before = sj_key_seek(engine, key, side, event_time, index);

	while (before != NULL && before->event_time == event_time &&
		   rank_of(before, index) > rank)
		before = row_or_null(engine, sj_links(before, index)->prev);
	return before;
}

/* Has the row this source and image, as its table has it? */
static bool
is_image_of(const SjEngine *engine, const SjRow *row, const SjEvent *event)
{
	const SjOperator *op = engine->op;
	MinimalTuple tuple = SJ_ROW_TUPLE(row);

	if ((row->flags & (SJ_ROW_DETACHED | SJ_ROW_GONE)) != 0 ||
		sj_row_source(row) != event->source)
		return false;
	if (tuple->t_len == event->tuple->t_len &&
		memcmp(tuple, event->tuple, tuple->t_len) == 0)
		return true;
	return op->same_image(op->arg, event->side, tuple, event->tuple);
}

/*
 * The row of this entry with the side, event time, source and image of the
 * event, the first in order; or SJ_NONE.
 *
 * The first, and not just any: a state that has been rebuilt must make the
 * same choice.
 */
SjHandle
sj_key_search(SjEngine *engine, SjHandle key_handle, const SjEvent *event,
			  SjIndex index)
{
	SjKey	   *key = sj_key_at(engine, key_handle);
	SjRow	   *before;
	SjHandle	at;

	before = sj_key_seek(engine, key, event->side, event->event_time - 1,
						 index);
	at = before == NULL ? key->first[event->side] :
		sj_links(before, index)->next;
	while (at != SJ_NONE)
	{
		SjRow	   *row = sj_row_at(engine, at);

		if (row->event_time > event->event_time)
			break;
		if (is_image_of(engine, row, event))
			return at;
		CHECK_FOR_INTERRUPTS();
		at = sj_links(row, index)->next;
	}
	return SJ_NONE;
}

/* The handle of a row that is in a list: its neighbours, or its key, know. */
SjHandle
sj_key_handle(const SjEngine *engine, SjRow *row, SjIndex index)
{
	const SjLinks *links = sj_links(row, index);

	if (links->next != SJ_NONE)
		return sj_links(sj_row_at(engine, links->next), index)->prev;
	return sj_key_at(engine, links->key)->last[row->side];
}

/* Puts a row into the list of its key and side. */
void
sj_key_link(SjEngine *engine, SjHandle key_handle, SjHandle row_handle,
			SjIndex index)
{
	SjKey	   *key = sj_key_at(engine, key_handle);
	SjRow	   *row = sj_row_at(engine, row_handle);
	SjLinks    *links = sj_links(row, index);
	SjSide		side = row->side;
	SjRow	   *before = sj_key_before(engine, key, side, row->event_time,
									   rank_of(row, index), index);

	links->key = key_handle;
	if (before == NULL)
	{
		links->prev = SJ_NONE;
		links->next = key->first[side];
		key->first[side] = row_handle;
	}
	else
	{
		links->prev = sj_key_handle(engine, before, index);
		links->next = sj_links(before, index)->next;
		sj_links(before, index)->next = row_handle;
	}

	if (links->next == SJ_NONE)
		key->last[side] = row_handle;
	else
		sj_links(sj_row_at(engine, links->next), index)->prev = row_handle;
}

/* Takes a row out of the list of its key; the last takes the key along. */
void
sj_key_unlink(SjEngine *engine, SjRow *row, SjIndex index)
{
	SjLinks    *links = sj_links(row, index);
	SjHandle	handle = links->key;
	SjKey	   *key = sj_key_at(engine, handle);
	SjSide		side = row->side;
	SjHandle   *to_row;
	SjHandle   *back;

	to_row = links->prev == SJ_NONE ? &key->first[side] :
		&sj_links(sj_row_at(engine, links->prev), index)->next;
	back = links->next == SJ_NONE ? &key->last[side] :
		&sj_links(sj_row_at(engine, links->next), index)->prev;
	if (key->finger[side] == *to_row)
		key->finger[side] = links->next != SJ_NONE ? links->next : links->prev;
	*to_row = links->next;
	*back = links->prev;
	links->key = SJ_NONE;

	if (key->first[SJ_LEFT] == SJ_NONE && key->first[SJ_RIGHT] == SJ_NONE)
		remove_key(engine, handle);
}

/*
 * The place of row 'from' in the list of its key is that of 'to' now.  'row' is
 * any of them, as long as it knows its key and neighbours.
 */
void
sj_key_moved(SjEngine *engine, SjRow *row, SjHandle from, SjHandle to,
			 SjIndex index)
{
	const SjLinks *links = sj_links(row, index);
	SjKey	   *key = sj_key_at(engine, links->key);
	SjSide		side = row->side;

	if (links->prev == SJ_NONE)
		key->first[side] = to;
	else
		sj_links(sj_row_at(engine, links->prev), index)->next = to;
	if (links->next == SJ_NONE)
		key->last[side] = to;
	else
		sj_links(sj_row_at(engine, links->next), index)->prev = to;
	if (key->finger[side] == from)
		key->finger[side] = to;
}

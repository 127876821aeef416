/*-------------------------------------------------------------------------
 *
 * netting.c
 *	  What a transaction made of the rows of one input, by value.
 *
 * A record is an edge from an old image to a new one; an insertion comes from
 * nothing, a deletion leads to nothing.  The order in which triggers fire is
 * not the order of changes (a trigger of the user's may update a row whose own
 * event is still queued), so edges are joined by the images they share: what
 * one edge leads to and another comes from was nothing but a stage on the way.
 * Which of several equal images is taken does not matter, rows are bags.
 *
 * Most transactions have no stages at all.  So a first pass counts, by hash,
 * how often an image is led to and come from, and in the second pass only the
 * edges that touch a stage are kept in memory.
 *
 * IDENTIFICATION
 *	  src/worker/netting.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "emit/side_output.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "worker/netting.h"

/* An edge that touches a stage. */
typedef struct HeldEdge
{
	SjEdge		edge;
	struct HeldEdge *next_in;	/* other edges that lead to the same stage */
	struct HeldEdge *next_out;	/* other edges that come from it */
	struct HeldEdge *follows;	/* the edge that it has been joined to */
	struct HeldEdge *followed_by;
} HeldEdge;

typedef struct Image
{
	SjImageKey	key;
	uint32		hash;			/* of the key */
	char		status;
	int64		produced;		/* edges that lead to it */
	int64		consumed;		/* edges that come from it */
	HeldEdge   *in;
	HeldEdge   *out;
} Image;

static inline uint32
hash_image_key(const SjImageKey *key)
{
	uint32		hash;

	memcpy(&hash, key->hash.data, sizeof(hash));
	return hash ^ murmurhash32(key->source);
}

static inline bool
same_image_key(const SjImageKey *a, const SjImageKey *b)
{
	return a->source == b->source &&
		memcmp(&a->hash, &b->hash, sizeof(pg_uuid_t)) == 0;
}

#define SH_PREFIX image
#define SH_ELEMENT_TYPE Image
#define SH_KEY_TYPE SjImageKey
#define SH_KEY key
#define SH_HASH_KEY(tb, key) hash_image_key(&key)
#define SH_EQUAL(tb, a, b) same_image_key(&a, &b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, entry) (entry)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct SjNetting
{
	const SjTaskInput *input;
	MemoryContext context;
	image_hash *images;
	HeldEdge  **held;
	int			nheld;
	int			allocated;
};

SjNetting *
sj_netting_create(const SjTaskInput *input)
{
	SjNetting  *netting = palloc0(sizeof(SjNetting));

	netting->input = input;
	netting->context = CurrentMemoryContext;
	netting->images = image_create(CurrentMemoryContext, 256, NULL);
	return netting;
}

static void
set_key(const SjNetting *netting, Oid source, MinimalTuple image,
		SjImageKey *key)
{
	sj_image_key(netting->input->plan, netting->input->side, source, image,
				 key);
}

static Image *
enter_image(SjNetting *netting, Oid source, MinimalTuple image)
{
	SjImageKey	key;
	Image	   *entry;
	bool		found;

	set_key(netting, source, image, &key);
	entry = image_insert(netting->images, key, &found);
	if (!found)
	{
		entry->produced = entry->consumed = 0;
		entry->in = entry->out = NULL;
	}
	return entry;
}

void
sj_netting_count(SjNetting *netting, Oid source, MinimalTuple old,
				 MinimalTuple new)
{
	if (old != NULL)
		enter_image(netting, source, old)->consumed++;
	if (new != NULL)
		enter_image(netting, source, new)->produced++;
}

/* The image if it is a stage, else NULL. */
static Image *
find_stage(const SjNetting *netting, Oid source, MinimalTuple image)
{
	SjImageKey	key;
	Image	   *entry;

	if (image == NULL)
		return NULL;
	set_key(netting, source, image, &key);
	entry = image_lookup(netting->images, key);
	Assert(entry != NULL);
	return entry->produced > 0 && entry->consumed > 0 ? entry : NULL;
}

static HeldEdge *
hold(SjNetting *netting, const SjEdge *edge)
{
	MemoryContext old = MemoryContextSwitchTo(netting->context);
	HeldEdge   *held = palloc0(sizeof(HeldEdge));

	held->edge = *edge;
	if (edge->old != NULL)
		held->edge.old = heap_copy_minimal_tuple(edge->old);
	if (edge->new != NULL)
		held->edge.new = heap_copy_minimal_tuple(edge->new);
	if (netting->nheld == netting->allocated)
	{
		netting->allocated = Max(16, netting->allocated * 2);
		if (netting->held == NULL)
			netting->held = palloc(sizeof(HeldEdge *) * netting->allocated);
		else
			netting->held = repalloc_huge(netting->held,
										  sizeof(HeldEdge *) * netting->allocated);
	}
	netting->held[netting->nheld++] = held;
	MemoryContextSwitchTo(old);
	return held;
}

bool
sj_netting_passes(SjNetting *netting, const SjEdge *edge)
{
	Image	   *from = find_stage(netting, edge->source, edge->old);
	Image	   *to = find_stage(netting, edge->source, edge->new);
	HeldEdge   *held;

	if (from != NULL && from == to)
		return false;			/* to the same image */
	if (from == NULL && to == NULL)
		return true;
	held = hold(netting, edge);
	if (to != NULL)
	{
		held->next_in = to->in;
		to->in = held;
	}
	if (from != NULL)
	{
		held->next_out = from->out;
		from->out = held;
	}
	return false;
}

/* Joins the edges that lead to a stage with those that come from it. */
static void
join_edges(Image *stage)
{
	HeldEdge   *in = stage->in;
	HeldEdge   *out = stage->out;

	while (in != NULL && out != NULL)
	{
		in->followed_by = out;
		out->follows = in;
		in = in->next_in;
		out = out->next_out;
	}
}

/* The edge from where the first of a chain comes to where its last leads. */
static SjEdge
compose_chain(const HeldEdge *first)
{
	const HeldEdge *last = first;
	SjEdge		edge;

	while (last->followed_by != NULL)
		last = last->followed_by;
	edge = last->edge;
	edge.old = first->edge.old;
	return edge;
}

static int
compare_edges(const void *a, const void *b)
{
	const SjEdge *x = a;
	const SjEdge *y = b;

	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/*
 * A chain that closes upon itself has no first edge and vanishes; so does one
 * that comes from nothing and leads to nothing.
 */
SjEdge *
sj_netting_compose(SjNetting *netting, int *n)
{
	SjEdge	   *edges = MemoryContextAllocHuge(netting->context,
											   sizeof(SjEdge) * (netting->nheld + 1));
	image_iterator iterator;
	Image	   *image;

	image_start_iterate(netting->images, &iterator);
	while ((image = image_iterate(netting->images, &iterator)) != NULL)
		join_edges(image);

	*n = 0;
	for (int i = 0; i < netting->nheld; i++)
	{
		SjEdge		edge;

		CHECK_FOR_INTERRUPTS();
		if (netting->held[i]->follows != NULL)
			continue;
		edge = compose_chain(netting->held[i]);
		if (edge.old != NULL || edge.new != NULL)
			edges[(*n)++] = edge;
	}
	qsort(edges, *n, sizeof(SjEdge), compare_edges);
	return edges;
}

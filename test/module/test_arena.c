/*-------------------------------------------------------------------------
 *
 * test_arena.c
 *	  An SjArena in palloc'd memory that watches what is done with it.
 *
 * Fresh and freed pages are filled with a pattern, so that reading what was
 * never written, or no longer belongs to the reader, shows.  Compiled with
 * USE_VALGRIND it is told of it, too.
 *
 * IDENTIFICATION
 *	  test/module/test_arena.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_engine.h"

#include "utils/memdebug.h"
#include "utils/memutils.h"

#define PATTERN 0xA5

static bool
run_is_free(const TestArena *test, uint32 page, uint32 npages)
{
	if (page + npages > test->npages)
		return false;
	for (uint32 i = 0; i < npages; i++)
	{
		if (test->used[page + i])
			return false;
	}
	return true;
}

static uint32
find_run(const TestArena *test, uint32 npages)
{
	for (uint32 i = 0; i < test->npages; i++)
	{
		uint32		page = (test->from + i) % test->npages;

		if (run_is_free(test, page, npages))
			return page;
	}
	return SJ_NO_PAGE;
}

static uint32
test_alloc(SjArena *arena, uint32 npages)
{
	TestArena  *test = arena->arg;
	uint32		page;

	if (test->nused + npages > test->limit)
		return SJ_NO_PAGE;
	page = find_run(test, npages);
	if (page == SJ_NO_PAGE)
		return page;
	memset(test->used + page, true, npages);
	test->nused += npages;
	test->from = page + npages;
	VALGRIND_MAKE_MEM_UNDEFINED(SJ_PAGE(arena, page),
								(Size) npages * SJ_PAGE_SIZE);
	memset(SJ_PAGE(arena, page), PATTERN, (Size) npages * SJ_PAGE_SIZE);
	VALGRIND_MAKE_MEM_UNDEFINED(SJ_PAGE(arena, page),
								(Size) npages * SJ_PAGE_SIZE);
	return page;
}

static void
test_free(SjArena *arena, uint32 page, uint32 npages)
{
	TestArena  *test = arena->arg;

	for (uint32 i = 0; i < npages; i++)
	{
		if (!test->used[page + i])
			elog(PANIC, "page %u is free already", page + i);
		test->used[page + i] = false;
	}
	test->nused -= npages;
	memset(SJ_PAGE(arena, page), PATTERN, (Size) npages * SJ_PAGE_SIZE);
	VALGRIND_MAKE_MEM_NOACCESS(SJ_PAGE(arena, page),
							   (Size) npages * SJ_PAGE_SIZE);
}

static char *
alloc_pages(uint32 npages)
{
	return MemoryContextAllocExtended(CurrentMemoryContext,
									  (Size) npages * SJ_PAGE_SIZE,
									  MCXT_ALLOC_HUGE);
}

static void
free_pages(char *base, uint32 npages)
{
	VALGRIND_MAKE_MEM_UNDEFINED(base, (Size) npages * SJ_PAGE_SIZE);
	pfree(base);
}

TestArena *
test_arena_create(uint32 npages)
{
	TestArena  *test = palloc0(sizeof(TestArena));

	test->npages = npages;
	test->limit = npages;
	test->used = palloc0(npages);
	test->arena.base = alloc_pages(npages);
	test->arena.alloc = test_alloc;
	test->arena.free = test_free;
	test->arena.arg = test;
	return test;
}

/* The same pages at another address, as another process might see them. */
void
test_arena_move(TestArena *test)
{
	char	   *old = test->arena.base;
	char	   *new = alloc_pages(test->npages);

	for (uint32 page = 0; page < test->npages; page++)
	{
		Size		at = (Size) page * SJ_PAGE_SIZE;

		if (!test->used[page])
			continue;
		memcpy(new + at, old + at, SJ_PAGE_SIZE);
		memset(old + at, PATTERN, SJ_PAGE_SIZE);
		VALGRIND_MAKE_MEM_NOACCESS(old + at, SJ_PAGE_SIZE);
	}
	test->arena.base = new;
	free_pages(old, test->npages);
}

void
test_arena_free(TestArena *test)
{
	if (test->nused != 0)
		elog(ERROR, "%u pages were not given back", test->nused);
	free_pages(test->arena.base, test->npages);
	pfree(test->used);
	pfree(test);
}

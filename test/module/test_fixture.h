/*-------------------------------------------------------------------------
 *
 * test_fixture.h
 *	  A join in an arena, for tests of single properties.
 *
 * IDENTIFICATION
 *	  test/module/test_fixture.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include "test_engine.h"

#define MINUTE (60 * USECS_PER_SEC)

/* An interval join 0 .. 5 minutes in an arena of so many pages. */
typedef struct Fixture
{
	TestOperator test;
	TestArena  *arena;
	SjEngine   *engine;
	int64		seq;
} Fixture;

extern void set_up(Fixture *fixture, uint32 npages, bool outer_join);
extern void tear_down(Fixture *fixture);

/* A row whose seq and image are the fixture's next number. */
extern SjInsertResult insert(Fixture *fixture, SjSide side, int64 key,
							 SjTime event_time, uint32 filler);
/* Moves both inputs on and ends the batch. */
extern void advance_to(Fixture *fixture, SjTime watermark);
extern void check(bool condition, const char *what);
extern uint64 rows_in_state(Fixture *fixture);

#endif							/* TEST_FIXTURE_H */

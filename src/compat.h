/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between the PostgreSQL versions that sjoin supports.
 *
 * IDENTIFICATION
 *	  src/compat.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_COMPAT_H
#define SJ_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "sjoin needs PostgreSQL 15 or later"
#endif

#endif							/* SJ_COMPAT_H */

/*-------------------------------------------------------------------------
 *
 * sandbox.c
 *	  Running user code as the owner of a result, and as nobody else.
 *
 * IDENTIFICATION
 *	  src/worker/sandbox.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"
#include "worker/sandbox.h"

static void
set_option(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

void
sj_sandbox_enter(SjSandbox *sandbox, Oid owner, const char *time_zone)
{
	GetUserIdAndSecContext(&sandbox->saved_user, &sandbox->saved_context);
	sandbox->guc_level = NewGUCNestLevel();
	set_option("search_path", "pg_catalog, pg_temp");
	set_option("TimeZone", time_zone);
	set_option("DateStyle", "ISO, YMD");
	set_option("IntervalStyle", "postgres");
	set_option("extra_float_digits", "1");
	set_option("bytea_output", "hex");
	set_option("row_security", "on");
	set_option("xmloption", "content");
	SetUserIdAndSecContext(owner, sandbox->saved_context |
						   SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION);
}

void
sj_sandbox_leave(SjSandbox *sandbox)
{
	AtEOXact_GUC(false, sandbox->guc_level);
	SetUserIdAndSecContext(sandbox->saved_user, sandbox->saved_context);
}

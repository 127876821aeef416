/*-------------------------------------------------------------------------
 *
 * notify.c
 *	  Telling those who listen that a result has changed.
 *
 * One NOTIFY in the transaction of the batch, so it arrives when the rows can
 * be seen, and never for a batch that was rolled back.
 *
 * IDENTIFICATION
 *	  src/worker/notify.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/async.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "worker/task.h"

/*
 * A time as ISO 8601, or null: in UTC, or of a column of type timestamp as it is
 * there, without a zone.
 */
static void
append_time(StringInfo buf, SjTime event_time, bool local)
{
	char		text[MAXDATELEN + 1];
	int			utc = 0;

	if (!IS_VALID_TIMESTAMP(event_time))
	{
		appendStringInfoString(buf, "null");
		return;
	}
	JsonEncodeDateTime(text, TimestampTzGetDatum(event_time),
					   local ? TIMESTAMPOID : TIMESTAMPTZOID,
					   local ? NULL : &utc);
	appendStringInfo(buf, "\"%s\"", text);
}

/* A JSON object; shorter than any payload may be, whatever the names. */
static char *
payload(const SjTask *task, const SjPosition *position, int64 rows,
		int64 retracted)
{
	Oid			result = task->def->result;
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "{\"join\": ");
	escape_json(&buf,
				quote_qualified_identifier(get_namespace_name(get_rel_namespace(result)),
										   get_rel_name(result)));
	appendStringInfo(&buf, ", \"rows\": " INT64_FORMAT ", \"retracted\": " INT64_FORMAT,
					 rows, retracted);
	if (task->def->output_mode == SJ_OUTPUT_UPSERT)
		appendStringInfoString(&buf, ", \"seq\": null");
	else
		appendStringInfo(&buf, ", \"seq\": " INT64_FORMAT,
						 position->result_seq);
	appendStringInfoString(&buf, ", \"watermark\": ");
	append_time(&buf, position->clock.watermark,
				!task->query->bounds.with_zone);
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

void
sj_notify_written(const SjTask *task, const SjPosition *position, int64 rows,
				  int64 retracted)
{
	if (task->def->notify_channel == NULL || rows + retracted == 0)
		return;
	Async_Notify(task->def->notify_channel,
				 payload(task, position, rows, retracted));
}

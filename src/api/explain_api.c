/*-------------------------------------------------------------------------
 *
 * explain_api.c
 *	  explain: what a join would keep and when it would write, without making
 *	  it.
 *
 * IDENTIFICATION
 *	  src/api/explain_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"
#include "api/join_start.h"
#include "catalog/privileges.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"

PG_FUNCTION_INFO_V1(sjoin_explain);

/* The lines as one JSON array of strings. */
static List *
as_json(List *lines)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, '[');
	foreach(lc, lines)
	{
		if (foreach_current_index(lc) > 0)
			appendStringInfoString(&buf, ", ");
		escape_json(&buf, lfirst(lc));
	}
	appendStringInfoChar(&buf, ']');
	return list_make1(buf.data);
}

/*
 * explain(query text, format text, options as create_join) RETURNS SETOF text
 */
Datum
sjoin_explain(PG_FUNCTION_ARGS)
{
	static const char *const formats[] = {"text", "json"};
	char	   *text = text_to_cstring(sj_arg_text_required(fcinfo, 0, "query"));
	int			format = sj_arg_choice(fcinfo, 1, "format", formats,
									   lengthof(formats));
	SjJoinDef	def = {.query = text};
	SjJoinShape shape;
	SjExplainOptions options;
	SjJoinQuery *query;
	List	   *lines;

	sj_read_join_options(fcinfo, 2, &def);
	sj_join_shape(&def, &shape);
	query = sj_query_analyze(sj_query_parse(text), &shape);
	sj_check_input_privileges(query);
	sj_check_finality(&def, query);
	sj_check_result_columns(query);
	sj_explain_options(&def, query, &options);
	lines = sj_explain_lines(query, &options);
	return sj_return_lines(fcinfo, format == 0 ? lines : as_json(lines));
}

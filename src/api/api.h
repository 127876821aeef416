/*-------------------------------------------------------------------------
 *
 * api.h
 *	  What the files of the SQL surface share.
 *
 * IDENTIFICATION
 *	  src/api/api.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_API_H
#define SJ_API_H

#include "sjoin.h"

#include "catalog/join_def.h"
#include "catalog/query_text.h"
#include "catalog/stream_def.h"
#include "fmgr.h"
#include "nodes/bitmapset.h"
#include "utils/timestamp.h"

/* hooks.c: object access, utility commands, end of transaction. */
extern void sj_api_init(void);
/* At commit the worker reads the definitions again. */
extern void sj_definitions_changed(void);

/* args.c: arguments of SQL functions; errors name the argument. */
extern text *sj_arg_text_required(FunctionCallInfo fcinfo, int n,
								  const char *name);
extern char *sj_arg_cstring(FunctionCallInfo fcinfo, int n);
extern int64 sj_arg_interval(FunctionCallInfo fcinfo, int n, const char *name);
extern int	sj_arg_choice(FunctionCallInfo fcinfo, int n, const char *name,
						  const char *const *choices, int nchoices);
extern Oid	sj_arg_relation(FunctionCallInfo fcinfo, int n, const char *name);
extern bool sj_arg_flag(FunctionCallInfo fcinfo, int n);
/*
 * The names in a text array as a set of their places among 'names'.  An
 * argument from 'first' on that is given and reset, too, is an error.
 */
extern Bitmapset *sj_arg_reset(FunctionCallInfo fcinfo, int n, int first,
							   const char *const *names, int nnames);
/* The join whose result the argument names; error when it is none. */
extern SjJoinDef *sj_arg_join(FunctionCallInfo fcinfo, int n);

/* stream_api.c */
extern void sj_create_stream(const SjStreamDef *def);
extern void sj_drop_stream(Oid relid);

/* join_api.c */
extern void sj_forget_join(const SjJoinDef *def);
extern void sj_drop_join(const SjJoinDef *def, bool keep_result);

/* result_columns.c: error unless the targets can be columns of a table. */
extern void sj_check_result_columns(const SjJoinQuery *query);

/* options.c: the options that create_join and explain have in common, of
 * which 'first' is the number of output_mode. */
extern void sj_read_join_options(FunctionCallInfo fcinfo, int first,
								 SjJoinDef *def);
/* Single options, for alter_join(), too. */
extern SjLateRows sj_arg_late_rows(FunctionCallInfo fcinfo, int n);
extern char *sj_arg_channel(FunctionCallInfo fcinfo, int n);
extern void sj_check_max_rows_per_key(FunctionCallInfo fcinfo, int n);
extern void sj_check_parallelism(FunctionCallInfo fcinfo, int n);
/* NOTICE when it has none. */
extern void sj_check_timeout_has_effect(const SjJoinDef *def);
extern void sj_explain_options(const SjJoinDef *def, const SjJoinQuery *query,
							   SjExplainOptions *options);

/* control_api.c */
extern bool sj_wait_for_joins(List *join_ids, TimestampTz watermark,
							  int64 timeout_ms);

/* A set of text rows. */
extern Datum sj_return_lines(FunctionCallInfo fcinfo, List *lines);

/* control_api.c: SJ_TIME_MIN when unknown, that is, when no join runs. */
extern SjTime sj_stream_newest_event_time(Oid relid);
extern SjTime sj_stream_watermark(Oid relid);

#endif							/* SJ_API_H */

/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include <string.h>

const struct cs_cmd *const cs_commands[] = {
	&cs_cmd_run_description,
	&cs_cmd_status_description,
	&cs_cmd_dump_description,
	&cs_cmd_top_description,
	&cs_cmd_trace_description,
	&cs_cmd_pause_description,
	&cs_cmd_resume_description,
#ifdef CS_CLI_CATALOG
	&cs_cmd_catalog_description,
#endif
	&cs_cmd_help_description,
	NULL,
};

const struct cs_cmd *
cs_cmd_find(const char *name)
{
	for (size_t i = 0; cs_commands[i]; i++) {
		if (strcmp(cs_commands[i]->name, name) == 0)
			return cs_commands[i];
	}
	return NULL;
}

const char *
cs_cmd_suggest(const char *word)
{
	const char *names[sizeof(cs_commands) / sizeof(cs_commands[0])];
	size_t count = 0;

	for (; cs_commands[count]; count++)
		names[count] = cs_commands[count]->name;
	return cs_suggest(word, names, count);
}

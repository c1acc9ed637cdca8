/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command of `collscope` is. Each cmd_<name>.c defines one `const struct cs_cmd
 * cs_cmd_<name>_description`; commands.c lists them. That list drives dispatch, help, suggestions for typing
 * errors, shell completion and the generated parts of the man pages, so none of them can disagree.
 *
 * Conventions of every command: data goes to stdout, talk to stderr (cs_log_*); the function returns the exit
 * status; stdout is checked by main() through cs_output_finish() after it returns.
 *
 * Thread context: main thread, everything here.
 */
#ifndef CS_CMD_H
#define CS_CMD_H

#include "environment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cs_exit {
	CS_EXIT_OK = 0,
	CS_EXIT_NOTHING = 1, /* nothing found: an answer, not a failure */
	CS_EXIT_ERROR = 2,   /* usage or data error; said on stderr */
	/* `collscope run` alone, as env(1), nice(1) and timeout(1) do: the command's own statuses stay free.
	 */
	CS_EXIT_RUN_FAILED = 125,
	CS_EXIT_RUN_NOT_EXECUTABLE = 126,
	CS_EXIT_RUN_NOT_FOUND = 127
};

/* How an option's argument can be completed by a shell, apart from a fixed list of words. */
#define CS_COMPLETE_FILE      "@file"
#define CS_COMPLETE_DIRECTORY "@directory"
#define CS_COMPLETE_PID       "@pid" /* of traced processes */

struct cs_cmd_option {
	int id;               /* what cs_cmd_next returns, >= 0, unique in the command */
	char letter;          /* one-letter form, 0 none */
	const char *name;     /* long form without dashes; NULL ends a list */
	const char *argument; /* "DIR"; NULL: takes none */
	const char *values;   /* "a|b|c", CS_COMPLETE_*, or NULL */
	const char *help;     /* one or two sentences */
};

/* Ids of options that come from the environment table: this plus the index in cs_variables(). */
#define CS_OPTION_ENVIRONMENT 1000
/* Id of --help, which every command has. */
#define CS_OPTION_HELP 999

/* The run directory option, the same in every command that reads segments. */
#define CS_OPTION_DIRECTORY_ENTRY(id)                                                                        \
	{                                                                                                    \
		id, 'd', "dir", "DIR", CS_COMPLETE_DIRECTORY,                                                \
			"Run directory with the segments (default: $COLLSCOPE_DIR, else /run/collscope, "    \
			"else /dev/shm/collscope-UID)."                                                      \
	}
#define CS_OPTION_PID_ENTRY(id, text)                                                                        \
	{                                                                                                    \
		id, 'p', "pid", "PID", CS_COMPLETE_PID, text                                                 \
	}

struct cs_cmd_example {
	const char *command; /* without "$ " */
	const char *what;    /* what it is good for, no full stop */
};

struct cs_cmd_status {
	const char *status; /* "0", "128+N" */
	const char *meaning;
};

struct cs_cmd_column {
	const char *name; /* NULL ends a list */
	const char *meaning;
};

struct cs_cmd {
	const char *name;
	const char *summary;  /* for lists: lower case, no full stop */
	const char *synopsis; /* what follows "collscope NAME ", e.g. "[options] -- COMMAND [ARGUMENT...]" */
	const char *description;               /* a short paragraph for --help */
	const struct cs_cmd_option *options;   /* ends with name NULL */
	const struct cs_cmd_example *examples; /* ends with command NULL */
	const struct cs_cmd_column *columns;   /* of its table, for those who read it; NULL none */
	const struct cs_cmd_status *statuses;  /* ends with status NULL */
	const char *words;        /* what its first operand can be, "a|b|c", for completion; NULL none */
	bool environment_options; /* every COLLSCOPE_* variable is an option too */
	bool stops_at_operand; /* the first operand ends the options: what follows belongs to somebody else */
	int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
};

extern const struct cs_cmd cs_cmd_run_description;
extern const struct cs_cmd cs_cmd_status_description;
extern const struct cs_cmd cs_cmd_dump_description;
extern const struct cs_cmd cs_cmd_top_description;
extern const struct cs_cmd cs_cmd_trace_description;
extern const struct cs_cmd cs_cmd_pause_description;
extern const struct cs_cmd cs_cmd_resume_description;
extern const struct cs_cmd cs_cmd_catalog_description; /* runs cs_cmd_catalog */
extern const struct cs_cmd cs_cmd_help_description;

/* The list, in the order of the help text; ends with NULL. */
extern const struct cs_cmd *const cs_commands[];
/* NULL when there is none of that name. */
const struct cs_cmd *cs_cmd_find(const char *name);
/* Closest command name, or NULL. */
const char *cs_cmd_suggest(const char *word);

/* -- options ------------------------------------------------------------------------------------------- */

/* One option with storage for a name that is made from a variable's. */
struct cs_cmd_option_view {
	struct cs_cmd_option option;
	char name[48];
	char argument[64];
};

/* Option number `index` of a command: its own, then those of the environment table, then --help. false past
 * the end. */
bool cs_cmd_option_at(const struct cs_cmd *cmd, size_t index, struct cs_cmd_option_view *view);
#define CS_OPTIONS_MAX 64

/* Words that cs_cmd_next returns beside option ids. */
#define CS_PARSE_END     (-1) /* nothing left */
#define CS_PARSE_OPERAND (-2) /* parser.value is an operand */
#define CS_PARSE_EXIT    (-3) /* --help was answered or an error was said: return parser.status */

struct cs_cmd_parser {
	const struct cs_cmd *cmd;
	int argc;
	char **argv;
	int index;           /* next word */
	const char *cluster; /* rest of "-abc" */
	bool only_operands;  /* after "--" */
	const char *value;   /* argument of the option, or the operand; borrowed from argv */
	char option[64];     /* the option as written, for messages */
	int status;          /* for CS_PARSE_EXIT */
	int error_status; /* exit status of usage errors: CS_EXIT_ERROR unless changed after cs_cmd_parse */
};

/* Options may stand anywhere before "--" (unless the command stops at its first operand), as --name VALUE,
 * --name=VALUE, -x VALUE, -xVALUE, and one-letter options without arguments together. Names are not
 * abbreviated. */
void cs_cmd_parse(struct cs_cmd_parser *parser, const struct cs_cmd *cmd, int argc, char **argv);
int cs_cmd_next(struct cs_cmd_parser *parser);

/* Says the sentence on stderr with a pointer to --help; returns CS_PARSE_EXIT with parser.status set. */
int cs_cmd_usage_error(struct cs_cmd_parser *parser, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Values of options: 0, or CS_PARSE_EXIT after a usage error. */
int cs_cmd_value_integer(struct cs_cmd_parser *parser, uint64_t least, uint64_t most, uint64_t *value);
/* "500ms", "30s", "2m", "1h", "1d"; a bare number is seconds; in (0, 366 days]. */
int cs_cmd_value_duration(struct cs_cmd_parser *parser, uint64_t *duration_ns);
/* The moment that a duration ago was: CLOCK_REALTIME, 0 when there was none yet. */
int cs_cmd_value_since(struct cs_cmd_parser *parser, uint64_t *since_ns);
/* A share: a number from 0.0001 to 1. */
int cs_cmd_value_share(struct cs_cmd_parser *parser, double *share);
/* Index in the words of `values` ("a|b|c"). */
int cs_cmd_value_choice(struct cs_cmd_parser *parser, const char *values, unsigned int *index);
/* For operands of commands that take none. */
int cs_cmd_unexpected_operand(struct cs_cmd_parser *parser);

/* -- help ---------------------------------------------------------------------------------------------- */

/* To stdout. */
void cs_help_print_overview(void);
void cs_help_print_command(const struct cs_cmd *cmd);
/* Bare `collscope`: short, to stderr. */
void cs_help_print_short(void);
/*
 * Text that is made from the tables, to stdout, for the build and scripts/generate-docs: "bash" (completion),
 * "commands.scd", "environment.scd" (parts of the man pages). -EINVAL when there is no such text.
 */
int cs_generate_print(const char *what);

int cs_cmd_catalog(int argc, char **argv);

#endif

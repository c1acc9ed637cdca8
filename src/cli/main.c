/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include "descriptors.h"
#include "log.h"
#include "output.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int
unknown_command(const char *word)
{
	const char *guess = cs_cmd_suggest(word);

	if (guess)
		cs_log_error(
			"Unknown command \"%s\": did you mean \"%s\"? See `collscope --help`.", word, guess);
	else
		cs_log_error("Unknown command \"%s\". See `collscope --help`.", word);
	return CS_EXIT_ERROR;
}

static int
dispatch(int argc, char **argv)
{
	const struct cs_cmd *cmd;
	const char *word = argc > 1 ? argv[1] : NULL;

	if (!word) {
		cs_help_print_short();
		return CS_EXIT_ERROR;
	}
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		cs_help_print_overview();
		return CS_EXIT_OK;
	}
	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
		puts("collscope " CS_VERSION);
		return CS_EXIT_OK;
	}
	if (word[0] == '-') {
		cs_log_error("Unknown option \"%s\". See `collscope --help`.", word);
		return CS_EXIT_ERROR;
	}
	cmd = cs_cmd_find(word);
	return cmd ? cmd->run(argc - 1, argv + 1) : unknown_command(word);
}

static void
ignore(int signal_number)
{
	(void)signal_number;
}

/* A file over the limit of ulimit -f is an error of writing, which is said. By a handler, not SIG_IGN:
 * COMMAND of `run` gets back what it had. */
static void
outlive_file_size_limit(void)
{
	struct sigaction before;
	struct sigaction action = {.sa_handler = ignore};

	if (sigaction(SIGXFSZ, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
		(void)sigaction(SIGXFSZ, &action, NULL);
}

int
main(int argc, char **argv)
{
	cs_descriptors_occupy();
	outlive_file_size_limit();
	cs_log_setup("collscope", CS_LOG_INFO, CS_LOG_PLAIN);
	return cs_output_finish(dispatch(argc, argv));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard output and terminal of the command line: checked at the end, quiet when the reader has gone,
 * coloured only for people.
 *
 * Thread context: main thread.
 */
#ifndef CS_OUTPUT_H
#define CS_OUTPUT_H

#include <stdbool.h>

enum cs_color { CS_COLOR_AUTO = 0, CS_COLOR_ALWAYS = 1, CS_COLOR_NEVER = 2 };
#define CS_COLOR_VALUES "auto|always|never"

enum cs_style {
	CS_STYLE_PLAIN = 0,
	CS_STYLE_BOLD,
	CS_STYLE_DIM,
	CS_STYLE_RED,
	CS_STYLE_YELLOW,
	CS_STYLE_GREEN
};

/* AUTO: stdout is a terminal, NO_COLOR is unset or empty, TERM is set and not "dumb". */
void cs_output_setup_color(enum cs_color color);
/* Escape sequence, or "" without colour. Static string. */
const char *cs_output_style(enum cs_style style);

bool cs_output_is_terminal(void);
/* Size of the terminal; 80 x 24 when there is none or it does not say. */
unsigned int cs_output_columns(void);
unsigned int cs_output_rows(void);

/* false: something printed earlier could not be written, and nothing more needs to be. Cheap: once per line
 * of long output, so that the cause is kept (stdio forgets it) and a full disk ends the work early. A reader
 * that has gone ends the process, as below. */
bool cs_output_check(void);

/* Flushes stdout: 0; -errno when something could not be written. A reader that has gone (EPIPE) ends the
 * process by SIGPIPE, as it would have without somebody ignoring that signal for us. */
int cs_output_flush(void);

/* Last act before exit: flushes and closes stdout. Returns `status`, or CS_EXIT_ERROR with a sentence on
 * stderr when anything that was printed is not there. */
int cs_output_finish(int status);

#endif

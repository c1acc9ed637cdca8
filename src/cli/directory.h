/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every command says of a run directory that it cannot use: one sentence, with the path and what to do.
 * Thread context: main thread.
 */
#ifndef CS_DIRECTORY_H
#define CS_DIRECTORY_H

#include "log.h"

/* path: as it was named; long ones are shortened. consequence: "", or ", so nothing will be recorded".
 * error: a negative errno of cs_rundir_resolve, cs_rundir_prepare or cs_rundir_each. */
void cs_directory_say_unusable(enum cs_log_level level, const char *path, const char *consequence, int error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the injected library borrow from its centre. All three work from any thread at any time,
 * before InitializeInjection too (NVTX may call us first), and are host-safe after the first call.
 */
#ifndef CS_INJECTOR_H
#define CS_INJECTOR_H

#include "environment.h"
#include "segment_writer.h"

/* The segment of this process; NULL while there is none and when there will be none (dormant, mode off, forked
 * child). Borrowed: valid for the life of the process. */
struct cs_segment_writer *cs_injector_borrow_writer(void);
/* The settings, read from the environment at the first call. Never NULL. */
const struct cs_settings *cs_injector_settings(void);
/* Absolute path of the file that this code was loaded from; "" when it cannot be told. */
const char *cs_injector_library_path(void);

#endif

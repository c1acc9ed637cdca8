/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rooms of the injected library know of each other: the one instance of the process.
 *
 * Life: InitializeInjection (cuInit's thread, once) loads the settings, finds CUPTI, subscribes and returns.
 * The first context creates the segment, the label tables and the worker thread. From then on until fork or
 * exit the writer is there.
 */
#ifndef CS_INJECTOR_H
#define CS_INJECTOR_H

#include "environment.h"
#include "segment/segment_writer.h"

/* The segment of this process; NULL before the first context, in a forked child and when dormant. One atomic
 * load; any thread, host-safe. The pointer stays valid for the life of the process once handed out. */
struct cs_segment_writer *cs_injector_borrow_writer(void);

/* Settings of this process, loaded in InitializeInjection; defaults before. Immutable after that; any thread.
 */
const struct cs_settings *cs_injector_borrow_settings(void);

/* Absolute path of the file that this code was loaded from, "" when unknown. Static string. */
const char *cs_injector_library_path(void);

#endif

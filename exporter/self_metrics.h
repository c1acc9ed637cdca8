/* SPDX-License-Identifier: Apache-2.0 */
/* The standard process_* families, about the exporter itself, from /proc/self. Thread context: any. */
#ifndef CS_EXPORTER_SELF_METRICS_H
#define CS_EXPORTER_SELF_METRICS_H

#include "snapshot.h"

/* What cannot be read is left out. */
void cs_self_metrics_collect(struct cs_snapshot *snapshot);

#endif

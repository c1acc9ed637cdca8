/* SPDX-License-Identifier: Apache-2.0 */
/* Between kernel_name.c and its two readers, kernel_name_mangled.c and kernel_name_plain.c. */
#ifndef CS_KERNEL_NAME_PRIVATE_H
#define CS_KERNEL_NAME_PRIVATE_H

#include "kernel_name.h"

/* Deepest nesting of types that is read; real names of collectives have 4. */
#define CS_KERNEL_NAME_DEPTH 24U

void cs_kernel_name_add_part(struct cs_kernel_name *name, const char *text, size_t length);
/* NULL when there is no room. */
struct cs_name_argument *cs_kernel_name_add_argument(
	struct cs_kernel_name *name, int parent, unsigned int ordinal);

/* `text`: behind "_Z" */
void cs_kernel_name_scan_mangled(const char *text, struct cs_kernel_name *name);
void cs_kernel_name_arguments_mangled(struct cs_kernel_name *name);
void cs_kernel_name_scan_plain(const char *text, struct cs_kernel_name *name);
void cs_kernel_name_arguments_plain(struct cs_kernel_name *name);

#endif

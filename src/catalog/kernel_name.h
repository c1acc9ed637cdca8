/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a kernel's name that the catalogue looks at: namespaces, the function's own name, its template
 * arguments. Reads Itanium-mangled names as nvcc and clang write them, demangled names as c++filt, cu++filt
 * and CUPTI's users write them, and plain C names (Triton, extern "C").
 *
 * Not a demangler: function parameters are never looked at, and what the bounded parser cannot read becomes
 * an argument of kind OTHER. Hostile names cost at most one pass over CS_KERNEL_NAME_BYTES bytes.
 *
 * Thread context: pure, any thread, no allocation, host-safe. Parts point into the caller's text.
 */
#ifndef CS_KERNEL_NAME_H
#define CS_KERNEL_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUTLASS names reach 4 KiB; nothing that the catalogue looks for is that far behind. */
#define CS_KERNEL_NAME_BYTES     8192U
#define CS_KERNEL_NAME_PARTS     16U
#define CS_KERNEL_NAME_ARGUMENTS 32U

struct cs_name_part {
	const char *text;
	size_t length; /* bytes */
};

enum cs_name_argument_kind {
	CS_NAME_ARGUMENT_OTHER = 0,
	CS_NAME_ARGUMENT_TYPE = 1,   /* a plain type: no pointer, no reference, no qualifier */
	CS_NAME_ARGUMENT_INTEGER = 2 /* integer, bool, character or enumerator */
};

struct cs_name_argument {
	uint8_t kind;
	int8_t parent;   /* index of the argument that this one is inside of, -1: the kernel's own */
	uint8_t ordinal; /* place among its siblings, from 0 */
	uint8_t dtype;   /* TYPE: enum cs_dtype when it is one */
	int64_t value;   /* INTEGER */
};

struct cs_kernel_name {
	/* Namespaces, then the function. An anonymous namespace is the part "(anonymous)", whatever it is
	 * spelled like in the name. */
	struct cs_name_part parts[CS_KERNEL_NAME_PARTS];
	size_t part_count; /* 0: no name */
	const char *arguments_text;
	const char *end;           /* of the text looked at */
	unsigned int prefix_count; /* mangled: substitutions that the name itself has made */
	bool mangled;
	struct cs_name_argument arguments[CS_KERNEL_NAME_ARGUMENTS];
	size_t argument_count;
	bool arguments_complete; /* the argument list was read to its end */
};

/* Fills the parts; the arguments only when cs_kernel_name_parse_arguments is called after it, since most
 * kernels are settled by their name alone and template arguments can be kilobytes. */
void cs_kernel_name_scan(const char *text, struct cs_kernel_name *name);
void cs_kernel_name_parse_arguments(struct cs_kernel_name *name);

/* The `ordinal`th argument below `parent` (-1: the kernel's own), or NULL. */
const struct cs_name_argument *cs_kernel_name_argument(
	const struct cs_kernel_name *name, int parent, unsigned int ordinal);

/* enum cs_dtype of a type's own name ("__half", "BFloat16"), CS_DTYPE_UNKNOWN when it is none. */
uint8_t cs_kernel_name_dtype(const char *text, size_t length);

#endif

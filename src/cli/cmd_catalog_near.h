/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that a kernel name nearly matches: for a name that was mistyped, or that a new version of its library
 * has changed. Thread context: any; no state.
 */
#ifndef CS_CMD_CATALOG_NEAR_H
#define CS_CMD_CATALOG_NEAR_H

#include "catalog/catalog.h"

#define CS_CATALOG_NEAR_MAX 3U

/* Indexes of the nearest rows, nearest first; returns how many. Near: the name and the last part of one of
 * the row's patterns share a stretch of at least six letters and digits, and of six tenths of the shorter
 * one. */
size_t cs_catalog_near(
	const struct cs_catalog *catalog, const char *kernel_name, size_t rows[CS_CATALOG_NEAR_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts of the activity records that we read, as prefixes that every CUPTI from 11.8 on shares.
 *
 * CUPTI fills the newest struct of its own version, whatever version the reader was compiled for; older
 * structs are prefixes of newer ones. So one struct per kind serves all: kernel       Kernel8 (11.8), Kernel9
 * (12.0), Kernel10 (13.0), 11 (13.1, + priority), 12 (13.3, + execution model), 13 (13.4, + source graph ids)
 *   memcpy       Memcpy5 (until 12.7), Memcpy6 (12.8, + copyCount)
 *   memcpy peer  MemcpyPtoP4
 *   memset       Memset4
 * Kernel5 ... 7 have the same fields up to the correlation id, but graphs' ids only from 6 and 7 on; CUPTI
 * that old is refused (CS_CUPTI_VERSION_MIN). activity_layout.c compares every offset with the header that is
 * compiled against.
 */
#ifndef CS_ACTIVITY_LAYOUT_H
#define CS_ACTIVITY_LAYOUT_H

#include <stdint.h>

#define CS_CUPTI_VERSION_MIN 18U /* cuptiGetVersion of CUDA 11.8 */

/* Values of CUpti_ActivityKind, the same in every version. */
#define CS_ACTIVITY_MEMCPY            1U
#define CS_ACTIVITY_MEMSET            2U
#define CS_ACTIVITY_KERNEL            3U
#define CS_ACTIVITY_DRIVER            4U
#define CS_ACTIVITY_CONCURRENT_KERNEL 10U
#define CS_ACTIVITY_MEMCPY_PEER       22U

/* Values of CUpti_ActivityMemcpyKind. */
#define CS_COPY_TO_DEVICE        1U
#define CS_COPY_TO_HOST          2U
#define CS_COPY_HOST_TO_ARRAY    3U
#define CS_COPY_ARRAY_TO_HOST    4U
#define CS_COPY_DEVICE_TO_DEVICE 8U
#define CS_COPY_PEER             10U

struct cs_activity_kernel {
	uint32_t kind;
	uint8_t unused_4[12];
	uint64_t start_ns; /* 16 */
	uint64_t end_ns;   /* 24 */
	uint8_t unused_32[8];
	uint32_t device_id;  /* 40 */
	uint32_t context_id; /* 44 */
	uint32_t stream_id;  /* 48 */
	uint8_t unused_52[40];
	uint32_t correlation_id; /* 92 */
	uint8_t unused_96[8];
	const char *name; /* 104 */
	uint8_t unused_112[32];
	uint64_t graph_node_id; /* 144 */
	uint8_t unused_152[4];
	uint32_t graph_id; /* 156 */
};

struct cs_activity_call { /* CUpti_ActivityAPI */
	uint32_t kind;
	uint32_t cbid;
	uint64_t start_ns; /* 8 */
	uint64_t end_ns;
	uint32_t process_id;
	uint32_t thread_id; /* 28: low half of pthread_self, seen with 13.0 */
	uint32_t correlation_id;
	uint32_t return_value;
};

struct cs_activity_copy {
	uint32_t kind;
	uint8_t copy_kind; /* 4 */
	uint8_t unused_5[3];
	uint64_t bytes;          /* 8 */
	uint64_t start_ns;       /* 16 */
	uint64_t end_ns;         /* 24 */
	uint32_t device_id;      /* 32 */
	uint32_t context_id;     /* 36 */
	uint32_t stream_id;      /* 40 */
	uint32_t correlation_id; /* 44 */
	uint8_t unused_48[16];
	uint64_t graph_node_id; /* 64 */
	uint32_t graph_id;      /* 72 */
};

struct cs_activity_copy_peer {
	uint32_t kind;
	uint8_t copy_kind; /* 4 */
	uint8_t unused_5[3];
	uint64_t bytes;      /* 8 */
	uint64_t start_ns;   /* 16 */
	uint64_t end_ns;     /* 24 */
	uint32_t device_id;  /* 32 */
	uint32_t context_id; /* 36 */
	uint32_t stream_id;  /* 40 */
	uint8_t unused_44[16];
	uint32_t correlation_id; /* 60 */
	uint8_t unused_64[8];
	uint64_t graph_node_id; /* 72 */
	uint32_t graph_id;      /* 80 */
};

struct cs_activity_set {
	uint32_t kind;
	uint8_t unused_4[4];
	uint64_t bytes;          /* 8 */
	uint64_t start_ns;       /* 16 */
	uint64_t end_ns;         /* 24 */
	uint32_t device_id;      /* 32 */
	uint32_t context_id;     /* 36 */
	uint32_t stream_id;      /* 40 */
	uint32_t correlation_id; /* 44 */
	uint8_t unused_48[16];
	uint64_t graph_node_id; /* 64 */
	uint32_t graph_id;      /* 72 */
};

#endif

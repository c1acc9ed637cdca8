/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where every field of NCCL's profiler descriptors is, from the start of the descriptor: found by compiling
 * NCCL's own headers for x86-64 (profiler_abi.h says which). Nothing here runs.
 */
#include "profiler_abi.h"

#define CS_NCCL_LEGACY_AT(field, offset)                                                                     \
	_Static_assert(offsetof(struct cs_nccl_event_legacy, field) == (offset), #field)
#define CS_NCCL_MODERN_AT(field, offset)                                                                     \
	_Static_assert(offsetof(struct cs_nccl_event, field) == (offset), #field)
#define CS_NCCL_SIZE(what, bytes) _Static_assert(sizeof(struct what) == (bytes), #what)

CS_NCCL_LEGACY_AT(type, 0);
CS_NCCL_LEGACY_AT(parent, 8);
CS_NCCL_LEGACY_AT(rank, 16);
CS_NCCL_LEGACY_AT(u, 24);

/* v1 */
CS_NCCL_LEGACY_AT(u.coll_v1.name, 24);
CS_NCCL_LEGACY_AT(u.coll_v1.comm_hash, 32);
CS_NCCL_LEGACY_AT(u.coll_v1.sequence, 40);
CS_NCCL_LEGACY_AT(u.coll_v1.func, 48);
CS_NCCL_LEGACY_AT(u.coll_v1.send, 56);
CS_NCCL_LEGACY_AT(u.coll_v1.receive, 64);
CS_NCCL_LEGACY_AT(u.coll_v1.count, 72);
CS_NCCL_LEGACY_AT(u.coll_v1.root, 80);
CS_NCCL_LEGACY_AT(u.coll_v1.datatype, 84);
CS_NCCL_LEGACY_AT(u.coll_v1.op, 88);
CS_NCCL_LEGACY_AT(u.coll_v1.traffic_bytes, 96);
CS_NCCL_LEGACY_AT(u.coll_v1.channels_max, 104);
CS_NCCL_LEGACY_AT(u.coll_v1.warps, 105);
CS_NCCL_LEGACY_AT(u.coll_v1.algorithm, 106);
CS_NCCL_LEGACY_AT(u.coll_v1.protocol, 107);
CS_NCCL_LEGACY_AT(u.coll_v1.collnet, 108);
CS_NCCL_LEGACY_AT(u.coll_v1.nvls, 112);
CS_NCCL_SIZE(cs_nccl_coll_v1, 120 - 24);

/* v2 */
CS_NCCL_LEGACY_AT(u.coll_v2.name, 24);
CS_NCCL_LEGACY_AT(u.coll_v2.comm_hash, 32);
CS_NCCL_LEGACY_AT(u.coll_v2.sequence, 40);
CS_NCCL_LEGACY_AT(u.coll_v2.func, 48);
CS_NCCL_LEGACY_AT(u.coll_v2.send, 56);
CS_NCCL_LEGACY_AT(u.coll_v2.receive, 64);
CS_NCCL_LEGACY_AT(u.coll_v2.count, 72);
CS_NCCL_LEGACY_AT(u.coll_v2.root, 80);
CS_NCCL_LEGACY_AT(u.coll_v2.datatype, 88);
CS_NCCL_LEGACY_AT(u.coll_v2.traffic_bytes, 96);
CS_NCCL_LEGACY_AT(u.coll_v2.channels_max, 104);
CS_NCCL_LEGACY_AT(u.coll_v2.warps, 105);
CS_NCCL_LEGACY_AT(u.coll_v2.algorithm, 112);
CS_NCCL_LEGACY_AT(u.coll_v2.protocol, 120);
CS_NCCL_SIZE(cs_nccl_coll_v2, 128 - 24);

/* v3 */
CS_NCCL_LEGACY_AT(u.coll_v3.name, 24);
CS_NCCL_LEGACY_AT(u.coll_v3.comm_hash, 32);
CS_NCCL_LEGACY_AT(u.coll_v3.sequence, 40);
CS_NCCL_LEGACY_AT(u.coll_v3.func, 48);
CS_NCCL_LEGACY_AT(u.coll_v3.send, 56);
CS_NCCL_LEGACY_AT(u.coll_v3.receive, 64);
CS_NCCL_LEGACY_AT(u.coll_v3.count, 72);
CS_NCCL_LEGACY_AT(u.coll_v3.root, 80);
CS_NCCL_LEGACY_AT(u.coll_v3.datatype, 88);
CS_NCCL_LEGACY_AT(u.coll_v3.channels_max, 96);
CS_NCCL_LEGACY_AT(u.coll_v3.warps, 97);
CS_NCCL_LEGACY_AT(u.coll_v3.algorithm, 104);
CS_NCCL_LEGACY_AT(u.coll_v3.protocol, 112);
CS_NCCL_SIZE(cs_nccl_coll_v3, 120 - 24);

/* v4 */
CS_NCCL_LEGACY_AT(u.coll_v4.sequence, 24);
CS_NCCL_LEGACY_AT(u.coll_v4.func, 32);
CS_NCCL_LEGACY_AT(u.coll_v4.send, 40);
CS_NCCL_LEGACY_AT(u.coll_v4.receive, 48);
CS_NCCL_LEGACY_AT(u.coll_v4.count, 56);
CS_NCCL_LEGACY_AT(u.coll_v4.root, 64);
CS_NCCL_LEGACY_AT(u.coll_v4.datatype, 72);
CS_NCCL_LEGACY_AT(u.coll_v4.channels, 80);
CS_NCCL_LEGACY_AT(u.coll_v4.warps, 81);
CS_NCCL_LEGACY_AT(u.coll_v4.algorithm, 88);
CS_NCCL_LEGACY_AT(u.coll_v4.protocol, 96);
CS_NCCL_SIZE(cs_nccl_coll_v4, 104 - 24);

/* sends and receives, and what is the same in all */
CS_NCCL_LEGACY_AT(u.p2p_v1.name, 24);
CS_NCCL_LEGACY_AT(u.p2p_v1.comm_hash, 32);
CS_NCCL_LEGACY_AT(u.p2p_v1.func, 40);
CS_NCCL_LEGACY_AT(u.p2p_v1.buffer, 48);
CS_NCCL_LEGACY_AT(u.p2p_v1.datatype, 56);
CS_NCCL_LEGACY_AT(u.p2p_v1.count, 64);
CS_NCCL_LEGACY_AT(u.p2p_v1.peer, 72);
CS_NCCL_LEGACY_AT(u.p2p_v2.func, 40);
CS_NCCL_LEGACY_AT(u.p2p_v2.buffer, 48);
CS_NCCL_LEGACY_AT(u.p2p_v2.datatype, 56);
CS_NCCL_LEGACY_AT(u.p2p_v2.count, 64);
CS_NCCL_LEGACY_AT(u.p2p_v2.peer, 72);
CS_NCCL_LEGACY_AT(u.p2p_v4.func, 24);
CS_NCCL_LEGACY_AT(u.p2p_v4.buffer, 32);
CS_NCCL_LEGACY_AT(u.p2p_v4.datatype, 40);
CS_NCCL_LEGACY_AT(u.p2p_v4.count, 48);
CS_NCCL_LEGACY_AT(u.p2p_v4.peer, 56);
CS_NCCL_LEGACY_AT(u.p2p_v4.channels, 60);
CS_NCCL_LEGACY_AT(u.kernel_ch.start_timer, 32);
CS_NCCL_SIZE(cs_nccl_proxy_op, 24);
CS_NCCL_SIZE(cs_nccl_net_plugin, 16);

/* v5 to v7 */
CS_NCCL_MODERN_AT(type, 0);
CS_NCCL_MODERN_AT(parent, 8);
CS_NCCL_MODERN_AT(rank, 16);
CS_NCCL_MODERN_AT(u, 24);
CS_NCCL_MODERN_AT(u.group_api.graph_captured, 24);
CS_NCCL_MODERN_AT(u.group_api.depth, 28);
CS_NCCL_MODERN_AT(u.coll_api.func, 24);
CS_NCCL_MODERN_AT(u.coll_api.count, 32);
CS_NCCL_MODERN_AT(u.coll_api.datatype, 40);
CS_NCCL_MODERN_AT(u.coll_api.root, 48);
CS_NCCL_MODERN_AT(u.coll_api.stream, 56);
CS_NCCL_MODERN_AT(u.coll_api.graph_captured, 64);
CS_NCCL_MODERN_AT(u.coll_api.user_tag, 72);
CS_NCCL_MODERN_AT(u.p2p_api.func, 24);
CS_NCCL_MODERN_AT(u.p2p_api.count, 32);
CS_NCCL_MODERN_AT(u.p2p_api.datatype, 40);
CS_NCCL_MODERN_AT(u.p2p_api.stream, 48);
CS_NCCL_MODERN_AT(u.p2p_api.graph_captured, 56);
CS_NCCL_MODERN_AT(u.p2p_api.user_tag, 64);
CS_NCCL_MODERN_AT(u.kernel_launch.stream, 24);
CS_NCCL_MODERN_AT(u.coll.sequence, 24);
CS_NCCL_MODERN_AT(u.coll.func, 32);
CS_NCCL_MODERN_AT(u.coll.count, 56);
CS_NCCL_MODERN_AT(u.coll.root, 64);
CS_NCCL_MODERN_AT(u.coll.datatype, 72);
CS_NCCL_MODERN_AT(u.coll.channels, 80);
CS_NCCL_MODERN_AT(u.coll.warps, 81);
CS_NCCL_MODERN_AT(u.coll.algorithm, 88);
CS_NCCL_MODERN_AT(u.coll.protocol, 96);
CS_NCCL_MODERN_AT(u.coll_v5.parent_group, 104);
CS_NCCL_MODERN_AT(u.coll_v5.kernel_variant, 112);
CS_NCCL_MODERN_AT(u.coll_v5.symmetric, 120);
CS_NCCL_MODERN_AT(u.coll_v5.user_tag, 128);
CS_NCCL_MODERN_AT(u.p2p_v5.head, 24);
CS_NCCL_MODERN_AT(u.p2p_v5.parent_group, 64);
CS_NCCL_MODERN_AT(u.p2p_v5.user_tag, 72);
CS_NCCL_SIZE(cs_nccl_event, 136);

/* Name and five functions. */
CS_NCCL_SIZE(cs_nccl_profiler_v1, 48);
CS_NCCL_SIZE(cs_nccl_profiler_v4, 48);
CS_NCCL_SIZE(cs_nccl_profiler_v5, 48);

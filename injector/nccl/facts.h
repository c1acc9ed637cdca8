/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's words for operations, element types, algorithms and protocols, and what a count means in bytes. The
 * texts are those of ncclFuncToString, ncclDatatypeToString, ncclAlgoToString and ncclProtoToString; the
 * numbers those of ncclFunc_t, ncclDataType_t, ncclRedOp_t and the NCCL_ALGO_ and NCCL_PROTO_ constants.
 * Pure; unknown input gives the enum's UNKNOWN. NULL texts are fine.
 */
#ifndef CS_NCCL_FACTS_H
#define CS_NCCL_FACTS_H

#include "comm.h"
#include "segment/segment.h"

#include <stddef.h>
#include <stdint.h>

uint8_t cs_nccl_op(const char *func);
uint8_t cs_nccl_dtype(const char *datatype);
uint8_t cs_nccl_algorithm(const char *algorithm);
uint8_t cs_nccl_protocol(const char *protocol);
uint8_t cs_nccl_op_by_number(unsigned int func);
uint8_t cs_nccl_dtype_by_number(unsigned int datatype);
uint8_t cs_nccl_algorithm_by_number(unsigned int algorithm);
uint8_t cs_nccl_protocol_by_number(unsigned int protocol);
/* Of ncclRedOp_t. What a program made itself (a number past the last of NCCL's own) is unknown. */
uint8_t cs_nccl_reduction_by_number(unsigned int op);

/*
 * Message bytes on one rank as nccl-tests counts them, from the bytes of the API's count: all-gather,
 * reduce-scatter, all-to-all, gather and scatter take the count of one rank's part, so the message is `world`
 * times that. CS_BYTES_UNKNOWN when world is needed and not known, or on overflow.
 */
uint64_t cs_nccl_message_bytes(uint8_t op, uint64_t part_bytes, int32_t world);

/* A label of an NCCL collective without sizes: everything unknown but operation and communicator (which of
 * NCCL's implementations runs is told by the kernel's name alone). comm may be NULL. */
void cs_nccl_label_init(struct cs_label *label, struct cs_nccl_comm *comm, uint8_t op, uint8_t source);
/* Adds type and count as the API counts them. */
void cs_nccl_label_count(struct cs_label *label, uint8_t dtype, uint64_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payloads of NCCL's NVTX domain: which communicator, how many bytes, which reduction.
 *
 * NCCL 2.16 to 2.24 sends {bytes, ...}, 2.25 and later {communicator hash, bytes, ...}. Which one it is, and
 * where each field lies, is told by the schema that NCCL registers; where none came, by the payload's size
 * (src/include/nvtx_payload_schemas.h).
 *
 * Thread context: registering happens inside NVTX calls of any thread, decoding too; both lock-free and
 * host-safe.
 */
#ifndef CS_NVTX_PAYLOAD_H
#define CS_NVTX_PAYLOAD_H

#include "nvtx_abi.h"
#include "segment/segment.h"

#include <stdbool.h>

/* Remembers where NCCL's fields lie. Schemas of other ids are ignored. */
void cs_nvtx_schema_register(const nvtxPayloadSchemaAttr_t *schema);

enum cs_nvtx_payload_kind { CS_NVTX_PAYLOAD_OTHER, CS_NVTX_PAYLOAD_COLLECTIVE, CS_NVTX_PAYLOAD_COMMUNICATOR };

/* Decodes one payload of NCCL's domain. COLLECTIVE fills *label. COMMUNICATOR (an init call) has entered the
 * communicator in injector/nccl/comm.h, which only interface versions before 4 need. Reads payload->size
 * bytes at most. */
enum cs_nvtx_payload_kind cs_nvtx_payload_decode(const nvtxPayloadData_t *payload, struct cs_label *label);

#endif

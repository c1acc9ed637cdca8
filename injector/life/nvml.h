/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only NVML knows: the index of a GPU on the node (which is what other exporters name it by), the
 * driver's version, and how GPUs are linked. The library is the driver's own; without it everything is
 * unknown.
 *
 * Threads of ours only: it loads a library, allocates, and NVML may take its time. One user per opening.
 */
#ifndef CS_NVML_H
#define CS_NVML_H

#include "segment/segment.h"

struct cs_nvml; /* opaque */

/* NULL when there is none. */
struct cs_nvml *cs_nvml_open(void);
void cs_nvml_close(struct cs_nvml *nvml); /* NULL is fine */

/* "580.159.04"; "" unknown. */
void cs_nvml_driver_version(struct cs_nvml *nvml, char *text, size_t text_bytes);
/* Fills nvml_index, link[] and link_nvlinks[] of the GPU at this PCI address ("0000:1b:00.0"). 0, or -ENODEV
 * with nvml_index -1. */
int cs_nvml_fill(struct cs_nvml *nvml, const char *pci_bus_id, struct cs_gpu *gpu);

/* Share of the time in which some kernel ran, percent, over NVML's last sample (a sixth of a second to one).
 * 0; -ENODATA when it does not tell (MIG), there is no NVML, or several processes use the GPU. */
int cs_nvml_busy_percent(struct cs_nvml *nvml, const char *pci_bus_id, unsigned int *percent);

/* Memory that a process has on the GPU at this PCI address, as nvidia-smi shows it; `pid` in NVML's
 * namespace, the host's. 0; -ENODATA when there is no NVML, it does not know the process, or it does not
 * tell. */
int cs_nvml_process_bytes(struct cs_nvml *nvml, const char *pci_bus_id, uint32_t pid, uint64_t *bytes);

#endif

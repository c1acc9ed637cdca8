/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this process is: its name, the first words of its command line, its pod, the versions below it, its
 * GPUs, and those environment variables that decide how collectives run.
 *
 * Nothing secret goes into a segment: of the command line only the program and the script or module; of the
 * environment only allow-listed names, and none whose name or value looks like a credential.
 *
 * Worker, unless said otherwise; reads /proc and loads NVML. The filter of the command line is pure; that of
 * the environment is public_environment.h.
 */
#ifndef CS_IDENTITY_H
#define CS_IDENTITY_H

#include "instance.h"

/* Start-up, before anybody sets variables of ours: copies what may be published. */
void cs_identity_keep_environment(char *const *envp);

/* Name, command line and pod: what a segment has that only says why there is nothing else. Any thread, once.
 */
void cs_identity_fill_names(struct cs_segment_writer *writer);

/* The same, versions and environment. */
void cs_identity_fill_process(struct cs_instance *instance, struct cs_segment_writer *writer);

/* Adds a CUDA device to the GPU table. Index in the segment, or -errno. */
int cs_identity_register_gpu(
	struct cs_instance *instance, struct cs_segment_writer *writer, uint32_t device, uint32_t context_id);

/* Program and script of a /proc/PID/cmdline (words end with NUL): "python3 -m
 * vllm.entrypoints.openai.api_server". */
void cs_identity_command_line(const char *words, size_t words_bytes, char *text, size_t text_bytes);

#endif

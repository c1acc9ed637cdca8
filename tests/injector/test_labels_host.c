/* SPDX-License-Identifier: Apache-2.0 */
/* What the host must not feel of the callbacks: no allocation, no system call, errno as it was. */
#include "clock.h"
#include "labels/announce.h"
#include "labels_world.h"

/* must come before cmocka.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);

static uint64_t allocations;

void *
__wrap_malloc(size_t bytes)
{
	allocations++;
	return __real_malloc(bytes);
}

void *
__wrap_calloc(size_t count, size_t bytes)
{
	allocations++;
	return __real_calloc(count, bytes);
}

void *
__wrap_realloc(void *memory, size_t bytes)
{
	allocations++;
	return __real_realloc(memory, bytes);
}

void
__wrap_free(void *memory)
{
	allocations++;
	__real_free(memory);
}

/* Graphs that the rounds work on; made before, since the world itself allocates. */
static struct {
	struct world_vllm arguments;
	struct world_launch launches[3];
	struct world_graph *graph, *source, *exec;
} stage;

static int
setup(void **state)
{
	if (world_setup(state) != 0)
		return -1;
	stage.launches[0] =
		(struct world_launch){.function = &world_vllm, .kernel_params = stage.arguments.params};
	stage.launches[1] =
		(struct world_launch){.function = &world_ordinary, .kernel_params = stage.arguments.params};
	stage.launches[2] = (struct world_launch){.function = &world_nccl};
	stage.graph = world_graph_create();
	stage.source = world_graph_create();
	world_vllm_fill(&stage.arguments, 0, 64);
	for (size_t i = 0; i < 3; i++) {
		world_capture(stage.graph, &stage.launches[i]);
		world_capture(stage.source, &stage.launches[2 - i]);
	}
	stage.exec = world_instantiate(stage.graph);
	return 0;
}

static int
teardown(void **state)
{
	world_destroy_exec(stage.exec);
	world_destroy_graph(stage.graph);
	world_destroy_graph(stage.source);
	return world_teardown(state);
}

/* Every callback and the resolving of records, with sizes that were not seen before. */
static void
play(int32_t rounds)
{
	struct cs_label label = {.op = CS_OP_ALL_REDUCE,
		.source = CS_LABEL_SOURCE_NVTX,
		.rank = CS_RANK_UNKNOWN,
		.world = CS_RANK_UNKNOWN,
		.bytes = 512};

	for (int32_t round = 0; round < rounds; round++) {
		world_unload_module(); /* everything is worked out again */
		for (size_t i = 0; i < 3; i++) {
			const char *name = stage.launches[i].function->name;

			world_vllm_fill(&stage.arguments, 0, 1000 + round);
			cs_announce_begin();
			cs_announce_collective(&label, 0);
			world_resolve(name, 0, world_eager(&stage.launches[i]));
			cs_announce_late(&label, 3);
			cs_announce_late_end();
			cs_announce_end();
			world_set_node(stage.graph->nodes[i], &stage.launches[2 - i]);
			world_set_exec(stage.exec, stage.graph->nodes[i], &stage.launches[2 - i], true);
			world_resolve(name, stage.exec->nodes[i]->id, 1);
			world_resolve(name, 12345, 1);
		}
		world_update(stage.exec, stage.source, true);
		world_graph_launch(stage.exec);
	}
}

static void
test_callbacks_allocate_nothing_and_keep_errno(void **state)
{
	(void)state;
	errno = ENOTTY;
	allocations = 0;
	play(100);
	assert_int_equal(allocations, 0);
	assert_int_equal(errno, ENOTTY);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ALLOW(number)                                                                                        \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* From here on any system call ends the process; but for reading a clock, which is one on some machines. */
static bool
forbid_system_calls(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_clock_gettime),
		ALLOW(SYS_exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {.len = sizeof(rules) / sizeof(rules[0]), .filter = rules};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum { SURVIVED = 3, NOT_FORBIDDEN = 4 };

static void
play_more(void)
{
	play(50);
}

static void
ask_for_a_process_id(void)
{
	syscall(SYS_getppid);
}

static int
run_without_system_calls(void (*work)(void))
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		play(1); /* a thread's first call asks for its id */
		if (!forbid_system_calls())
			_exit(NOT_FORBIDDEN);
		work();
		_exit(SURVIVED);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
test_callbacks_make_no_system_call(void **state)
{
	(void)state;
	/* A kernel that does not enforce it proves nothing. */
	if (run_without_system_calls(ask_for_a_process_id) != -1)
		skip();
	assert_int_equal(run_without_system_calls(play_more), SURVIVED);
}
#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_callbacks_allocate_nothing_and_keep_errno),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(test_callbacks_make_no_system_call),
#endif
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

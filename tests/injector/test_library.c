/* SPDX-License-Identifier: Apache-2.0 */
/* A look at the loaded libraries, and a fork in the middle of it. */
#include "life/instance.h"
#include "life/library.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static _Atomic bool inside;

static int
linger(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)info, (void)bytes, (void)context;
	atomic_store(&inside, true);
	usleep(50000);
	return 1;
}

static int
pass(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)info, (void)bytes, (void)context;
	return 1;
}

static void *
look(void *argument)
{
	(void)argument;
	cs_library_visit(linger, NULL);
	return NULL;
}

/* The child is made when the look is over, and can look itself. */
static void
test_fork_waits(void **state)
{
	pthread_t thread;
	int status = 0;
	pid_t child;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, look, NULL), 0);
	while (!atomic_load(&inside))
		usleep(1000);
	child = fork();
	if (child == 0) {
		alarm(60); /* instead of for ever */
		dl_iterate_phdr(pass, NULL);
		cs_library_visit(pass, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pthread_join(thread, NULL);
	cs_library_visit(pass, NULL);
}

static _Atomic int children;

static void
fork_in_handler(int number)
{
	int status = 1;
	pid_t child = fork();

	(void)number;
	if (child == 0)
		_exit(0);
	if (waitpid(child, &status, 0) == child && status == 0)
		atomic_fetch_add(&children, 1);
}

static int
interrupt(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)info, (void)bytes, (void)context;
	raise(SIGUSR1);
	return 1;
}

/* The handler would wait for its own thread. It runs when the look is over, and once. */
static void
test_handler_forks(void **state)
{
	const struct sigaction forks = {.sa_handler = fork_in_handler};

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &forks, NULL), 0);
	alarm(60); /* instead of for ever */
	cs_library_visit(interrupt, NULL);
	alarm(0);
	assert_int_equal(atomic_load(&children), 1);
	assert_int_equal(raise(SIGUSR1), 0); /* its mask is as before */
	assert_int_equal(atomic_load(&children), 2);
}

static _Atomic bool blocked;

/* Inside the host's own look: the loader's lock is this thread's. */
static int
fork_inside(struct dl_phdr_info *info, size_t bytes, void *context)
{
	int *status = context;
	pid_t child;

	(void)info, (void)bytes;
	atomic_store(&inside, true);
	while (!atomic_load(&blocked))
		usleep(1000);
	usleep(100000); /* until our look waits for that lock */
	child = fork();
	if (child == 0)
		_exit(0);
	waitpid(child, status, 0);
	return 1;
}

static void *
look_after(void *argument)
{
	(void)argument;
	while (!atomic_load(&inside))
		usleep(1000);
	atomic_store(&blocked, true);
	cs_library_visit(pass, NULL);
	return NULL;
}

/* Each has what the other waits for: the fork gives in, and later ones wait as ever. */
static void
test_fork_inside_a_look(void **state)
{
	pthread_t thread;
	int status = 1;

	(void)state;
	atomic_store(&inside, false);
	alarm(60); /* instead of for ever */
	assert_int_equal(pthread_create(&thread, NULL, look_after, NULL), 0);
	dl_iterate_phdr(fork_inside, &status);
	pthread_join(thread, NULL);
	assert_int_equal(status, 0);
	alarm(0);
	atomic_store(&inside, false);
	test_fork_waits(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_handler_forks),
		cmocka_unit_test(test_fork_waits), cmocka_unit_test(test_fork_inside_a_look)};

	cs_fork_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

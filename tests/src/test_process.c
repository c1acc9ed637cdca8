/* SPDX-License-Identifier: Apache-2.0 */
/* A child that waits for us, then one that has ended, then one that has been waited for: with a pidfd, and
 * where the kernel has none. */
#include "process.h"

#include "descriptors.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka.h needs those above first. */
#include <cmocka.h>

static int refusal; /* what pidfd_open says; 0: it is the kernel's */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long
__wrap_syscall(long number, ...)
{
	va_list arguments;
	pid_t pid;
	unsigned int flags;

	assert_int_equal(number, SYS_pidfd_open);
	va_start(arguments, number);
	pid = va_arg(arguments, pid_t);
	flags = va_arg(arguments, unsigned int);
	va_end(arguments);
	if (refusal == 0)
		return __real_syscall(number, pid, flags);
	errno = refusal;
	return -1;
}

static void
follow_child(bool sees_zombies)
{
	unsigned int descriptors;
	int hold[2];
	siginfo_t info;
	pid_t child;
	char byte;

	assert_int_equal(pipe(hold), 0);
	child = fork();
	if (child == 0) {
		close(hold[1]);
		_exit((int)read(hold[0], &byte, 1));
	}
	assert_true(child > 0);
	close(hold[0]);
	descriptors = count_descriptors();
	assert_false(cs_process_has_ended(child));
	close(hold[1]);
	/* Ends, and stays as it is. */
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(cs_process_has_ended(child), sees_zombies);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_true(cs_process_has_ended(child));
	assert_int_equal(count_descriptors(), descriptors - 1);
}

static void
test_with_pidfd(void **state)
{
	(void)state;
	refusal = 0;
	follow_child(true);
	assert_false(cs_process_has_ended(getpid()));
}

static void
test_without_pidfd(void **state)
{
	static const int refusals[] = {ENOSYS, EPERM, EMFILE};

	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		refusal = refusals[i];
		follow_child(false);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_with_pidfd),
		cmocka_unit_test(test_without_pidfd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "life/exporter_spawn.h"
#include "segment/exporter_lock.h"

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];

static int
setup(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/collscope-spawn-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int
teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

static void
write_script(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(path, 0755), 0);
}

static void
test_lock(void **state)
{
	static const char text[] = "pid 4711\naddress 127.0.0.1:19400\n";
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct cs_exporter_serving serving;
	char path[128];
	int fd;

	(void)state;
	assert_false(cs_exporter_is_running(directory));
	snprintf(path, sizeof(path), "%s/exporter.lock", directory);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_false(cs_exporter_is_running(directory));
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	assert_true(cs_exporter_is_running(directory));
	assert_int_equal(cs_exporter_find_serving(directory, &serving), -EAGAIN);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	assert_int_equal(cs_exporter_find_serving(directory, &serving), 0);
	assert_int_equal(serving.pid, 4711);
	assert_string_equal(serving.address, "127.0.0.1:19400");
	close(fd);
	assert_false(cs_exporter_is_running(directory));
	assert_int_equal(cs_exporter_find_serving(directory, &serving), -ENOENT);
	/* Nobody is waited for. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(cs_exporter_is_running(directory));
	assert_int_equal(unlink(path), 0);
}

static void
test_find(void **state)
{
	char library[128], exporter[128], path[256], wanted[256];

	(void)state;
	snprintf(library, sizeof(library), "%s/lib/libcollscope.so", directory);
	assert_int_equal(cs_exporter_find("", library, path, sizeof(path)), -ENOENT);
	snprintf(exporter, sizeof(exporter), "%s/lib", directory);
	mkdir(exporter, 0755);
	snprintf(exporter, sizeof(exporter), "%s/bin", directory);
	mkdir(exporter, 0755);
	snprintf(exporter, sizeof(exporter), "%s/bin/collscope-exporter", directory);
	write_script(exporter, "#!/bin/sh\n");
	assert_int_equal(cs_exporter_find("", library, path, sizeof(path)), 0);
	snprintf(wanted, sizeof(wanted), "%s/lib/../bin/collscope-exporter", directory);
	assert_string_equal(path, wanted);
	snprintf(wanted, sizeof(wanted), "%s/missing", directory);
	assert_int_equal(cs_exporter_find(wanted, library, path, sizeof(path)), -ENOENT);
	assert_int_equal(cs_exporter_find(exporter, "", path, sizeof(path)), 0);
}

static volatile sig_atomic_t child_signals;

static void
on_child(int number)
{
	(void)number;
	child_signals++;
}

/* What the new process sees of us: nothing. What we see of it: neither a signal nor a child. */
static void
test_start(void **state)
{
	static struct cs_settings settings = {.exporter = true, .listen = "127.0.0.1:1"};
	char script[512], line[512] = "", wanted[256];
	struct stat status;
	pid_t pid;
	FILE *file;

	(void)state;
	snprintf(settings.exporter_path, sizeof(settings.exporter_path), "%s/collscope-exporter", directory);
	snprintf(script, sizeof(script),
		"#!/bin/sh\n"
		"echo \"$* notify=[$NOTIFY_SOCKET] fds=$(ls /proc/self/fd | wc -l)\" > %s/out.tmp\n"
		"mv %s/out.tmp %s/out\n",
		directory, directory, directory);
	write_script(settings.exporter_path, script);
	strcpy(settings.steps, "/etc/steps");
	settings.stall_s = 30;
	setenv("NOTIFY_SOCKET", "/somewhere/socket", 1);
	signal(SIGCHLD, on_child);
	assert_true(open("/dev/null", O_RDONLY) >= 0); /* without O_CLOEXEC */

	assert_int_equal(cs_exporter_spawn(&settings, directory, &pid), 0);
	assert_true(pid > 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	snprintf(script, sizeof(script), "%s/out", directory);
	while (stat(script, &status) != 0)
		usleep(1000); /* the test's own time limit ends this when it never comes */
	assert_int_equal(child_signals, 0);
	signal(SIGCHLD, SIG_DFL);

	file = fopen(script, "r");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	fclose(file);
	/* 0, 1, 2, and the one that ls opens for the folder. */
	snprintf(wanted, sizeof(wanted),
		"--collscope.auto --collscope.dir=%s --web.listen-address=127.0.0.1:1 "
		"--collscope.steps=/etc/steps --collscope.stall=30s "
		"notify=[] fds=4\n",
		directory);
	assert_string_equal(line, wanted);
}

/* An "exporter" that holds no lock, so it is always gone. */
static void
write_empty_script(struct cs_settings *settings)
{
	snprintf(
		settings->exporter_path, sizeof(settings->exporter_path), "%s/collscope-exporter", directory);
	write_script(settings->exporter_path, "#!/bin/sh\n");
}

#define SECOND 1000000000ULL

/* Returns when the watch next started one, looking once a second until until_ns; 0 never. */
static uint64_t
watch_until(struct cs_exporter_watch *watch, const struct cs_settings *settings, uint64_t *now_ns,
	uint64_t until_ns)
{
	for (; *now_ns <= until_ns; *now_ns += SECOND) {
		int result = cs_exporter_watch(watch, settings, directory, *now_ns);

		assert_in_range(result, 0, 1);
		if (result == 0) {
			uint64_t at_ns = *now_ns;

			*now_ns += SECOND;
			return at_ns;
		}
	}
	return 0;
}

/* Gone at the look after 30 s and still 5 s later: started. Gone over and over: ever more rarely. */
static void
test_watch_starts_again(void **state)
{
	static struct cs_settings settings = {.exporter = true, .listen = "127.0.0.1:1"};
	static const uint64_t pauses_s[] = {30, 30, 60, 120, 240, 480, 480};
	struct cs_exporter_watch watch = {0};
	uint64_t now_ns = 1000 * SECOND;
	uint64_t last_ns = now_ns;

	(void)state;
	write_empty_script(&settings);
	for (size_t i = 0; i < sizeof(pauses_s) / sizeof(pauses_s[0]); i++) {
		uint64_t at_ns = watch_until(&watch, &settings, &now_ns, last_ns + 1000 * SECOND);

		assert_int_equal((at_ns - last_ns) / SECOND, pauses_s[i] + 5);
		last_ns = at_ns;
	}
}

static int
hold_lock(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/exporter.lock", directory);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	return fd;
}

/* None while one runs, nor when it comes back by itself in between, nor when none is wanted. */
static void
test_watch_leaves_alone(void **state)
{
	static struct cs_settings settings = {.exporter = true, .listen = "127.0.0.1:1"};
	struct cs_exporter_watch watch = {0};
	uint64_t now_ns = 1000 * SECOND;
	int fd = hold_lock();

	(void)state;
	write_empty_script(&settings);
	assert_int_equal(watch_until(&watch, &settings, &now_ns, 1100 * SECOND), 0);
	close(fd);
	/* Looks at 1030, 1060, 1090, 1120: there it is seen to be gone. */
	assert_int_equal(watch_until(&watch, &settings, &now_ns, 1122 * SECOND), 0);
	fd = hold_lock();
	assert_int_equal(watch_until(&watch, &settings, &now_ns, 1150 * SECOND), 0);
	close(fd);
	assert_int_equal(watch_until(&watch, &settings, &now_ns, 1200 * SECOND), 1160 * SECOND);

	settings.exporter = false;
	watch = (struct cs_exporter_watch){0};
	assert_int_equal(watch_until(&watch, &settings, &now_ns, 2000 * SECOND), 0);
}

/* What is written to descriptor 2 from now on, until heard(). */
static int heard_fd = -1, stderr_fd = -1;

static void
listen_to_stderr(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/stderr", directory);
	heard_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
	stderr_fd = dup(STDERR_FILENO);
	assert_true(heard_fd >= 0 && dup2(heard_fd, STDERR_FILENO) >= 0);
}

static const char *
heard(void)
{
	static char text[4096];
	ssize_t length = pread(heard_fd, text, sizeof(text) - 1, 0);

	dup2(stderr_fd, STDERR_FILENO);
	close(stderr_fd);
	close(heard_fd);
	text[length > 0 ? length : 0] = 0;
	return text;
}

/* Once a second until it is known what became of the exporter; real time has to pass for that. */
static void
watch_until_known(struct cs_exporter_watch *watch, const struct cs_settings *settings, uint64_t now_ns)
{
	while (watch->started) {
		assert_int_equal(cs_exporter_watch(watch, settings, directory, now_ns), 1);
		usleep(1000);
	}
}

/* One warning, however often it is started in vain, and again once it has served in between. */
static void
test_end_is_told_once(void **state)
{
	static struct cs_settings settings = {.exporter = true, .listen = "127.0.0.1:1"};
	struct cs_exporter_watch watch = {0};
	char path[128], wanted[512];
	int fd;

	(void)state;
	cs_log_setup("collscope", CS_LOG_INFO, CS_LOG_PLAIN);
	write_empty_script(&settings);
	snprintf(path, sizeof(path), "%s/exporter.log", directory);
	snprintf(wanted, sizeof(wanted),
		"collscope: warn: The exporter that was started does not run, so nobody serves metrics: "
		"\"%s\" "
		"says why, and so does collscope status.\n",
		path);
	write_script(path, "");
	for (int round = 0; round < 2; round++) {
		/* The lock alone is not enough: it listens when its address is there. */
		assert_int_equal(cs_exporter_spawn(&settings, directory, &watch.started), 0);
		fd = hold_lock();
		listen_to_stderr();
		for (int i = 0; i < 10; i++)
			cs_exporter_watch(&watch, &settings, directory, 1000 * SECOND);
		assert_true(watch.started > 0);
		assert_int_equal(write(fd, "pid 7\naddress 127.0.0.1:19400\n", 30), 30);
		watch_until_known(&watch, &settings, 1000 * SECOND);
		assert_string_equal(heard(), "collscope: info: Exporter started listen=127.0.0.1:19400\n");
		assert_int_equal(ftruncate(fd, 0), 0);
		close(fd);
		listen_to_stderr();
		for (int i = 0; i < 3; i++) {
			assert_int_equal(cs_exporter_spawn(&settings, directory, &watch.started), 0);
			watch_until_known(&watch, &settings, 1000 * SECOND);
		}
		assert_string_equal(heard(), wanted);
	}
	cs_log_setup("collscope", CS_LOG_WARN, CS_LOG_PLAIN);
}

/* A linker that finds no library, say, writes no log: then there is something to run. And where orphans go to
 * the host (process 1 of a container) and it waits for none, the ended one is still a process. */
static void
test_end_without_a_word(void **state)
{
	static struct cs_settings settings = {.exporter = true, .listen = "127.0.0.1:1"};
	struct cs_exporter_watch watch = {0};
	char wanted[CS_PATH_BYTES + 64];
	pid_t pid;

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	write_empty_script(&settings);
	listen_to_stderr();
	assert_int_equal(cs_exporter_spawn(&settings, directory, &watch.started), 0);
	pid = watch.started;
	watch_until_known(&watch, &settings, 1000 * SECOND);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
	snprintf(wanted, sizeof(wanted), "so nobody serves metrics: run \"%s\" to see why.\n",
		settings.exporter_path);
	assert_non_null(strstr(heard(), wanted));
}

static void
test_not_wanted(void **state)
{
	static struct cs_settings settings = {.exporter = false};
	pid_t pid = 1;

	(void)state;
	assert_int_equal(cs_exporter_spawn(&settings, directory, &pid), 1);
	assert_int_equal(pid, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: a failure is told once in a process. */
		cmocka_unit_test_setup_teardown(test_end_without_a_word, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_find, setup, teardown),
		cmocka_unit_test_setup_teardown(test_start, setup, teardown),
		cmocka_unit_test_setup_teardown(test_watch_starts_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_watch_leaves_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_is_told_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_wanted, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

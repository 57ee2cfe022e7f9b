// What a machine can do to a program that watches it. Each mode reads every other page of a device past the
// page cache, or does as it says.
// usage: hostile reuse|rename|threads DEVICE COUNT
//        hostile stacks DEVICE COUNT
//        hostile deep FOLDER DEPTH
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

static int device;
static void *page;

static void fail(const char *what)
{
	perror(what);
	_exit(1);
}

static void read_page(long index)
{
	if (pread(device, page, PAGE, 2L * PAGE * index) != PAGE)
		fail("read");
}

static void named(const char *name, long number)
{
	char text[16];

	snprintf(text, sizeof(text), "%s-%ld", name, number);
	prctl(PR_SET_NAME, text);
}

// A child with the number `wanted`; any for 0.
static pid_t child(pid_t wanted)
{
	struct clone_args how = { .exit_signal = SIGCHLD };

	if (wanted) {
		how.set_tid = (uintptr_t)&wanted;
		how.set_tid_size = 1;
	}
	return syscall(SYS_clone3, &how, sizeof(how));
}

// Processes with the same number, one after the other, each with a name of its own.
static void reuse(long count)
{
	pid_t number = 0, own;

	for (long index = 0; index < count; index++) {
		own = child(number);
		if (own < 0 && errno == EEXIST) {
			// Somebody else has it meanwhile: another one.
			number = 0;
			own = child(0);
		}
		if (own < 0)
			fail("clone3");
		if (own == 0) {
			named("reuse", index);
			read_page(index);
			_exit(0);
		}
		number = own;
		waitpid(own, NULL, 0);
	}
}

static void rename_often(long count)
{
	for (long index = 0; index < count; index++) {
		named("rename", index);
		read_page(index);
	}
}

static void *one_thread(void *argument)
{
	named("thread", (long)argument);
	read_page((long)argument);
	return NULL;
}

// Threads that live for one read each.
static void threads(long count)
{
	pthread_t thread;

	for (long index = 0; index < count; index++) {
		if (pthread_create(&thread, NULL, one_thread, (void *)index))
			fail("thread");
		pthread_join(thread, NULL);
	}
}

#define LEVELS 20

static void descend(long index, int level);

static __attribute__((noinline)) void even(long index, int level)
{
	descend(index, level);
	__asm__ volatile("" ::: "memory"); // No tail call.
}

static __attribute__((noinline)) void odd(long index, int level)
{
	descend(index, level);
	__asm__ volatile("" ::: "memory");
}

// The bits of the number are the way taken.
static __attribute__((noinline)) void descend(long index, int level)
{
	if (level == LEVELS)
		read_page(index % 1024);
	else if (index >> level & 1)
		odd(index, level + 1);
	else
		even(index, level + 1);
	__asm__ volatile("" ::: "memory");
}

// Folders in folders until a path is far longer than any call takes, and a file in the last.
static void deep(const char *folder, long depth)
{
	char name[201];
	int file;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	if (chdir(folder))
		fail(folder);
	while (depth--)
		if (mkdir(name, 0700) || chdir(name))
			fail("folder");
	file = open("file", O_CREAT | O_WRONLY, 0600);
	if (file < 0 || write(file, page, PAGE) != PAGE || fsync(file))
		fail("file");
	unlink("file");
}

int main(int count, char **arguments)
{
	const char *mode = arguments[1];
	long number;

	if (count != 4)
		return 2;
	number = atol(arguments[3]);
	if (posix_memalign(&page, PAGE, PAGE))
		return 1;
	memset(page, 'x', PAGE);
	if (!strcmp(mode, "deep")) {
		deep(arguments[2], number);
		return 0;
	}
	device = open(arguments[2], O_RDONLY | O_DIRECT);
	if (device < 0)
		fail(arguments[2]);
	if (!strcmp(mode, "reuse"))
		reuse(number);
	else if (!strcmp(mode, "rename"))
		rename_often(number);
	else if (!strcmp(mode, "threads"))
		threads(number);
	else if (!strcmp(mode, "stacks"))
		for (long index = 0; index < number; index++)
			descend(index, 0);
	else
		return 2;
	return 0;
}

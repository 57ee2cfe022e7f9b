/*
 * Writes blocks of a device directly, by functions that are called like nothing else, in a thread and in main.
 * It is compiled without frame pointers: only .eh_frame shows who called whom.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096

static int disk;
static time_t until;

static __attribute__((noinline)) int write_one(const void *block, long number)
{
	ssize_t done = pwrite(disk, block, BLOCK, number % 64 * BLOCK);

	__asm__ volatile("" ::: "memory");
	return done == BLOCK ? 0 : 1;
}

static __attribute__((noinline)) int writes_at_depth(int depth, const void *block, long number)
{
	volatile int on_stack[20];
	int failed;

	on_stack[depth] = depth;
	failed = depth ? writes_at_depth(depth - 1, block, number) : write_one(block, number);
	__asm__ volatile("" ::: "memory");
	return failed + on_stack[depth] - depth;
}

static __attribute__((noinline)) void *writer(void *first)
{
	long number = (long)first;
	void *block;

	if (posix_memalign(&block, BLOCK, BLOCK))
		exit(2);
	memset(block, 7, BLOCK);
	while (time(NULL) < until)
		if (writes_at_depth(6, block, number++))
			exit(1);
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t thread;

	disk = count > 2 ? open(arguments[1], O_WRONLY | O_DIRECT) : -1;
	if (disk < 0)
		return 2;
	until = time(NULL) + atoi(arguments[2]);
	if (pthread_create(&thread, NULL, writer, (void *)32L))
		return 2;
	writer(NULL);
	pthread_join(thread, NULL);
	return 0;
}
